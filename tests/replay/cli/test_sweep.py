"""``bftrainer replay sweep``: the same results however it is run, and what a killed one leaves."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import bftrainer, complaint
from needs import need
from patience import PATIENCE

GRID = ("--policies", "bftrainer,equal-share", "--forward-s", "30,120", "--max-parallel", "3,6", "--split", "1,2")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.csv.gz"
    assert bftrainer("replay", "generate", "--nodes", 48, "--days", 0.5, "--out", path).status == 0
    return path


def sweep(log: Path, out: Path, *options: object) -> bytes:
    ended = bftrainer("replay", "sweep", "--log", log, "--out", out, *options)
    assert ended.status == 0, ended
    return (out / "results.csv").read_bytes()


def command(log: Path, out: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "bftrainer", "replay", "sweep", "--log", str(log), "--out", str(out), *options]


def test_rows_files_and_pictures(log: Path, tmp_path: Path) -> None:
    text = sweep(log, tmp_path, "--jobs", 1, *GRID)
    rows = list(csv.DictReader(text.decode().splitlines()))
    assert len(rows) == 16
    assert {row["split"] for row in rows} == {"1", "2"}
    for row in rows:
        u, bound = float(row["efficiency"]), float(row["no_cost_bound"])
        assert 0 < u <= bound * 1.05
        assert u == pytest.approx(float(row["outcome_samples"]) / float(row["static_outcome_samples"]))
        assert row["work_ran_out_at"] == ""
    # A_s and both bounds are those of (log, workload, P_jmax): two of each; equal share does not look at T_fwd.
    assert len(list((tmp_path / "cells").iterdir())) == 2 + 2 + 2 + 8 + 4
    for name in ("forward-s", "max-parallel", "split"):
        assert (tmp_path / f"efficiency-over-{name}.png").read_bytes().startswith(b"\x89PNG")


def test_a_log_is_read_with_the_options_of_every_other_command(tmp_path: Path) -> None:
    """A job log whose header is missing, with a bad line and a warm-up: by options, and by the keys of a grid file."""
    lines = ["broken"]
    for i in range(40):
        at = f"2024-01-0{1 + i // 20}T{i % 20:02}"
        lines.append(f"{i}|{at}:00:00|{at}:00:00|{at}:40:00|2|n[{1 + i % 3}-{2 + i % 3}]|COMPLETED")
    (tmp_path / "sacct.txt").write_text("\n".join(lines) + "\n")
    columns = "JobID,Submit,Start,End,NNodes,NodeList,State"
    given = ("--format", "sacct", "--columns", columns, "--skip-bad", "--warm-up-h", 5, "--outage", "none")
    by_options = sweep(tmp_path / "sacct.txt", tmp_path / "a", "--jobs", 1, "--no-bound", *given)
    keys = f'format = "sacct"\ncolumns = "{columns}"\nskip_bad = true\nwarm_up_h = 5.0\noutages = ["none"]\n'
    (tmp_path / "grid.toml").write_text(f'[[logs]]\npath = "sacct.txt"\n{keys}')
    ended = bftrainer(
        "replay", "sweep", "--grid", tmp_path / "grid.toml", "--jobs", 1, "--no-bound", "--out", tmp_path / "b"
    )
    assert ended.status == 0, ended
    assert (tmp_path / "b" / "results.csv").read_bytes() == by_options
    assert "1 skipped as bad" in ended.err
    assert "a warm-up of 5.0 h (as specified)" in ended.err


def test_it_is_the_replay_run_of_the_same_settings(log: Path, tmp_path: Path) -> None:
    trainers = tmp_path / "trainers.csv"
    bftrainer("replay", "workload", "hpo", "--count", 300, "--spacing-s", 1, "--out", trainers)
    run = bftrainer(
        "replay",
        "run",
        "--log",
        log,
        "--trainers",
        trainers,
        "--forward-s",
        60,
        "--max-parallel",
        10,
        "--json",
        "--out",
        tmp_path / "run",
    )
    options = ("--trainers", trainers, "--forward-s", "60", "--max-parallel", "10", "--json")
    swept = bftrainer("replay", "sweep", "--log", log, *options, "--out", tmp_path / "s", "--jobs", 1)
    one, (other,) = json.loads(run.out), json.loads(swept.out)
    for name in (
        "efficiency",
        "no_cost_bound",
        "outcome_samples",
        "preemptions",
        "rescales",
        "decisions",
        "unused_node_h",
    ):
        assert other[name] == one[name], name


def test_processes_give_what_one_process_gives(log: Path, tmp_path: Path) -> None:
    assert sweep(log, tmp_path / "one", "--jobs", 1, *GRID) == sweep(log, tmp_path / "two", "--jobs", 2, *GRID)


def test_the_order_of_work_does_not_matter(log: Path, tmp_path: Path) -> None:
    whole = sweep(log, tmp_path / "whole", "--jobs", 1, *GRID)
    sweep(log, tmp_path / "parts", "--jobs", 1, "--policies", "equal-share", "--max-parallel", "6")
    sweep(log, tmp_path / "parts", "--jobs", 1, "--forward-s", "120", "--split", "2")
    assert sweep(log, tmp_path / "parts", "--jobs", 1, *GRID) == whole


def test_mpi_gives_what_processes_give(log: Path, tmp_path: Path) -> None:
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    try:
        import mpi4py  # noqa: F401
    except ImportError:
        mpiexec = None
    need("" if mpiexec else "mpi4py or mpiexec is not there: pip install mpi4py mpich")
    assert mpiexec
    expected = sweep(log, tmp_path / "one", "--jobs", 1, *GRID)
    started = [mpiexec, "-n", "3", *command(log, tmp_path / "mpi", "--mpi", *GRID)]
    ended = subprocess.run(started, capture_output=True, text=True, timeout=100 * PATIENCE, check=False)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "mpi" / "results.csv").read_bytes() == expected
    # A mistake ends all processes, those that wait for work too.
    wrong = [mpiexec, "-n", "3", *command(tmp_path / "none.csv", tmp_path / "no", "--mpi")]
    ended = subprocess.run(wrong, capture_output=True, text=True, timeout=100 * PATIENCE, check=False)
    assert ended.returncode == 2
    assert "none.csv: cannot be read" in ended.stderr


def _whole(cells: Path) -> set[str]:
    """Every file that is there under its own name is whole."""
    found = set()
    for path in cells.glob("*.json"):
        if not path.name.startswith("."):
            json.loads(path.read_bytes())["result"]
            found.add(path.name)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_kill_9_loses_at_most_what_is_in_flight(log: Path, tmp_path: Path, seed: int) -> None:
    grid = ("--policies", "bftrainer", "--forward-s", ",".join(str(s) for s in range(10, 210, 5)), "--jobs", "2")
    out = tmp_path / "killed"
    process = subprocess.Popen(command(log, out, *grid), stderr=subprocess.DEVNULL, start_new_session=True)
    wanted = random.Random(seed).randint(3, 15)
    until = time.monotonic() + 60 * PATIENCE
    while len(list((out / "cells").glob("*.json"))) < wanted and time.monotonic() < until:
        assert process.poll() is None, "it was done before it could be killed"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    # Its workers do not outlive it. One may keep what it was just through with.
    until = time.monotonic() + 10 * PATIENCE
    while _of_session(process.pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert _of_session(process.pid) == []
    kept = _whole(out / "cells")
    assert len(kept) >= wanted
    times = {name: (out / "cells" / name).stat().st_mtime_ns for name in kept}
    ended = bftrainer("replay", "sweep", "--log", log, "--out", out, *grid)
    assert ended.status == 0
    assert f"{len(kept)} done, {40 - len(kept)} to do" in ended.err
    assert all((out / "cells" / name).stat().st_mtime_ns == at for name, at in times.items())
    assert (out / "results.csv").read_bytes() == sweep(log, tmp_path / "whole", *grid)


def _of_session(session: int) -> list[int]:
    """Living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(its) == session and state != "Z":
            found.append(int(path.parent.name))
    return found


