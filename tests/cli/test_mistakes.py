"""The mistakes that researchers make: each is told in one clear line where the user looks, at
`submit` or in `list`.
"""

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
from support.command_line import Ended, bftrainer, complaint
from support.live_machine import Machine, eventually, machine
from support.patience import PATIENCE

REPORTS = "from bftrainer.progress import Reporter\nimport os, time\nreport = Reporter()\n"
KILLED = (
    f"{REPORTS}import pathlib\nfile = pathlib.Path('saved')\n{{}}\nfor step in range(1, "
    "10**5):\n    time.sleep(0.01)\n"
    "    report.step(step=step, samples=10 * step, force=True)\n"
    "    if step == 100 and report.incarnation == 1:\n        os.kill(os.getpid(), 9)\n"
)


class Mistake(NamedTuple):
    """Its number in the list of common mistakes (0: not of it), the place where it is told, and the
    words of that line.

    ``keys`` are of its trainer file, ``script`` is that of its workers, ``said`` the command where
    there is no file.
    """

    number: int
    place: str
    words: str
    keys: str = ""
    script: str = ""
    said: str = ""


def _at_submit(number: int, keys: str, words: str) -> Mistake:
    return Mistake(number, "submit", words, keys)


def _in_list(number: int, script: str, words: str, keys: str = "") -> Mistake:
    return Mistake(number, "list", words, keys, script)


