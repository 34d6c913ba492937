"""Computes the views of ``trainer-directory-1/*/views.jsonl`` from their lines, as today's pilot folds
them: PYTHONPATH=tests python tests/recorded/record_views.py

Run this after a change of ``DriverView``, and look at what has changed.
"""

from __future__ import annotations

import json
from pathlib import Path

from support.recorded_views import folded

FOLDER = Path(__file__).with_name("trainer-directory-1")

if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*/views.jsonl")):
        entries = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()]
        views = folded((entry["file"], entry["line"]) for entry in entries)
        texts = [
            json.dumps(entry | {"view": view}) for entry, view in zip(entries, views, strict=True)
        ]
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
