"""Nothing that bftrainer starts imports a module of the working directory: others may write
there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLANTED = """
import os
folder = os.environ["PLANTED_RAN"]
os.close(os.open(os.path.join(folder, __name__), os.O_CREAT, 0o600))
raise ImportError("planted")
"""
BFTRAINER = str(Path(sys.executable).with_name("bftrainer"))
PACKAGES = ("bftrainer", "horovod", "torch", "pyslurm", "matplotlib", "numpy", "wandb")
PROGRAMS = {
    "doctor": [BFTRAINER, "doctor"],
    "Horovod, as doctor imports it": [
        "from bftrainer.console.cli.doctor import pilot_checks\npilot_checks._horovod()"
    ],
    "python -P -m bftrainer": [sys.executable, "-P", "-m", "bftrainer", "doctor", "--help"],
    "pyslurm": ["from bftrainer_clusters.slurm.pyslurm import probe\nprobe()"],
    "trackers": [
        "import json, sys, time\n"
        "from bftrainer.progress.trackers import Mirror\n"
        "from bftrainer.wires.paths import TrainerDirectory\n"
        "mirror = Mirror(TrainerDirectory(Path('nowhere').absolute()))\n"
        "mirror.close()"
    ],
    "processes of a replay": [
        "from bftrainer.errors import UserError\n"
        "from bftrainer_replay.sweep import run_tasks\n"
        "with run_tasks._workers(2, (None, None, main)) as pool:\n"
        "    assert pool.submit(abs, -1).result() == 1"
    ],
    "the other process that tests locks": [
        "from bftrainer.console.cli.doctor import shared_files\n"
        "path = Path(os.environ['PLANTED_RAN']) / 'lock'\n"
        "path.touch()\n"
        "handle = os.open(path, os.O_RDWR)\n"
        "assert shared_files._is_fcntl_exclusive(handle, path)\n"
        "path.unlink()"
    ],
    "an interpreter that is asked for bftrainer": [
        "from bftrainer.console.client import gate\ngate._can_import_bftrainer('/usr/bin/python3', {})"
    ],
    "the policy of another module": [
        "from bftrainer import plugins\n"
        "plugins._load_function('policy', 'bftrainer.decide.policies.plain:build')\n"
        "import colorsys, bftrainer_replay.figures.style"
    ],
}


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder where somebody has planted a module of every name that a Python program may
    import.
    """
    folder = tmp_path / "shared"
    folder.mkdir()
    (tmp_path / "ran").mkdir()
    names = set(sys.stdlib_module_names).difference(sys.builtin_module_names, PACKAGES)
    for name in [*names, *PACKAGES]:
        (folder / f"{name}.py").write_text(PLANTED)
    return folder


def planted_that_ran(shared: Path, argv: list[str]) -> set[str]:
    """The planted modules that a program of the shared folder imported."""
    ran = shared.with_name("ran")
    environment = {**os.environ, "PLANTED_RAN": str(ran), "HOME": str(shared.parent)}
    if len(argv) == 1:
        # A console script: its first path is that of its own folder.
        begin = (
            "import os, sys\nfrom pathlib import Path\ndef main() -> None: pass\nif "
            "__name__ == '__main__':\n    "
        )
        script = shared.with_name("bin") / "script.py"
        script.parent.mkdir()
        script.write_text(begin + argv[0].replace("\n", "\n    "))
        argv = [sys.executable, str(script)]
    subprocess.run(
        argv, cwd=shared, env=environment, timeout=300, check=False, stdin=subprocess.DEVNULL
    )
    return {path.name for path in ran.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_program_of_ours_imports_what_another_user_has_put_into_the_working_directory(
    program: str, shared: Path
) -> None:
    assert planted_that_ran(shared, PROGRAMS[program]) == set()


def test_python_m_finds_the_installed_modules_beside_a_file_of_their_name(tmp_path: Path) -> None:
    """``-m`` alone looks into the working directory first, for the user's own ``queue.py`` as
    well.
    """
    (tmp_path / "click.py").write_text("raise SystemExit('the wrong one')")
    argv = [sys.executable, "-m", "bftrainer", "doctor", "--help"]
    assert (
        subprocess.run(argv, cwd=tmp_path, timeout=300, check=False, capture_output=True).returncode
        == 0
    )
