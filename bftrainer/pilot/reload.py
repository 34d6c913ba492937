"""Which keys of a reloaded configuration (SIGHUP) a running pilot applies, and which keep their old
value.
"""

from __future__ import annotations

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
    """
    kept: list[str] = []
    tables: dict[str, ConfigTable] = {}
    for name, keys in FIXED.items():
        was, now = getattr(old, name), getattr(fresh, name)
        back = {
            key: getattr(was, key) for key in sorted(keys) if getattr(was, key) != getattr(now, key)
        }
        kept += (f"{name}.{key}" for key in back)
        tables[name] = now.model_copy(update=back)
    return fresh.model_copy(update=tables), tuple(kept)


def changed(old: PilotConfig, fresh: PilotConfig) -> tuple[str, ...]:
    """Return the keys whose values differ between two configurations, as ``table.key``."""
    keys: list[str] = []
    sites = {*(old.model_extra or {}), *(fresh.model_extra or {})}
    for name in (*PilotConfig.model_fields, *sorted(sites)):
        was, now = getattr(old, name, {}), getattr(fresh, name, {})
        before = was if isinstance(was, dict) else dict(was)
        after = now if isinstance(now, dict) else dict(now)
        keys += (
            f"{name}.{key}"
            for key in sorted({*before, *after})
            if before.get(key) != after.get(key)
        )
    return tuple(keys)


def described(applied: tuple[str, ...], kept: tuple[str, ...]) -> str:
    """Return the line of the event log about a reload: the keys that were ``applied``, and those
    that were ``kept`` until the next start.
    """
    parts = [f"changed: {', '.join(applied) or 'nothing'}"]
    if kept:
        parts.append(f"unchanged until the pilot is restarted: {', '.join(kept)}")
    return "the configuration was reloaded; " + "; ".join(parts)
