"""Compiles the engine of replays, which a wheel for one platform contains.

    python packaging/engine.py [TARGET]

TARGET is the library to write; by default it is put beside its source, where an editable
installation finds it. ``CXX`` names the compiler (c++).
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path("replay/bftrainer_replay/simulation/engine")
LIBRARY = "libengine.so"
_FLAGS = (
    "-std=c++20",
    "-O3",
    # Python rounds after each operation: no fused multiply-add, no other order of additions.
    "-ffp-contract=off",
    "-fno-fast-math",
    "-fPIC",
    "-shared",
    "-Wall",
    "-Wextra",
    "-Werror",
)
_SELF_CONTAINED = ("-static-libstdc++", "-static-libgcc", "-s")
"""The library needs the C library only, of any version from that of the build on."""


def compile_engine(root: Path, target: Path) -> None:
    """Compile the engine of the checkout ``root``. Raises :class:`subprocess.CalledProcessError` or
    :class:`OSError` without a compiler of C++20.
    """
    compiler = os.environ.get("CXX", "c++")
    part = target.with_name(f".{target.name}.{os.getpid()}")
    source = root / FOLDER / "engine.cpp"
    digest = f'-DENGINE_SOURCE="{hashlib.sha256(source.read_bytes()).hexdigest()}"'
    command = [compiler, *_FLAGS, *_SELF_CONTAINED, digest, "-o", str(part), str(source)]
    subprocess.run(command, check=True, timeout=900)  # noqa: S603  # a compiler, our source
    part.replace(target)


if __name__ == "__main__":
    top = Path(__file__).resolve().parents[1]
    compile_engine(top, Path(sys.argv[1]) if sys.argv[1:] else top / FOLDER / LIBRARY)