MISTAKES = {
    "a key misspelt": _at_submit(
        1,
        'comand = ["python"]\n',
        "a.toml: unknown key 'comand', did you mean 'command'? (and 1 more)",
    ),
    "no TOML": _at_submit(
        2, "max_nodes = = 2\n", "a.toml: is not TOML: Invalid value (at line 2, column 13)"
    ),
    "an interpreter misspelt": _at_submit(
        3,
        'command = ["pyhton", "t.py"]\n',
        "a.toml: command: 'pyhton' does not exist or cannot be run",
    ),
    "no-bftrainer": _in_list(
        4,
        REPORTS,
        "No module named 'bftrainer'",
        f'command = ["{sys.executable}", "-S", "no-bftrainer.py"]\n',
    ),
    "no-module": _in_list(
        5, "import torch_of_another_venv\n", "No module named 'torch_of_another_venv'"
    ),
    "no such script": _at_submit(
        6,
        'command = ["python3", "nope.py"]\n',
        "note: {}/a.toml: command: nope.py does not exist in {}",
    ),
    "no-script": _in_list(6, "", "No such file or directory: 'no-script.py'"),
    "no checkpoint": _at_submit(
        7,
        'command = ["python3", "alone.py"]\nmax_nodes = 1\n',
        "alone.py names no checkpoint, so that all of its work is repeated when its nodes "
        "leave; `bftrainer adapt alone.py`",
    ),
    "no-checkpoint": _in_list(
        7,
        KILLED.format(""),
        "restarted: all 1,000 samples are repeated; it has loaded no checkpoint (docs/recipes.md)",
    ),
    "never-leaves": _in_list(
        8,
        f"{REPORTS}for n in range(10**6):\n    report.step(step=n, samples=n)\n    "
        "time.sleep(0.1)\n",
        "canceled by its user; it did not leave, and was killed after 1 s (stop_s)",
        "stop_s = 1.0\n",
    ),
    "no-place": _in_list(
        9, "open('/proc/nothing/ckpt', 'w')\n", "No such file or directory: '/proc/nothing/ckpt'"
    ),
    "full-disk": _in_list(
        10,
        "open('/dev/full', 'w').write('x' * 1000000)\n",
        "OSError: [Errno 28] No space left on device",
    ),
    "nan": _in_list(
        11,
        f"{REPORTS}report.step(step=1, samples=10, loss=float('nan'))\n",
        "the loss is NaN at step 1: training has",
    ),
    "too-large": _in_list(
        12, f"{REPORTS}\n", "needs 64 nodes; the pilot has ", "min_nodes = 64\nmax_nodes = 64\n"
    ),
    "a string for a list": _at_submit(
        13, 'command = "python t.py"\n', """expected a list like ["python", "train.py"]"""
    ),
    "a string for a number": _at_submit(
        13, 'command = ["true"]\nmax_nodes = "4"\n', "a.toml: max_nodes: "
    ),
    "more than at most": _at_submit(
        13, 'command = ["true"]\nmin_nodes = 5\nmax_nodes = 4\n', "min_nodes"
    ),
    "a space in a name": _at_submit(
        14,
        'command = ["true"]\nmodel = "my model"\n',
        "model: expected up to 64 letters, digits, dots",
    ),
    "an unknown launcher": _at_submit(
        15, 'command = ["true"]\nlauncher = "torchrn"\n', "did you mean 'torchrun'"
    ),
    "torchrun in torchrun": _at_submit(
        15,
        'command = ["torchrun"]\nlauncher = "torchrun"\nsetup = ["true"]\n',
        "starts the workers itself",
    ),
    "a forgotten group": _at_submit(
        16,
        'command = ["python3", "alone.py"]\n',
        "alone.py forms no process group that bftrainer knows",
    ),
    "alone": _in_list(
        16,
        f"{REPORTS}report.step(step=1, samples=1)\ntime.sleep(60)\n",
        "2 workers were started, but this one trains",
        "min_nodes = 2\nmax_nodes = 2\n",
    ),
    "another launcher": _at_submit(
        16,
        'command = ["python3", "-u", "hvd.py"]\n',
        "hvd.py uses horovod; expected launcher = 'horovod', got 'restart'",
    ),
    "port-in-use": _in_list(
        17,
        "import socket\na, b = socket.socket(), socket.socket()\na.bind(('127.0.0.1', "
        "0))\nb.bind(a.getsockname())\n",
        "OSError: [Errno 98] Address already in use",
    ),
    "slow-imports": _in_list(
        18,
        f"import time\ntime.sleep(4)\n{REPORTS}report.step(step=1, samples=1)\n",
        "",
        "hang_s = 2.0\n",
    ),
    "deletes-it": _in_list(
        19,
        KILLED.format("file.unlink(missing_ok=True)\nfile.write_text('100')"),
        "restarted: all 1,000 samples are repeated; it has loaded no checkpoint (docs/recipes.md)",
    ),
    "hangs": _in_list(
        20,
        f"{REPORTS}report.step(step=1, samples=1)\ntime.sleep(600)\n",
        "hung: no report for 2 s (hang_s)",
        "hang_s = 2.0\n",
    ),
    "early": _in_list(
        21,
        f"{REPORTS}report.step(step=0, samples=0)\n",
        "ended with status 0 after 0 of 100,000 samples",
        "samples_total = 100000.0\n",
    ),
    "no nodes": Mistake(
        23, "submit", "--max-nodes is missing; expected for example: ", said="submit {}/alone.py"
    ),
    "a name twice": Mistake(
        24,
        "submit",
        "'alone' is taken; expected a name",
        said="submit {}/alone.py --max-nodes 1 --name alone",
    ),
    "an unknown name": Mistake(
        25, "show", "no training named 'nope'; see `bftrainer list --all`", said="show nope"
    ),
    "broken-horovod": _in_list(
        26,
        "import time; time.sleep(60)\n",
        "libtorch.so: cannot open shared object file",
        'launcher = "horovod"\n',
    ),
    "torchrun on each node": _at_submit(
        0,
        'command = ["torchrun", "ddp.py"]\nsetup = ["true"]\n',
        "torchrun starts a group of its own on each node: expected --launcher and a worker's "
        "command",
    ),
    "a secret in setup": _at_submit(
        0,
        'command = ["true"]\nsetup = ["export HF_TOKEN=hf_Ab1"]\n',
        "setup: HF_TOKEN looks like a secret, and the state directory keeps the line",
    ),
    "a secret in the command": _at_submit(
        0,
        'command = ["true", "--api-key", "Ab1"]\n',
        "command: --api-key looks like a secret, and all users of a host see its command lines "
        "(ps)",
    ),
    "an option of the script": Mistake(
        0,
        "submit",
        "Options of a script follow `--`.",
        said="submit {}/alone.py --max-nodes 1 --lr 0.1",
    ),
    "relative-path": _in_list(
        0, "open('../data/train.bin')\n", "train.bin'; the working directory is /"
    ),
    "quota": _in_list(
        0,
        "raise RuntimeError('[enforce fail at inline_container.cc:672] . unexpected pos 576 vs "
        "534')\n",
        "576 vs 534; the disk or the quota is full",
    ),
    "prompts": _in_list(
        0, "input('Overwrite? ')\n", "EOF when reading a line; workers have no standard input"
    ),
    "rule": _in_list(
        0, "print('no data')\nprint('=' * 60)\nraise SystemExit(3)\n", "status 3: no data"
    ),
    "an image of a registry": _at_submit(
        0, 'command = ["true"]\nimage = "docker://torch"\n', "image: expected a .sif or .sqsh file"
    ),
    "gpu-memory": _in_list(
        0,
        "raise RuntimeError('CUDA out of memory. Tried to allocate 2 GiB')\n",
        "GPU out of memory on n",
    ),
    "host-memory": _in_list(0, "raise MemoryError\n", "host out of memory on n"),
    "silent": _in_list(
        22, "import time\ntime.sleep(600)\n", "has run for a minute without reporting"
    ),  # last
}
RUN = [name for name, mistake in MISTAKES.items() if mistake.place == "list"]


