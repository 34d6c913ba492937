"""The configuration of a pilot on the cluster of slurm_lab.py."""

from __future__ import annotations

import json

_TABLES: dict[str, dict[str, object]] = {
    "decisions": {"solver": "exact"},
    "nodes": {"holder": "slurm"},
    "times": {"poll_s": 1, "shutdown_s": 90},
    "workers": {"allow_root": True},
}


def pilot_config(**more: dict[str, object]) -> str:
    """The file's text, with these tables and keys besides; a key of None is left out. The last
    table is [slurm].
    """
    tables = {**_TABLES, **{name: _TABLES.get(name, {}) | keys for name, keys in more.items()}}
    tables["slurm"] = {"partition": "scavenge"} | tables.pop("slurm", {})
    return "".join(
        f"[{name}]\n"
        + "".join(
            f"{key} = {json.dumps(value)}\n" for key, value in keys.items() if value is not None
        )
        for name, keys in tables.items()
    )
