"""What a machine may lack: a test that needs it is skipped, visibly; in CI that is a failure."""

from __future__ import annotations

import importlib.util
import os

import pytest


def need(reason: str) -> None:
    """Skip if there is a reason to."""
    if reason and os.environ.get("CI"):
        pytest.fail(f"CI leaves nothing out: {reason}", pytrace=False)
    if reason:
        pytest.skip(reason)


def need_package(*names: str) -> None:
    """Packages of ``make test``. Folders of tests have the names of some: a package has a file."""
    found = {name: importlib.util.find_spec(name) for name in names}
    missing = [name for name, spec in found.items() if spec is None or spec.origin is None]
    need(f"{', '.join(missing)} not installed; make test installs what it can" if missing else "")
