"""Docstrings use the roles and double backquotes of reStructuredText; the site's pages are
Markdown. Imports are re-exports.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|exc|data):`~?([^`]+)`")


class Roles(griffe.Extension):
    """``:class:`~a.B``` becomes ```B```, and a literal in double backquotes one in single ones."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every object that has been read."""
        if obj.docstring is not None:
            text = _ROLE.sub(lambda role: f"`{role[1].rpartition('.')[2]}`", obj.docstring.value)
            obj.docstring.value = re.sub(r"::$", ":", text.replace("``", "`"), flags=re.MULTILINE)

    def on_module_members(self, *, mod: griffe.Module, **_: Any) -> None:
        """Called for every module: those of the page re-export all that they import."""
        if mod.name in ("api", "public"):
            mod.exports = [name for name, member in mod.members.items() if member.is_alias]
