"""Counts how densely the code is written and how plainly it is named, per package; keeps the limits of the ratchet.

    python tests/structure/prose.py             a row per package, with the limits
    python tests/structure/prose.py --lower     lower the limits in prose_limits.toml to what stands now
    python tests/structure/prose.py --worst 20  the functions to look at first

Every count is of functions or constructs, none is an average: no formatter and no wider line changes them. They are a
thermometer. What decides is a reader who did not write the code.
"""

from __future__ import annotations

import argparse
import ast
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMITS = Path(__file__).with_name("prose_limits.toml")
PACKAGES = {
    **{
        f"bftrainer/{path.parent.name}": path.parent
        for path in sorted(ROOT.glob("bftrainer/*/__init__.py"))
    },
    **{path.parent.name: path.parent for path in sorted(ROOT.glob("adapters/*/__init__.py"))},
    **{path.parent.name: path.parent for path in sorted(ROOT.glob("replay/*/__init__.py"))},
}

VAGUE = frozenset(
    [
        "found",
        "it",
        "known",
        "most",
        "told",
        "each",
        "one",
        "ones",
        "mine",
        "there",
        "gone",
        "said",
        "asked",
        "much",
        "many",
        "so",
        "thing",
        "things",
    ]
)
"""Names that do not say what they stand for. A participle that names a state (`held`, `left`) is not among them."""
BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.comprehension,
    ast.match_case,
)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Counts:
    """The counts of one package; a smaller number is better in every field.

    ``nested`` counts conditional expressions and comprehensions inside another one, ``vague`` functions that bind or set a
    name of VAGUE, ``branches_21`` and ``branches_31`` functions with as many branches or more, those of nested functions
    included, ``parameters_11`` functions with 11 parameters or more (click commands and configuration tables apart), and
    ``unformatted`` the places that the formatter must skip.
    """

    nested: int = 0
    vague: int = 0
    branches_21: int = 0
    branches_31: int = 0
    parameters_11: int = 0
    unformatted: int = 0


def counts_of(folder: Path) -> Counts:
    """The counts of all modules below a folder."""
    total = Counter[str]()
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        total["nested"] += _nested_expressions(tree)
        total["unformatted"] += text.count("# fmt: skip") + text.count("# fmt: off")
        for function in _functions(tree):
            branches = branch_count(function)
            total["vague"] += bool(bound_names(function) & VAGUE)
            total["branches_21"] += branches >= 21
            total["branches_31"] += branches >= 31
            total["parameters_11"] += len(_parameters(function)) >= 11 and not _is_command(function)
    return Counts(**total)


def limits() -> dict[str, Counts]:
    """The limits of every package."""
    tables = tomllib.loads(LIMITS.read_text(encoding="utf-8"))
    return {name: Counts(**table) for name, table in tables.items()}


def branch_count(function: Function) -> int:
    """Branches and boolean operators of a function and of those inside it, plus 1."""
    count = 1
    for node in ast.walk(function):
        if isinstance(node, BRANCHES):
            count += 1
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
    return count


def bound_names(function: Function) -> set[str]:
    """Parameters, variables and attributes that a function binds or sets, those of lambdas and nested functions included."""
    names = set(_parameters(function))
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr.strip("_"))
        elif isinstance(node, Function | ast.Lambda):
            names.update(_parameters(node))
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
    return names


def _parameters(function: Function | ast.Lambda) -> list[str]:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    rest = [extra for extra in (arguments.vararg, arguments.kwarg) if extra is not None]
    return [argument.arg for argument in (*named, *rest) if argument.arg not in ("self", "cls")]


def _is_command(function: Function) -> bool:
    """Whether click calls the function: a parameter for each option is click's way."""
    return any("command" in ast.unparse(decorator) for decorator in function.decorator_list)


def _functions(tree: ast.AST) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


def _nested_expressions(tree: ast.AST) -> int:
    """How many conditional expressions and comprehensions stand inside another one."""
    dense = (ast.IfExp, *COMPREHENSIONS)
    count = 0
    for outer in ast.walk(tree):
        if isinstance(outer, dense):
            inner = [node for node in ast.walk(outer) if node is not outer]
            count += sum(isinstance(node, dense) for node in inner)
    return count


def _as_toml(tables: Mapping[str, Counts]) -> str:
    lines = ["# Limits that may only fall: python tests/structure/prose.py --lower"]
    for name, counts in tables.items():
        lines += [
            "",
            f'["{name}"]',
            *(f"{field} = {number}" for field, number in vars(counts).items()),
        ]
    return "\n".join(lines) + "\n"


def _lowered(now: Counts, limit: Counts) -> Counts:
    return Counts(**{field: min(number, vars(limit)[field]) for field, number in vars(now).items()})


def main() -> None:
    """Print the counts, the worst functions, or lower the limits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--lower",
        action="store_true",
        help="write the counts of today as limits, where they are lower",
    )
    parser.add_argument(
        "--worst",
        type=int,
        default=0,
        metavar="N",
        help="print the N functions with the most branches",
    )
    options = parser.parse_args()
    now = {name: counts_of(folder) for name, folder in PACKAGES.items()}
    before = limits() if LIMITS.exists() else now
    for name, counts in now.items():
        fields = vars(counts).items()
        print(
            f"{name:<22}",
            *(
                f"{field} {number}/{vars(before.get(name, counts))[field]}"
                for field, number in fields
            ),
        )
    if options.lower:
        lowered = {name: _lowered(counts, before.get(name, counts)) for name, counts in now.items()}
        LIMITS.write_text(_as_toml(lowered), encoding="utf-8")
    if options.worst:
        scores = []
        for folder in PACKAGES.values():
            for path in sorted(folder.rglob("*.py")):
                for function in _functions(ast.parse(path.read_text(encoding="utf-8"))):
                    place = f"{path.relative_to(ROOT)}:{function.lineno} {function.name}"
                    scores.append((branch_count(function), place))
        for score, place in sorted(scores, reverse=True)[: options.worst]:
            print(f"{score:4}  {place}")


if __name__ == "__main__":
    main()