def test_all_26_are_here() -> None:
    assert {mistake.number for mistake in MISTAKES.values()} - {0} == {*range(1, 27)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "alone.py").write_text("print('loss 0')\n")
    (tmp_path / "hvd.py").write_text("import horovod.torch as hvd  # saves\n")
    (tmp_path / "ddp.py").write_text(
        "import torch.distributed as dist\ndist.init_process_group()  # saves\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    "name", [name for name, mistake in MISTAKES.items() if mistake.place == "submit"]
)
def test_it_is_told_at_the_command(folder: Path, name: str) -> None:
    mistake, state = MISTAKES[name], ("--state", folder / "state")
    said = mistake.said.format(folder).split() or ["submit", folder / "a.toml"]
    most = "" if "max_nodes" in mistake.keys else "max_nodes = 2\n"
    (folder / "a.toml").write_text(f'name = "a"\n{most}{mistake.keys}')
    if mistake.number == 24:
        bftrainer(*said, *state)
    ended = bftrainer(*said, *state)
    lines = [
        it for it in ended.err.splitlines() if mistake.number != 24 or not it.startswith("note: ")
    ]
    lines = [
        it
        for it in lines
        if not it.endswith(" waits for a pilot, and none runs here (bftrainer pilot)")
    ]
    assert mistake.words.format(folder, folder) in lines[0]
    assert (len(lines), ended.status == 0) == (1, lines[0].startswith("note: "))


def test_a_script_is_enough_and_its_launcher_is_guessed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)

    def submit(*arguments: str) -> tuple[int, str]:
        ended = bftrainer("submit", "--state", "state", *arguments)
        return ended.status, ended.out + ended.err

    status, said = submit("ddp.py")
    assert (status, "bftrainer submit ddp.py --max-nodes 4" in said) == (2, True)
    said = submit("ddp.py", "--max-nodes", "4", "--", "--lr", "0.1")[1]
    waits = "waits for a pilot, and none runs here (bftrainer pilot)"
    assert said == (
        "submitted ddp: 1 to 4 nodes, launcher torchrun (ddp.py uses "
        f"torch.distributed)\nnote: ddp {waits}\n"
    )
    said = submit("hvd.py", "--max-nodes", "1", "--name", "x")[1]
    assert said.startswith("submitted x: 1 node, launcher horovod (hvd.py uses horovod)\n")
    assert waits in bftrainer("list", "--state", "state").out
    assert submit("nope.py", "--max-nodes", "4")[0] == 2
    assert submit("ddp.py", "--max-nodes", "4")[1].startswith(
        "submitted ddp-2 ('ddp' is taken): 1 to 4 nodes, launcher "
    )
    status, said = submit("ddp.py", "--max-nodes", "4", "--name", "ddp")
    assert status == 2
    assert said.endswith(
        "'ddp' is taken; expected a name that no training of this state directory has had, such "
        "as 'ddp-3'\n"
    )
    (request,) = (
        r
        for r in map(json.loads, (p.read_text() for p in Path("state/spool").iterdir()))
        if r["trainer"] == "ddp"
    )
    assert request["spec"]["command"][1:] == ["ddp.py", "--lr", "0.1"]
    (folder / "hf.py").write_text("from transformers import Trainer\nconstant_batch(8)\n")
    assert submit("hf.py", "--max-nodes", "5")[1].startswith(
        "submitted hf: 1, 2 or 4 nodes, launcher torchrun"
    )


