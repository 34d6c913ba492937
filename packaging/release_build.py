"""The build hook of bftrainer's own project file.

In a release, the modules for training scripts are left to the wheel ``bftrainer-train``, and
bftrainer depends on that wheel.

A release is a build with ``BFTRAINER_RELEASE=1``, or one from an sdist that was built so: its
PKG-INFO has the dependency. Any other build, as of ``pip install .`` in a checkout, contains every
module and needs no index.
"""

from __future__ import annotations

import os
import tomllib  # hatchling needs it as well
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

RELEASE = "BFTRAINER_RELEASE"
TRAIN = "bftrainer-train"


def is_release(root: Path) -> bool:
    """Whether this build is one of a release."""
    if os.environ.get(RELEASE, "0") not in ("", "0"):
        return True
    metadata = root / "PKG-INFO"  # only in an sdist
    return metadata.exists() and f"\nRequires-Dist: {TRAIN}==" in metadata.read_text("utf-8")


def files_of_train(root: Path) -> list[str]:
    """Files and folders of the wheel for scripts, relative to the top of the checkout."""
    project = tomllib.loads((root / "packaging/train/pyproject.toml").read_text("utf-8"))
    return sorted(project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"].values())


class ReleaseBuild(BuildHookInterface):  # type: ignore[type-arg]  # the configuration is not used
    """Leaves files to the wheel for scripts."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """``version``: of the target, ``standard`` or ``editable``."""
        root = Path(self.root)
        if version == "editable" or not is_release(root):
            return
        build_data["dependencies"].append(f"{TRAIN}=={self.metadata.version}")
        if self.target_name == "wheel":
            excluded = self.build_config.target_config.setdefault("exclude", [])
            excluded.extend(f"/{name}" for name in files_of_train(root))