def test_a_damaged_result_is_computed_again(log: Path, tmp_path: Path) -> None:
    whole = sweep(log, tmp_path, "--jobs", 1)
    for path in (tmp_path / "cells").iterdir():
        path.write_bytes(path.read_bytes()[:20])
    assert sweep(log, tmp_path, "--jobs", 1) == whole


def test_a_file_says_the_same_as_options(log: Path, tmp_path: Path) -> None:
    shutil.copy(log, tmp_path / "log.csv.gz")
    (tmp_path / "grid.toml").write_text(
        '[[logs]]\npath = "log.csv.gz"\nhours = 6\n[[workloads]]\nkind = "hpo"\nmodel = "vgg16"\n'
        "[grid]\nforward_s = [30, 60]\ncost_factors = [1, 2.5]\n"
    )
    by_file = bftrainer("replay", "sweep", "--grid", tmp_path / "grid.toml", "--out", tmp_path / "a", "--jobs", 1)
    assert by_file.status == 0, by_file
    options = ("--hours", 6, "--workload", "hpo", "--model", "vgg16", "--forward-s", "30,60", "--cost-factors", "1,2.5")
    assert sweep(log, tmp_path / "b", "--jobs", 1, *options) == (tmp_path / "a" / "results.csv").read_bytes()