def test_an_interpreter_without_bftrainer_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, other = folder / "track.py", folder / "other/python"
    text = "from bftrainer.progress import track\ntorch.save({}, '{name}.pt')\n"
    script.write_text(text)
    other.parent.mkdir()
    other.write_text("#!/bin/sh\nexit $(cat $(dirname $0)/status)\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent), prepend=os.pathsep)
    problem = f"{other} cannot import bftrainer, as {script} does; activate its environment"

    def submit(status: int) -> Ended:
        (other.parent / "status").write_text(f"{status}\n")
        return bftrainer("submit", script, "--max-nodes", 1, "--state", folder / "state")

    assert problem in complaint(submit(3))
    unknown = submit(1)
    assert unknown.status == 0
    assert f"{other} does not say whether it can import bftrainer" in unknown.err
    assert "import" not in submit(0).err
    script.write_text(f"try:\n    {text}except ImportError:\n    pass\n")
    guarded = submit(3)
    assert (guarded.status, guarded.err.count(problem)) == (0, 1)


_MENTIONS = {
    "in the docstring": '"""Usage:\n\nfrom bftrainer.progress import track\n"""\n',
    "after another path": 'import sys\nsys.path.insert(0, "/opt/b")\nimport bftrainer\n',
    "after a module beside it": "import paths\nimport bftrainer\n",
    "in a function": "def main():\n    import bftrainer\n",
    "in another Python": "import bftrainer\nprint 'x'\n",
}


@pytest.mark.parametrize("name", _MENTIONS)
def test_a_script_that_may_do_without_the_package_is_submitted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    script = folder / "track.py"
    script.write_text(_MENTIONS[name])
    (folder / "paths.py").touch()
    _python_without_us(folder / "other", monkeypatch)
    ended = bftrainer("submit", script, "--max-nodes", 1, "--state", folder / "state")
    assert ended.status == 0
    assert ("cannot import bftrainer" in ended.err) == (name != "in the docstring")


def test_the_interpreter_is_asked_where_the_worker_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts, package = folder / "my scripts", folder / "src/bftrainer"
    package.mkdir(parents=True)
    scripts.mkdir()
    (package / "__init__.py").touch()
    (scripts / "track.py").write_text("import bftrainer\n")
    _python_without_us(folder / "other", monkeypatch)
    options = ["--max-nodes", 1, "--cwd", folder, "--state", folder / "state"]
    problem = complaint(bftrainer("submit", "my scripts/track.py", *options))
    assert problem.endswith(
        "-- " + sys.executable + " 'my scripts/track.py'` in place of the script"
    )
    stage = "stage_in=['tar xf packages.tar']"
    assert bftrainer("submit", "my scripts/track.py", "--set", stage, *options).status == 0
    monkeypatch.setenv("PYTHONPATH", "src")
    assert bftrainer("submit", "my scripts/track.py", *options).status == 0
    monkeypatch.delenv("PYTHONPATH")
    (folder / "src/track.py").write_text("import bftrainer\n")
    (scripts / "link.py").symlink_to("../src/track.py")
    assert bftrainer("submit", "my scripts/link.py", *options).status == 0


def _python_without_us(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a Python on PATH that has the standard library alone."""
    folder.mkdir()
    (folder / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    (folder / "python").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_a_tracker_that_is_not_installed_is_noted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interpreter has every package but wandb."""
    other = folder / "other/python"
    (folder / "track.py").write_text("torch.save({}, '{name}.pt')\n")
    other.parent.mkdir()
    other.write_text('#!/bin/sh\ncase "$2" in *wandb*) exit 3;; esac\n')
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent), prepend=os.pathsep)
    options = ["--max-nodes", 1, "--state", folder / "state", "--name"]
    trackers = ["--set", 'trackers=["wandb", "mlflow"]']
    said = bftrainer("submit", folder / "track.py", *options, "a", *trackers).err
    assert f"trackers: {other} cannot import wandb, so nothing would be mirrored to it" in said
    assert "mlflow" not in said
    assert "wandb" not in bftrainer("submit", folder / "track.py", *options, "b").err
    by_worker = ["--set", 'setup=["source env/bin/activate"]']
    assert "wandb" not in (
        bftrainer("submit", folder / "track.py", *options, "c", *trackers, *by_worker).err
    ), "only the worker can tell"


