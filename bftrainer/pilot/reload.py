"""Which keys of a reloaded configuration (SIGHUP) a running pilot applies, and which keep their old
value.
"""

from __future__ import annotations

from typing import Any

from bftrainer.config.pilot import PilotConfig
from bftrainer.config.validation import ConfigTable

# Settings that holders, drivers, and the listeners for metrics and hints were started with.
# Sites judge their own tables.
FIXED: dict[str, frozenset[str]] = {
    "nodes": frozenset({"holder", "slots", "unit"}),
    "times": frozenset({"lease_s"}),
    "metrics": frozenset({"socket", "port", "address", "token_file"}),
    "hints": frozenset({"port", "address"}),
}


def merged(old: PilotConfig, fresh: PilotConfig) -> tuple[PilotConfig, tuple[str, ...]]:
    """Return the configuration to continue with after a reload, and the keys (``nodes.holder``)
    whose change waits for the next start.

    In it, these keys (:data:`FIXED`) have the values of ``old``, all others those of ``fresh``.
    """
    kept: list[str] = []
    tables: dict[str, ConfigTable] = {}
    for name, keys in FIXED.items():
        old_table, fresh_table = getattr(old, name), getattr(fresh, name)
        old_values = {
            key: getattr(old_table, key)
            for key in sorted(keys)
            if getattr(old_table, key) != getattr(fresh_table, key)
        }
        kept += (f"{name}.{key}" for key in old_values)
        tables[name] = fresh_table.model_copy(update=old_values)
    return fresh.model_copy(update=tables), tuple(kept)


def changed(old: PilotConfig, fresh: PilotConfig) -> tuple[str, ...]:
    """Return the keys whose values differ between two configurations, as ``table.key``.

    The tables of sites, which :class:`PilotConfig` does not declare, are compared as well.
    """
    keys: list[str] = []
    site_tables = {*(old.model_extra or {}), *(fresh.model_extra or {})}
    for name in (*PilotConfig.model_fields, *sorted(site_tables)):
        old_values = _as_dict(getattr(old, name, {}))
        fresh_values = _as_dict(getattr(fresh, name, {}))
        keys += (
            f"{name}.{key}"
            for key in sorted({*old_values, *fresh_values})
            if old_values.get(key) != fresh_values.get(key)
        )
    return tuple(keys)


def _as_dict(table: Any) -> dict[str, Any]:
    """Return the values of a table of the configuration, declared or not, by key."""
    return table if isinstance(table, dict) else dict(table)


def described(applied: tuple[str, ...], kept: tuple[str, ...]) -> str:
    """Return the line of the event log about a reload: the keys that were ``applied``, and those
    that were ``kept`` until the next start.
    """
    parts = [f"changed: {', '.join(applied) or 'nothing'}"]
    if kept:
        parts.append(f"unchanged until the pilot is restarted: {', '.join(kept)}")
    return "the configuration was reloaded; " + "; ".join(parts)