def test_a_cell_that_fails_does_not_take_the_others_along(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_of_sweep.py").write_text(
        "def bad(trainer, n):\n    return -1.0 if n == 3 else float(n)\ndef good(trainer, n):\n    return float(n)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    options = ("--objectives", "mine_of_sweep:bad,mine_of_sweep:good", "--jobs", 2)
    ended = bftrainer("replay", "sweep", "--log", log, "--out", tmp_path / "out", *options)
    assert ended.status == 1
    assert "gave -1.0 for trainer" in ended.err
    assert "1 of 2 replays failed" in ended.err
    assert "mine_of_sweep:good" in (tmp_path / "out" / "results.csv").read_text()


def test_a_dry_run_does_nothing(log: Path, tmp_path: Path) -> None:
    ended = bftrainer("replay", "sweep", "--log", log, "--out", tmp_path / "out", "--dry-run", *GRID)
    assert (ended.status, ended.out) == (0, "")
    assert "16 cells, 18 replays" in ended.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--policies", "equalshare"), "unknown policy 'equalshare', did you mean 'equal-share'"),
        (("--objectives", "speed"), "unknown objective 'speed'"),
        (("--forward-s", "30;60"), "--forward-s: '30;60' is not a number"),
        (("--max-parallel", "0"), "the command line: grid.max_parallel.0"),
        (("--cost-model", "none"), "'none' is not one of 'stall', 'paper', 'delay'"),
        (("--workload", "nas"), "'nas' is not one of 'hpo', 'diverse'"),
        (("--jobs", "0"), "--jobs 0: expected 1 or more"),
        (("--seeds", "-1"), "the command line: grid.seeds.0: input should be greater than or equal to 0"),
        (("--hours", "-1"), "--hours -1"),
    ],
)
def test_mistakes_leave_nothing_behind(log: Path, tmp_path: Path, options: tuple[str, ...], expected: str) -> None:
    assert expected in complaint(bftrainer("replay", "sweep", "--log", log, "--out", tmp_path / "out", *options))
    assert not (tmp_path / "out").exists()


def test_without_a_log(tmp_path: Path) -> None:
    assert "no log; specify one with --log" in complaint(bftrainer("replay", "sweep", "--out", tmp_path / "out"))


def test_what_policies_know_is_an_axis(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    bftrainer("replay", "generate", "--nodes", 24, "--days", 0.2, "--seed", 1, "--out", log)
    common = ("replay", "sweep", "--log", log, "--count", 14, "--no-bound", "--jobs", 1, "--out", tmp_path / "o")
    common = (*common, "--objectives", "throughput")
    ended = bftrainer(*common, "--knows", "known,wrong:flat,learn", "--noise", 0.1, "--lessons", "trainer", "--json")
    assert ended.status == 0, ended
    rows = {row["knows"]: row for row in json.loads(ended.out)}
    assert set(rows) == {"known", "wrong:flat", "learn"}
    assert (
        rows["wrong:flat"]["outcome_samples"]
        < rows["learn"]["outcome_samples"]
        <= rows["known"]["outcome_samples"] * 1.05
    )
    assert len({row["static_outcome_samples"] for row in rows.values()}) == 1
    assert "unknown curve mode 'lern', did you mean 'learn'?" in complaint(bftrainer(*common, "--knows", "lern"))