def test_trainers_that_would_share_a_checkpoint_get_a_note(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)

    def said(name: str, *words: str | Path) -> str:
        return bftrainer(
            "submit", "--name", name, "--max-nodes", 1, "--state", folder / "state", *words
        ).err

    script, trials = folder / "ddp.py", ("--grid", "lr=1,2", "--", "{lr}")
    script.write_text("init_process_group()\ntorch.save(model, 'model.pt')\n")
    assert f"a-lr2 saves to {folder}/model.pt, as a-lr1 does" in said("a", script, *trials)
    assert "saves" not in said("b", script, *trials, "{name}")
    assert f"c saves to {folder}/model.pt, as a-lr" in said("c", script)
    assert "saves" not in said("d", script, "--", "--out_dir=d")
    assert f"e saves to {folder}/d, as d does" in said("e", script, "--", "--out_dir", "d")
    assert "saves" not in said("f", script, "--", "--save-steps", "9", "--out", "f")
    script.write_text("init_process_group()\nTraining(model, checkpoint='{name}.pt')\n")
    assert "saves" not in said("g", script, *trials)
    script.write_text(
        "init_process_group()\ntorch.save(model, os.path.join(args.to, 'model.pt'))\n"
    )
    assert "saves" not in said("h", script)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A pilot with a trainer per mistake."""
    nodes = " ".join(f"n{i}" for i in range(2 * len(RUN) + 3))
    on = machine(tmp_path_factory.mktemp("mistakes"), [(0, nodes, ""), (3600, "", "n1")])
    try:
        for name in RUN:
            keys = MISTAKES[name].keys
            if script := MISTAKES[name].script:
                (on.work / f"{name}.py").write_text(script)
            most = "" if "max_nodes" in keys else "max_nodes = 1\n"
            command = (
                ""
                if "command" in keys
                else f"command = {json.dumps([sys.executable, f'{name}.py'])}\n"
            )
            (on.work / f"{name}.toml").write_text(
                f'name = "{name}"\nsamples_per_s = 10.0\n{command}{most}{keys}'
            )
            on.bftrainer("submit", on.work / f"{name}.toml")
        stub = on.work / "stubs/horovod"
        stub.mkdir(parents=True)
        (stub / "__init__.py").write_text(
            "raise ImportError('libtorch.so: cannot open shared object file')"
        )
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
        return told.bftrainer(
            "submit", f"{name}.py", "--max-nodes", 1, "--gpus-per-node", 2, "--follow", check=False
        )

    good = follow("good", "print('it trains')\n")
    assert (good.returncode, good.stdout.count(": it trains\n")) == (0, 2), (
        "two workers on the node"
    )
    assert "good: done" in good.stderr
    bad = follow("bad", "raise SystemExit('no data')\n")
    assert (bad.returncode, "bad: failed: " in bad.stderr) == (1, True)
    (told.work / "long.py").write_text("import time\ntime.sleep(600)\n")
    of_a_terminal = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "import bftrainer.console.cli.main as cli"
    )
    argv = ["submit", "long.py", "--max-nodes", "1", "--follow", "--state", str(told.state)]
    left = subprocess.Popen(
        [sys.executable, "-c", f"{of_a_terminal}; cli.main()", *argv],
        cwd=told.work,
        stderr=subprocess.PIPE,
        text=True,
    )
    eventually(lambda: told.status("long") == "running", 60)
    left.send_signal(signal.SIGINT)
    _, said = left.communicate(timeout=60 * PATIENCE)
    assert left.returncode == 130
    assert "long trains on; `bftrainer logs -f long` follows it" in said
    assert told.status("long") == "running"
    (told.work / "long.py").touch()
    (row,) = (row for row in told.rows("list") if row["name"] == "long")
    assert (
        row["remark"]
        == "long.py has been edited since it began: workers that start later run the new text"
    )


@pytest.mark.slow
def test_workers_have_the_interpreter_and_the_variables_of_an_active_conda_environment(
    told: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin_ = told.work / "envs/ml/bin"
    bin_.mkdir(parents=True)
    (bin_ / "python").symlink_to(sys.executable)
    variables = {
        "CONDA_PREFIX": f"{bin_.parent}",
        "LD_LIBRARY_PATH": f"{bin_.parent}/lib",
        "PATH": f"{bin_}:/usr/bin:/bin",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (told.work / "ml.py").write_text(
        f"import os, sys  # saves\nprint(sys.executable, *map(os.getenv, {[*variables]}))\n"
    )
    assert told.bftrainer("submit", "ml.py", "--max-nodes", 1).stderr == "", "a pilot runs"
    eventually(lambda: told.status("ml") == "done", 60)
    assert told.bftrainer("logs", "ml").stdout.split() == [
        str(bin_ / "python"),
        *variables.values(),
    ]


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
def test_an_unknown_name_is_told_where_a_pilot_runs(told: Machine) -> None:
    for command in ("show", "plot", "explain", "logs"):
        ended = told.bftrainer(command, "nope", check=False)
        assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
        assert MISTAKES["an unknown name"].words in ended.stderr.replace(f" in {told.state}", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_it_is_told_in_list(told: Machine, name: str) -> None:
    mistake = MISTAKES[name]

    def row() -> dict[str, object]:
        return next(
            (row for row in told.rows("list", "--all") if row["name"] == name),
            {"remark": "", "status": ""},
        )

    if mistake.number == 8:
        eventually(lambda: row()["status"] == "running", 30)
        told.bftrainer("cancel", name)
    if not mistake.words:  # no mistake
        eventually(lambda: row()["status"] == "done", 30)
        assert row()["remark"] == ""
    eventually(lambda: mistake.words in str(row()["remark"]), 30)
