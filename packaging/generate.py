"""Write the man pages and the shell completion files that the wheel installs. ``--check``: only say
what is not current.

    python packaging/generate.py            writes packaging/man/*.1 and packaging/completions/*

The files are checked in, so that a wheel is built without importing bftrainer and its dependencies.
They are made from the click commands, the completion files by click itself. The library click-man
(0.6.0) does not cope with these commands: it reads ``Group.commands``, which a group that imports
its commands lazily leaves empty; it prints click's ``\\b`` as a control character; and it does not
escape a line that begins with a period, which roff takes for a request.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click

from bftrainer import __version__
from bftrainer.console.cli.completion import PROGRAM, source_of
from bftrainer.console.cli.main import bftrainer

HERE = Path(__file__).parent
COMPLETIONS = {"bash": PROGRAM, "zsh": f"_{PROGRAM}", "fish": f"{PROGRAM}.fish"}
"""The file of each shell, named as the shell looks for it."""

_EXIT_STATUS = (
    ("0", "Success."),
    ("1", "An error of the program or the system."),
    ("2", "An error of the user."),
)


def commands(
    command: click.Command = bftrainer, context: click.Context | None = None
) -> Iterator[click.Context]:
    """A command and all below it that are not hidden, each as a context with its full name."""
    if context is None:
        context = context_of(command, PROGRAM)
    yield context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                yield from commands(found, context_of(found, name, context))


def context_of(
    command: click.Command, name: str, parent: click.Context | None = None
) -> click.Context:
    """The context that the command gets when it is called, with its own settings."""
    return click.Context(command, parent, info_name=name, **command.context_settings)


def escape(text: str) -> str:
    """Text as roff prints it unchanged: a hyphen that can be copied, no line that begins with a
    request.
    """
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def page_name(context: click.Context) -> str:
    """``bftrainer-replay-run``: the man page of ``bftrainer replay run``."""
    return context.command_path.replace(" ", "-")


def summary(command: click.Command) -> str:
    """The first sentence of a command's help."""
    first = cleandoc(command.help or "").split("\n\n")[0].split("\b")[0]
    return re.split(r"(?<=[.?])\s", " ".join(first.split()))[0]


def description(help_text: str) -> list[str]:
    """A command's help: paragraphs, and examples (marked with ``\\b``) line by line. ``Example:``
    becomes a heading.
    """
    lines = []
    for paragraph in cleandoc(help_text).split("\n\n"):
        if not paragraph.startswith("\b"):
            lines += [".PP", escape(" ".join(paragraph.split()))]
            continue
        body = paragraph.removeprefix("\b").strip("\n").split("\n")
        if body[0].rstrip(":") in ("Example", "Examples"):
            lines.append(".SH EXAMPLES")
            body = cleandoc("\n".join(["", *body[1:]])).split("\n")
        lines += [".PP", ".nf", *(escape(line) for line in body), ".fi"]
    return lines


def options(context: click.Context) -> list[str]:
    """One entry per option, as ``--help`` has it."""
    lines = []
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            names = re.sub(r"(?<!\S)(-[^\s,]*)", r"\\fB\1\\fR", record[0])
            lines += [
                ".TP",
                escape(names).replace("\\ef", "\\f"),
                escape(" ".join(record[1].split())),
            ]
    return lines


def subcommands(context: click.Context) -> list[str]:
    """One entry per command of a group, with the name of its own page."""
    lines = []
    group = context.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if found is not None and not found.hidden:
            page = escape(f"{page_name(context)}-{name}")
            lines += [".TP", f"\\fB{page}\\fR(1)", escape(summary(found))]
    return lines


def man_page(context: click.Context) -> str:
    """One man page. Without a date: the same command gives the same page every day."""
    name = page_name(context)
    parts = description(context.command.help or "")
    examples = parts.index(".SH EXAMPLES") if ".SH EXAMPLES" in parts else len(parts)
    usage = " ".join(context.command.collect_usage_pieces(context))
    lines = [
        '.\\" Generated by packaging/generate.py; do not edit.',
        f'.TH "{escape(name.upper())}" "1" "" "{PROGRAM} {__version__}" "{PROGRAM} manual"',
        ".SH NAME",
        f"{escape(name)} \\- {escape(summary(context.command).rstrip('.'))}",
        ".SH SYNOPSIS",
        f"\\fB{escape(context.command_path)}\\fR {escape(usage)}",
        ".SH DESCRIPTION",
        *parts[:examples],
        ".SH OPTIONS",
        *options(context),
    ]
    if isinstance(context.command, click.Group):
        lines += [".SH COMMANDS", *subcommands(context)]
    lines += parts[examples:]
    if context.parent is None:
        lines.append(".SH EXIT STATUS")
        for status, meaning in _EXIT_STATUS:
            lines += [".TP", f"\\fB{status}\\fR", meaning]
    else:
        lines += [".SH SEE ALSO", f"\\fB{escape(page_name(context.parent))}\\fR(1)"]
    return "\n".join(lines) + "\n"


def generated() -> dict[Path, str]:
    """Every file and its text."""
    files = {HERE / "man" / f"{page_name(context)}.1": man_page(context) for context in commands()}
    for shell, file in COMPLETIONS.items():
        files[HERE / "completions" / file] = source_of(shell) + "\n"
    return files


def outdated(files: dict[Path, str]) -> list[Path]:
    """What differs from what is on disk, or is there and should not be."""
    there = {path for folder in ("man", "completions") for path in (HERE / folder).iterdir()}
    changed = {
        path for path, text in files.items() if not path.exists() or path.read_text() != text
    }
    return sorted(changed | (there - files.keys()))


def main(arguments: list[str]) -> int:
    """Write what is not current, or with ``--check`` name it."""
    files = generated()
    paths = outdated(files)
    for path in paths:
        if arguments == ["--check"]:
            print(
                f"{path.relative_to(HERE.parent)} is not current; run: make generated",
                file=sys.stderr,
            )
        elif path in files:
            path.write_text(files[path])
        else:
            path.unlink()
    return 1 if paths and arguments == ["--check"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
