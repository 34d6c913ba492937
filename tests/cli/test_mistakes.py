"""The mistakes that researchers make: each is told in one clear line where the user looks, at `submit` or in `list`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from command_line import bftrainer
from live_machine import Machine, eventually, machine
from patience import PATIENCE

from bftrainer.live.trainers.remarks import repeat_text

REPORTS = "from bftrainer.progress import Reporter\nimport time\nreport = Reporter()\n"
AT_SUBMIT = {
    "a key misspelt": ('comand = ["python"]\n', "a.toml: unknown key 'comand', did you mean 'command'? (and 1 more)"),
    "no TOML": ("max_nodes = = 2\n", "a.toml: is not TOML: Invalid value (at line 2, column 13)"),
    "an interpreter misspelt": (
        'command = ["pyhton", "t.py"]\n',
        "a.toml: command: 'pyhton' does not exist or cannot be run",
    ),
    "a string for a list": ('command = "python t.py"\n', """expected a list like ["python", "train.py"]"""),
    "a string for a number": ('command = ["true"]\nmax_nodes = "4"\n', "a.toml: max_nodes: "),
    "more than at most": ('command = ["true"]\nmin_nodes = 5\nmax_nodes = 4\n', "min_nodes"),
    "no such script": ('command = ["python3", "nope.py"]\n', "note: {}/a.toml: command: nope.py does not exist in {}"),
    "an unknown launcher": ('command = ["true"]\nlauncher = "torchrn"\n', "did you mean 'torchrun'"),
    "torchrun in torchrun": (
        'command = ["torchrun"]\nlauncher = "torchrun"\nsetup = ["true"]\n',
        "starts the workers itself",
    ),
    "a space in the name": (
        'command = ["true"]\nmodel = "my model"\n',
        "model: expected up to 64 letters, digits, dots",
    ),
    "an image of a registry": (
        'command = ["true"]\nimage = "docker://torch"\n',
        "image: expected a .sif or .sqsh file",
    ),
    "a forgotten group": (
        'command = ["python3", "alone.py"]\n',
        "alone.py forms no process group that bftrainer knows",
    ),
    "no checkpoint": (
        'command = ["python3", "alone.py"]\nmax_nodes = 1\n',
        "alone.py names no checkpoint, so that all of its work is repeated when its nodes leave; `bftrainer adapt alone.py`",
    ),
    "another launcher": (
        'command = ["python3", "hvd.py"]\n',
        "hvd.py uses horovod; expected launcher = 'horovod', got 'restart'",
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "alone.py").write_text("print('loss 0')\n")
    (tmp_path / "hvd.py").write_text("import horovod.torch as hvd  # saves\n")
    (tmp_path / "ddp.py").write_text("import torch.distributed as dist\ndist.init_process_group()  # saves\n")
    return tmp_path


@pytest.mark.parametrize("mistake", AT_SUBMIT)
def test_it_is_told_at_submit(folder: Path, mistake: str) -> None:
    text, words = AT_SUBMIT[mistake]
    most = "" if "max_nodes" in text else "max_nodes = 2\n"
    (folder / "a.toml").write_text(f'name = "a"\n{most}{text}')
    ended = bftrainer("submit", folder / "a.toml", "--state", folder / "state")
    (line,) = ended.err.splitlines()
    assert words.format(folder, folder) in line
    assert (ended.status == 0) == line.startswith("note: ")


def test_a_script_is_enough_and_its_launcher_is_guessed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)

    def submit(*arguments: str) -> tuple[int, str]:
        ended = bftrainer("submit", "--state", "state", *arguments)
        return ended.status, ended.out + ended.err

    status, said = submit("ddp.py")
    assert (status, "bftrainer submit ddp.py --max-nodes 4" in said) == (2, True)
    said = submit("ddp.py", "--max-nodes", "4", "--", "--lr", "0.1")[1]
    assert said == "submitted ddp: 1 to 4 nodes, launcher torchrun (ddp.py uses torch.distributed)\n"
    assert (
        submit("hvd.py", "--max-nodes", "1", "--name", "x")[1]
        == "submitted x: 1 node, launcher horovod (hvd.py uses horovod)\n"
    )
    assert submit("nope.py", "--max-nodes", "4")[0] == 2
    assert "'ddp' is taken" in submit("ddp.py", "--max-nodes", "4")[1]
    (request,) = (
        r for r in map(json.loads, (p.read_text() for p in Path("state/spool").iterdir())) if r["trainer"] == "ddp"
    )
    assert request["spec"]["command"][1:] == ["ddp.py", "--lr", "0.1"]
    (folder / "hf.py").write_text("from transformers import Trainer\nconstant_batch(8)\n")
    assert submit("hf.py", "--max-nodes", "5")[1].startswith("submitted hf: 1, 2 or 4 nodes, launcher torchrun")
    for command in ("show", "plot", "explain", "logs"):
        ended = bftrainer(command, "nope", "--state", "state")
        assert (ended.status, ended.err.count("\n"), "()" in ended.err) == (2, 1, False)


def test_a_checkpoint_that_is_not_loaded_is_told_at_the_first_loss() -> None:
    assert "all 900 samples are repeated; it has loaded no checkpoint" in repeat_text(900.0, 2, 1.0)
    assert repeat_text(900.0, 0, 1.0).startswith("restarted: all 900 samples are repeated; it has loaded no checkpoint")
    assert repeat_text(900.0, 1, 300.0) == "lost 1 node: 900 samples since the last checkpoint are repeated"


class Ran(NamedTuple):
    """A script of one worker per node, the words of its remark in `list --all`, and keys of its trainer file."""

    script: str
    words: str
    keys: str = ""


RUN = {
    "no-bftrainer": Ran("import bftrainer_of_another_venv\n", "No module named 'bftrainer_of_another_venv'"),
    "no-script": Ran("", "No such file or directory"),
    "no-place": Ran("open('/proc/nothing/ckpt', 'w')\n", "No such file or directory: '/proc/nothing/ckpt'"),
    "full-disk": Ran("open('/dev/full', 'w').write('x' * 1000000)\n", "OSError: [Errno 28] No space left on device"),
    "nan": Ran(f"{REPORTS}report.step(step=1, samples=10, loss=float('nan'))\n", "the loss is NaN at step 1: training has"),
    "early": Ran(f"{REPORTS}report.step(step=0, samples=0)\n", "ended with status 0 after 0 of 100,000 samples",
                 "samples_total = 100000.0\n"),
    "alone": Ran(f"{REPORTS}report.step(step=1, samples=1)\ntime.sleep(60)\n", "2 workers were started, but this one trains",
                 "min_nodes = 2\nmax_nodes = 2\n"),
    "port-in-use": Ran(
        "import socket\na, b = socket.socket(), socket.socket()\na.bind(('127.0.0.1', 0))\nb.bind(a.getsockname())\n",
        "OSError: [Errno 98] Address already in use",
    ),
    "gpu-memory": Ran("raise RuntimeError('CUDA out of memory. Tried to allocate 2 GiB')\n", "GPU out of memory on n"),
    "host-memory": Ran("raise MemoryError\n", "host out of memory on n"),
    "hangs": Ran(f"{REPORTS}report.step(step=1, samples=1)\ntime.sleep(600)\n", "hung: no report for 2 s (hang_s)",
                 "hang_s = 2.0\n"),
    "broken-horovod": Ran("import time; time.sleep(60)\n", "libtorch.so: cannot open shared object file",
                          'launcher = "horovod"\n'),
    "too-large": Ran(f"{REPORTS}\n", "needs 64 nodes; the pilot has ", "min_nodes = 64\nmax_nodes = 64\n"),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A pilot with a trainer per mistake."""
    nodes = " ".join(f"n{i}" for i in range(2 * len(RUN) + 3))
    on = machine(tmp_path_factory.mktemp("mistakes"), [(0, nodes, ""), (3600, "", "n1")])
    try:
        for name, ran in RUN.items():
            if ran.script:
                (on.work / f"{name}.py").write_text(ran.script)
            most = "" if "max_nodes" in ran.keys else "max_nodes = 1\n"
            command = json.dumps([sys.executable, f"{name}.py"])
            (on.work / f"{name}.toml").write_text(
                f'name = "{name}"\ncommand = {command}\nsamples_per_s = 10.0\n{most}{ran.keys}'
            )
            on.bftrainer("submit", on.work / f"{name}.toml")
        stub = on.work / "stubs/horovod"
        stub.mkdir(parents=True)
        (stub / "__init__.py").write_text("raise ImportError('libtorch.so: cannot open shared object file')")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(stub.parent))
            on.pilot()
        eventually(on.state_is_there, 60)
        yield on
    finally:
        on.close()


