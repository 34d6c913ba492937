"""Print the lowest version of each package that users install with bftrainer, as constraints.

``python .ci/lowest_versions.py`` reads the dependencies of pyproject.toml and those of the extras
in ``EXTRAS``. Tools of developers are not among them: their newest versions run the tests.
"""

from __future__ import annotations

from pathlib import Path

from packaging.requirements import Requirement

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
OF_THE_TIME = ("pyparsing<3.3",)
"""What these versions need from then: the lowest matplotlib calls what pyparsing 3.3 deprecates."""
EXTRAS = ("metrics", "top")
"""Those that the fast tests use. gurobipy stays new: the license in old ones has expired."""


def lowest_version(requirement: Requirement) -> str:
    """The lower bound of a requirement, ``>=`` or ``==``."""
    bounds = [bound for bound in requirement.specifier if bound.operator in (">=", "==")]
    if len(bounds) != 1:
        raise ValueError(f"{requirement} has no single lower bound; write name>=VERSION")
    return bounds[0].version


def lowest_versions(pyproject: str) -> list[str]:
    """Constraints ``name==version`` for the text of a pyproject.toml, by name."""
    import tomllib

    project = tomllib.loads(pyproject)["project"]
    texts = list(project["dependencies"])
    for extra in EXTRAS:
        texts += project["optional-dependencies"][extra]
    constraints = []
    for requirement in map(Requirement, texts):
        marker = f"; {requirement.marker}" if requirement.marker else ""
        constraints.append(f"{requirement.name}=={lowest_version(requirement)}{marker}")
    return sorted(constraints)


if __name__ == "__main__":
    print("\n".join([*lowest_versions(PYPROJECT.read_text(encoding="utf-8")), *OF_THE_TIME]))
