"""`bftrainer rehearse` finds each planted fault, and nothing in a sound script; the shipped
examples pass.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.command_line import bftrainer, complaint
from support.live_machine import eventually
from support.needs import need_package
from support.patience import PATIENCE
from support.wrong_scripts import WRONG

TRAINER = Path(__file__).parent / "trainer.py"
EXAMPLES = Path(__file__).parents[2] / "docs/examples"
FOUND_BY = {
    "no-checkpoint": {"checkpoint", "changes", "kill"},
    "ignores-sigterm": {"stops"},
    "forgets-optimizer": {"state"},
    "counts-twice": {"samples"},
    "alone": {"starts", "order"},
}
"""The checks that fail, for each fault; "ranks", "rate" and "atomic" fail below."""
OPTIONS = {
    "restart": ["--steps=1000000", "--pace-s=0.01"],
    "torchrun": ["--epochs=100000", "--step-s=0.02", "--checkpoint-every=20"],
    "torchft": ["--epochs=100000", "--step-s=0.02", "--checkpoint-every-s=1"],
    "horovod": ["--epochs=100000", "--step-s=0.02"],
}
"""Of the shipped examples: enough work for a rehearsal."""


def trainer_file(folder: Path, command: list[str], **keys: Any) -> Path:
    table = {
        "name": "rehearsed",
        "command": [sys.executable, *command],
        "max_nodes": 4,
        "stop_s": 20.0,
        **keys,
    }
    path = folder / "trainer.toml"
    env = table.pop("env", {})
    rows = [f"{key} = {json.dumps(value)}\n" for key, value in table.items()]
    rows += ["[env]\n", *(f"{key} = {json.dumps(value)}\n" for key, value in env.items())]
    path.write_text("".join(rows))
    return path


def planted(folder: Path, fault: str, **keys: Any) -> Path:
    shutil.copy(TRAINER, folder)
    return trainer_file(folder, ["trainer.py", fault], **keys)


def rehearsed(file: Path, *options: str) -> tuple[int, dict[str, Any]]:
    ended = bftrainer("rehearse", file, "--json", "--window-s", "0.3", *options)
    assert ended.err == "", "silent in a pipe"
    return ended.status, json.loads(ended.out)


def verdicts(found: dict[str, Any], verdict: str) -> set[str]:
    return {check["check"] for check in found["checks"] if check["verdict"] == verdict}


@pytest.mark.slow
def test_a_sound_script_passes_every_check_in_a_copy_of_its_directory(tmp_path: Path) -> None:
    status, found = rehearsed(planted(tmp_path, "sound"))
    assert len(verdicts(found, "pass")) == len(found["checks"]) == 14, found
    assert status == 0
    assert found["passed"] is True
    assert found["scale_up_s"] > 0
    assert found["scale_down_s"] > 0
    assert {path.name for path in tmp_path.iterdir()} == {"trainer.py", "trainer.toml"}


@pytest.mark.slow
def test_a_pool_is_judged_by_its_processes(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "pool_tasks.py", tmp_path)
    command = ["pool_tasks.py", "--tasks=100000", "--pace-s=0.05"]
    status, found = rehearsed(trainer_file(tmp_path, command, launcher="pool"), "--quick")
    assert [check["check"] for check in found["checks"]] == ["starts", "stops", "kill", "left"]
    assert len(verdicts(found, "pass")) == 4, found
    assert status == 0


@pytest.mark.slow
@pytest.mark.parametrize("fault", FOUND_BY)
def test_a_planted_fault_is_found_by_its_own_check(fault: str, tmp_path: Path) -> None:
    keys = {"stop_s": 1.0, "stop_signal": "SIGTERM"} if fault == "ignores-sigterm" else {}
    status, found = rehearsed(planted(tmp_path, fault, **keys), "--quick")
    assert verdicts(found, "FAIL") == FOUND_BY[fault], found
    assert status == 1
    if fault == "alone":
        assert "2 workers were started, but this one trains alone" in found["checks"][0]["seen"]
    assert found["passed"] is False
    assert all(check["remedy"] for check in found["checks"] if check["verdict"] == "FAIL")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "script", "package"),
    [
        ("restart", "numpy_parallel.py", "numpy"),
        ("torchrun", "torch_digits.py", "torch"),
        pytest.param("torchrun", "fsdp_text.py", "torch", marks=pytest.mark.nightly),
        pytest.param("torchft", "torchft_digits.py", "torchft", marks=pytest.mark.nightly),
        ("horovod", "horovod_digits.py", "horovod"),
        pytest.param(
            "torchrun", "scripts/transformers_idle.py", "transformers", marks=pytest.mark.nightly
        ),
    ],
)
def test_the_shipped_examples_pass(
    launcher: str, script: str, package: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if launcher == "horovod":
        request.getfixturevalue("elastic_horovod")
    need_package(package)
    shutil.copy(EXAMPLES / script, tmp_path)
    command, keys = [script, *OPTIONS[launcher]], {}
    if package == "transformers":  # its length is a variable, and 3 workers do not divide its batch
        command, keys = (
            [Path(script).name],
            {"env": {"EPOCHS": "4000"}, "sizes": [1, 2], "stop_s": 60.0},
        )
    file = trainer_file(tmp_path, command, launcher=launcher, **keys)
    status, found = rehearsed(file, "--quick")
    assert verdicts(found, "FAIL") == set(), found
    assert status == 0
    # Its order of data after a start is another one, so Horovod's sampler need not give the same
    # losses. The Trainer of Transformers shows neither its order nor the loss of each step.
    undecided = {"horovod": {"state"}, "transformers": {"state", "order"}}.get(package, set())
    assert verdicts(found, "cannot tell") <= undecided, found
    assert found["scale_up_s"] > 0 or launcher in ("torchft", "horovod"), (
        "these may be below the tenth that is printed"
    )


IN_EACH_RUN = frozenset(
    {
        "rate-on-survivors-only",
        "sampler-without-state",
        "unseeded-split",
        "dropout-equal-on-all-ranks",
    }
)
"""Wrong scripts of make test, one for each of four checks; the others are for make nightly."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in IN_EACH_RUN else pytest.mark.nightly)
        for name in WRONG
    ],
)
def test_a_script_that_trains_wrongly_fails_and_the_line_names_the_cause(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    wrong = WRONG[name]
    if wrong.launcher == "horovod":
        request.getfixturevalue("elastic_horovod")
    need_package(wrong.needs)
    wrong.write(tmp_path)
    file = trainer_file(tmp_path, ["wrong.py", *OPTIONS[wrong.launcher]], launcher=wrong.launcher)
    status, found = rehearsed(file, "--quick", "--steps", "4")
    failed = {
        check["check"]: check["seen"] for check in found["checks"] if check["verdict"] == "FAIL"
    }
    assert status == 1
    assert wrong.words in failed.get(wrong.check, ""), found
    assert set(failed) <= {wrong.check, "samples", "order"}, "no other check is misled"


@pytest.mark.nightly
def test_dropout_that_is_seeded_by_step_and_rank_passes(tmp_path: Path) -> None:
    need_package("torch")
    text = (EXAMPLES / "torch_digits.py").read_text()
    text = text.replace("nn.ReLU(), ", "nn.ReLU(), nn.Dropout(0.1), ")
    seeded = "        progress.seed_step(options.seed, step, rank)\n        optimizer.zero_grad()"
    (tmp_path / "right.py").write_text(text.replace("        optimizer.zero_grad()", seeded))
    file = trainer_file(tmp_path, ["right.py", *OPTIONS["torchrun"]], launcher="torchrun")
    status, found = rehearsed(file, "--quick", "--steps", "4")
    assert verdicts(found, "pass") >= {"random", "state"}, found
    assert status == 0


@pytest.mark.slow
def test_training_that_is_complete_too_early_cannot_be_judged_whole(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "numpy_parallel.py", tmp_path)
    status, found = rehearsed(
        trainer_file(tmp_path, ["numpy_parallel.py", "--steps", "8"]), "--quick"
    )
    assert status == 1
    assert verdicts(found, "FAIL") == set()
    assert "kill" in verdicts(found, "cannot tell")
    starts = found["checks"][0]
    assert (starts["check"], starts["verdict"]) == ("starts", "cannot tell")
    assert "more work" in starts["remedy"]


EXHAUSTED = """import os, time
from bftrainer.progress import Reporter
report, step, left = Reporter(), 0, 100_000
if os.path.exists("saved"):
    step, left = int(open("saved").read()), 0
while left:
    step, left = step + 1, left - 1
    time.sleep(0.02)
    if report.step(step=step, samples=step, world_size=1):
        open("saved", "w").write(str(step))
        report.checkpointed()
        report.leave()
report.done()
"""
HANGS = """import threading
from bftrainer.progress import Reporter
print("loading data", flush=True)
def init_process_group():
    threading.Event().wait()
init_process_group()
"""


def test_a_script_that_is_done_at_once_after_a_resume_fails(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(EXHAUSTED)
    status, found = rehearsed(
        trainer_file(tmp_path, ["t.py"], launcher="restart", max_nodes=1), "--quick"
    )
    assert status == 1
    assert verdicts(found, "FAIL") == {"starts"}
    assert "ends with status 0 after a resume, without one step" in found["checks"][0]["seen"]


def test_a_worker_that_hangs_is_told_by_its_stack_and_output(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(HANGS)
    file = trainer_file(tmp_path, ["t.py"], launcher="restart", max_nodes=1)
    status, found = rehearsed(file, "--quick", "--patience-s", str(4 * PATIENCE))
    assert status == 1
    starts = found["checks"][0]
    assert starts["verdict"] == "FAIL"
    assert "a worker is at t.py:5 in wait" in starts["seen"]
    assert starts["seen"].endswith("its log ends: loading data")
    assert not [*tmp_path.glob("core*")]


def test_a_script_that_fails_is_shown_with_its_last_words(tmp_path: Path) -> None:
    status, found = rehearsed(trainer_file(tmp_path, ["-c", "raise SystemExit('no data set')"]))
    assert status == 1
    assert verdicts(found, "FAIL") == {"starts"}
    assert "no data set" in found["checks"][0]["seen"]


def test_a_table_for_people_with_what_to_do(tmp_path: Path) -> None:
    ended = bftrainer(
        "rehearse", trainer_file(tmp_path, ["-c", "raise SystemExit('no data set')"]), "--keep"
    )
    assert ended.status == 1
    lines = ended.out.splitlines()
    assert any(line.startswith("FAIL         starts and reports its steps") for line in lines)
    assert any(line.strip().startswith("-> ") for line in lines)
    assert lines[-1].startswith("kept: ")
    kept = Path(lines[-1].removeprefix("kept: "))
    assert (kept / "trainers/rehearsed/events.jsonl").exists()
    shutil.rmtree(kept)


def test_a_script_needs_no_trainer_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(
        "import sys\n# init_process_group\nraise SystemExit(f'no data set {sys.argv[1]}')\n"
    )
    ended = bftrainer("rehearse", "train.py", "--", "mnist")
    assert ended.status == 1
    assert "train, launcher torchrun" in ended.out
    assert "no data set mnist" in " ".join(ended.out.split())


def test_mistakes_are_one_line_and_nothing_is_played(tmp_path: Path) -> None:
    assert "does not exist" in complaint(bftrainer("rehearse", tmp_path / "nope.py"))
    assert "arguments are for a script" in complaint(
        bftrainer("rehearse", trainer_file(tmp_path, ["x.py"]), "--", "x")
    )
    assert "no_such_key" in complaint(
        bftrainer("rehearse", trainer_file(tmp_path, ["x.py"], no_such_key=1))
    )
    (tmp_path / "support.data.bin").write_bytes(b"x" * 1_100_000)
    text = complaint(bftrainer("rehearse", trainer_file(tmp_path, ["x.py"]), "--copy-mb", "1"))
    assert "--in-place" in text
    assert "launcher" in complaint(
        bftrainer("rehearse", trainer_file(tmp_path, ["x.py"], launcher="mpi"))
    )


@pytest.mark.slow
def test_a_pilot_that_requires_it_takes_what_has_passed_and_nothing_else(tmp_path: Path) -> None:
    state, work = tmp_path / "state", tmp_path / "work"
    work.mkdir()
    state.mkdir(mode=0o700)
    (state / "bftrainer.toml").write_text("[workers]\nrequire_rehearsal = true\n")
    file = planted(work, "sound")
    text = complaint(bftrainer("submit", file, "--state", state))
    assert f"bftrainer rehearse {file}" in text
    assert not list(state.glob("spool/*/*")), "nothing is queued"
    assert rehearsed(file, "--quick", "--state", str(state))[0] == 0
    again = [
        "--name",
        "other",
        "--set",
        f"command={json.dumps([sys.executable, 'trainer.py', 'sound', 'x'])}",
    ]
    assert bftrainer("submit", file, "--state", state, *again).status == 0, (
        "its arguments do not count"
    )
    with (work / "trainer.py").open("a") as out:
        out.write("# changed\n")
    complaint(bftrainer("submit", file, "--state", state))


@pytest.mark.slow
def test_in_place_uses_the_real_checkpoint_and_leaves_it_whole(tmp_path: Path) -> None:
    for _ in range(2):
        status, found = rehearsed(planted(tmp_path, "not-atomic"), "--quick", "--in-place")
        assert (status, verdicts(found, "FAIL")) == (1, {"atomic"}), found
        assert verdicts(found, "cannot tell") == {"state"}
    saved = json.loads((tmp_path / "checkpoint.json").read_text())
    assert saved["step"] > 50


@pytest.mark.slow
def test_what_ends_it_ends_all_that_it_has_started(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "bftrainer", "rehearse", str(planted(tmp_path, "sound"))]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        argv, env={**os.environ, "TMPDIR": str(scratch)}, stdout=subprocess.DEVNULL
    )
    eventually(lambda: list(scratch.glob("*/trainers/rehearsed/progress.jsonl")))
    assert mentioned(scratch)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60 * PATIENCE) == 130
    assert mentioned(scratch) == []
    assert list(scratch.iterdir()) == []


def mentioned(folder: Path) -> list[str]:
    """Processes with this folder in their arguments or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if f"{folder}/bftrainer-rehearse".encode() in words:
            found.append(process.name)
    return found