@pytest.mark.slow
def test_a_trainer_is_followed_to_its_end_and_trains_on_after_ctrl_c(told: Machine) -> None:
    def follow(name: str, script: str) -> subprocess.CompletedProcess[str]:
        (told.work / f"{name}.py").write_text(script)
        return told.bftrainer("submit", f"{name}.py", "--max-nodes", 1, "--gpus-per-node", 2, "--follow", check=False)

    good = follow("good", "print('it trains')\n")
    assert (good.returncode, good.stdout.count(": it trains\n")) == (0, 2), "two workers on the node"
    assert "good: done" in good.stderr
    bad = follow("bad", "raise SystemExit('no data')\n")
    assert (bad.returncode, "bad: failed: " in bad.stderr) == (1, True)
    (told.work / "long.py").write_text("import time\ntime.sleep(600)\n")
    of_a_terminal = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import bftrainer.cli.main as cli"
    )
    argv = ["submit", "long.py", "--max-nodes", "1", "--follow", "--state", str(told.state)]
    left = subprocess.Popen(
        [sys.executable, "-c", f"{of_a_terminal}; cli.main()", *argv], cwd=told.work, stderr=subprocess.PIPE, text=True
    )
    eventually(lambda: told.status("long") == "running", 60)
    left.send_signal(signal.SIGINT)
    _, said = left.communicate(timeout=60 * PATIENCE)
    assert left.returncode == 130
    assert "long trains on; `bftrainer logs -f long` follows it" in said
    assert told.status("long") == "running"


@pytest.mark.slow
def test_a_script_is_rehearsed_first_and_submitted_only_if_it_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    submit = ["submit", "train.py", "--max-nodes", "2", "--rehearse-first", "--state", "state"]
    Path("train.py").write_text("raise SystemExit('no data')\n")
    failed = bftrainer(*submit)
    assert (failed.status, "not submitted: the rehearsal has not passed" in failed.err) == (1, True)
    assert not Path("state/spool").exists()
    Path("train.py").write_text((Path(__file__).parents[1] / "rehearsal/trainer.py").read_text())
    passed = bftrainer(*submit, "--", "sound")
    assert (passed.status, passed.out.splitlines()[-1]) == (
        0,
        "submitted train: 1 to 2 nodes, launcher restart (train.py uses WORLD_SIZE)",
    )


@pytest.mark.slow
@pytest.mark.parametrize("mistake", RUN)
def test_it_is_told_in_list(told: Machine, mistake: str) -> None:
    def remark() -> str:
        return next((str(row["remark"]) for row in told.rows("list", "--all") if row["name"] == mistake), "")

    eventually(lambda: RUN[mistake].words in remark(), 30)
