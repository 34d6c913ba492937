"""The text of ``bftrainer.toml``: the short file that ``bftrainer init`` writes, and the long one
with every key.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from bftrainer.config.pilot import PilotConfig
from bftrainer.config.validation import as_toml
from bftrainer.system.printable import printable

ALL_KEYS_LINE = "All keys and their defaults: bftrainer config --all"
"""The last line of the short file."""
_COMMENT_COLUMNS = 98


def short_config(
    site: Mapping[str, type[BaseModel]],
    reasons: Mapping[str, str],
    open_keys: Mapping[str, str],
    remarks: Iterable[str] = (),
    **chosen: object,
) -> str:
    """Return the text of a configuration file with the ``chosen`` keys (table_key) alone.

    ``site`` holds the tables that belong to the site's adapter, ``reasons`` why keys are chosen (by
    table_key), ``remarks`` the lines of a comment at the head. ``open_keys`` are keys that the
    user should look at (by table_key), with the reason; those not chosen are commented out. A table
    of the site stands in the file even without keys.
    """
    lines = [
        "# The pilot's configuration: the keys that this site needs. Others have their defaults.",
        *_remark_lines(remarks),
    ]
    for table, model in _tables(site):
        key_lines: list[str] = []
        for key, field in _fields(model):
            name = f"{table}_{key}"
            if name in chosen:
                reason = f"Set: {_on_one_line(reasons[name])}." if name in reasons else ""
                key_lines += [
                    *_comment(_first_sentence(field.description)),
                    *_comment(reason),
                    f"{key} = {as_toml(chosen[name])}",
                ]
            elif name in open_keys:
                key_lines += [
                    *_comment(_first_sentence(field.description)),
                    *_comment(f"Not decided: {open_keys[name]}."),
                    f"#{key} = {_shown_default(field)}",
                ]
        if key_lines or table in site:
            lines += ["", f"[{table}]  # {_first_paragraph(model.__doc__)}", *key_lines]
    return "\n".join([*lines, "", f"# {ALL_KEYS_LINE}"]) + "\n"


def commented_default(
    site: Mapping[str, type[BaseModel]] = MappingProxyType({}),
    reasons: Mapping[str, str] = MappingProxyType({}),
    remarks: Iterable[str] = (),
    **chosen: object,
) -> str:
    """Return the text of a configuration file with every key, its default and its description; the
    ``chosen`` keys (table_key) are set.

    The other parameters are those of :func:`short_config`.
    """
    lines = [
        "# The pilot's configuration. A line that is commented out shows the default.",
        *_remark_lines(remarks),
    ]
    for table, model in _tables(site):
        lines += ["", f"[{table}]  # {_first_paragraph(model.__doc__)}"]
        for key, field in _fields(model):
            lines += _comment(field.description or "")
            name = f"{table}_{key}"
            if name in reasons:
                lines += _comment(f"Set: {_on_one_line(reasons[name])}.")
            if name in chosen:
                lines.append(f"{key} = {as_toml(chosen[name])}")
            else:
                lines.append(f"#{key} = {_shown_default(field)}")
    return "\n".join(lines) + "\n"


def full_config(
    site: Mapping[str, type[BaseModel]], tables: Mapping[str, Mapping[str, object]]
) -> str:
    """Return the text of a configuration file with every key, of which those in ``tables`` are
    set. Tables that are not general and not of ``site`` (node classes, other sites) come last.
    """
    names = {table for table, _ in _tables(site)}
    chosen = {
        f"{name}_{key}": value
        for name, table in tables.items()
        if name in names
        for key, value in table.items()
    }
    others = {name: table for name, table in tables.items() if name not in names}
    lines = [line + "\n" for line in table_lines(others)]
    return commented_default(site, {}, (), **chosen) + "".join(lines)


def table_lines(tables: Mapping[str, Mapping[str, object]], above: str = "") -> Iterator[str]:
    """Yield the lines of TOML tables, each table after an empty line. ``above`` is the name of the
    table that they are in, with its dot.
    """
    for name, table in tables.items():
        values = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
        inner = {key: value for key, value in table.items() if isinstance(value, Mapping)}
        if values or not inner:
            yield from ("", f"[{above}{_toml_name(name)}]")
        for key, value in values.items():
            yield f"{key} = {as_toml(value)}"
        yield from table_lines(inner, f"{above}{_toml_name(name)}.")


def _toml_name(name: str) -> str:
    """Return a name of a table as TOML has it: quoted, unless it is a bare one."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else as_toml(name)


def _tables(site: Mapping[str, type[BaseModel]]) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield every table of a configuration with its model, those of the site last."""
    for name, field in PilotConfig.model_fields.items():
        if isinstance(field.default, BaseModel):
            yield name, type(field.default)
    yield from site.items()


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the keys of a table; those of the model itself come before the inherited ones."""
    for key in dict.fromkeys((*model.__annotations__, *model.model_fields)):
        yield key, model.model_fields[key]


def _shown_default(field: FieldInfo) -> str:
    """Return the default of a key as TOML; dots if there is none."""
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    return "..." if default is None else as_toml(default)


def _remark_lines(remarks: Iterable[str]) -> Iterator[str]:
    for remark in remarks:
        yield from _comment(_on_one_line(remark))


def _on_one_line(text: str) -> str:
    """Return a text for a comment on one line: a line break of others' text cannot end it."""
    return printable(text, keep="")


def _first_paragraph(text: str | None) -> str:
    """Return the first paragraph of a docstring in one line: it may be wrapped in the source."""
    return " ".join((text or "").strip().partition("\n\n")[0].split())


def _first_sentence(text: str | None) -> str:
    """Return the first sentence of a description in one line."""
    sentence, end, _ = " ".join((text or "").split()).partition(". ")
    return sentence + end.rstrip()


def _comment(text: str) -> list[str]:
    """Return the lines of a comment: each of them needs its own ``#``."""
    return [f"# {line}" for line in textwrap.wrap(" ".join(text.split()), _COMMENT_COLUMNS)]
