"""The build hook of bftrainer's own project file.

In a release, the modules for training scripts are left to the wheel ``bftrainer-train``, and
bftrainer depends on that wheel.

A release is a build with ``BFTRAINER_RELEASE=1``, or one from an sdist that was built so: its
PKG-INFO has the dependency. Any other build, as of ``pip install .`` in a checkout, contains every
module and needs no index.

A wheel that contains the compiled engine of replays is for one platform and any Python; a wheel
without it is pure, and replays run in Python, with the same results. ``BFTRAINER_WITH_ENGINE=1``
demands the engine, ``0`` leaves it out. Otherwise a checkout's wheel contains it where a compiler
of C++20 is found, and a release's wheel does not.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sysconfig
import tomllib  # hatchling needs it as well
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

RELEASE = "BFTRAINER_RELEASE"
TRAIN = "bftrainer-train"
WITH_ENGINE = "BFTRAINER_WITH_ENGINE"


def is_release(root: Path) -> bool:
    """Whether this build is one of a release."""
    if os.environ.get(RELEASE, "0") not in ("", "0"):
        return True
    metadata = root / "PKG-INFO"  # only in an sdist
    return metadata.exists() and f"\nRequires-Dist: {TRAIN}==" in metadata.read_text("utf-8")


def add_engine(root: Path, build_data: dict[str, Any]) -> None:
    """Compile the engine, and make the wheel one of this platform that contains it. Raises
    :class:`OSError` or :class:`subprocess.SubprocessError` without a compiler of C++20.
    """
    engine = runpy.run_path(str(root / "packaging/engine.py"))
    library = root / "build" / engine["LIBRARY"]
    library.parent.mkdir(exist_ok=True)
    engine["compile_engine"](root, library)
    place = (engine["FOLDER"] / engine["LIBRARY"]).relative_to("replay")
    build_data["force_include"][str(library)] = str(place)
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    build_data["pure_python"] = False
    build_data["tag"] = f"py3-none-{platform}"


def add_engine_if_possible(root: Path, build_data: dict[str, Any]) -> None:
    """Add the engine; leave the wheel pure, and say so, where it cannot be compiled."""
    try:
        add_engine(root, build_data)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"bftrainer: replays will run in Python, since the engine was not compiled: {error}")


def files_of_train(root: Path) -> list[str]:
    """Files and folders of the wheel for scripts, relative to the top of the checkout."""
    project = tomllib.loads((root / "packaging/train/pyproject.toml").read_text("utf-8"))
    return sorted(project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"].values())


class ReleaseBuild(BuildHookInterface):  # type: ignore[type-arg]  # the configuration is not used
    """Leaves files to the wheel for scripts, and adds the engine."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """``version``: of the target, ``standard`` or ``editable``."""
        root = Path(self.root)
        if version == "editable":
            return
        if self.target_name == "wheel":
            choice = os.environ.get(WITH_ENGINE, "")
            if choice not in ("", "0"):
                add_engine(root, build_data)
            elif choice != "0" and not is_release(root):
                add_engine_if_possible(root, build_data)
        if not is_release(root):
            return
        build_data["dependencies"].append(f"{TRAIN}=={self.metadata.version}")
        if self.target_name == "wheel":
            excluded = self.build_config.target_config.setdefault("exclude", [])
            excluded.extend(f"/{name}" for name in files_of_train(root))
