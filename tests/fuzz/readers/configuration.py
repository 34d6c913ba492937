"""Files that users write: configurations, trainer files, host lists."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from fuzz.readers.reader import Reader, of_file

PILOT = (
    b'[decisions]\npolicy = "bftrainer?guard_hours=6"\nobjective = "throughput"\nforward_s = 120.0\nmax_parallel = 10\n\n'
    b'[nodes]\nholder = "trace"\nslots = 2\nhosts = ["node[001-128,200]", "gpu*"]\nquiet_hours = ["mon-fri 08:00-18:00"]\n'
    b"min_window_s = 60\n\n[times]\npoll_s = 10\nlease_s = 60.5\n\n"
    b'[metrics]\nport = 9100\naddress = "127.0.0.1"\ntoken_file = "token"\n\n'
    b'[classes.fast]\nhosts = ["a[1-4]"]\ngpu = "a100"\nslots = 4\n\n[trace]\nlog = "log.csv"\nspeedup = 60.0\n'
    b'[slurm]\npartition = "idle"\n\n[notices]\non_event = ["mail", "-s", "x"]\n'
)
TRAINER = (
    b'name = "mnist"\ncommand = ["true", "train.py"]\nmax_nodes = 4\nsizes = [1, 2, 4]\nsamples_total = 1.0e6\n'
    b'curve = {nodes = [1, 4], samples_per_s = [100.0, 380.0]}\npriority = 2\ncwd = "."\nenv = {A = "1", "B_C" = "x y"}\n'
    b'setup = ["module load x"]\nscaling = "strong"\nglobal_batch = 256\nstop_signal = "SIGUSR1"\nnode_class = "4 a100"\n'
)
PROBLEM = (
    b'{"pool": 11, "forward_s": 120, "objective": "throughput", "trainers": [{"id": "a", "min_nodes": 1, "max_nodes": 8, '
    b'"scale_up_s": 20, "scale_down_s": 10, "nodes": 3, "curve": {"nodes": [1, 8], "samples_per_s": [100, 700]}}, '
    b'{"id": "b", "min_nodes": 2, "max_nodes": 8, "scale_up_s": 20.5, "scale_down_s": 10, "sizes": [0, 2, 8], "weight": 2.5, '
    b'"value": {"nodes": [2, 8], "per_s": [1.5, 3.0]}, "stalled_s": 1.0, "ramp_s": 2.0, '
    b'"pending": {"training": 2, "ahead_s": 1.0, "switch_s": 0.5, "longer_s": 0.0}}]}'
)
LOG = b"time,joined,left\n2021-01-01T00:00:00,n1 n2,\n2021-01-01T01:00:00,n3,n1\n2021-01-01T02:00:00,,n2 n3\n"
GRID = (
    b'[[logs]]\npath = "log.csv"\nhours = 1.5\nnodes = 2\n\n[[workloads]]\nkind = "hpo"\nmodel = "resnet18"\n\n[grid]\n'
    b'policy = ["bftrainer", "equal-share"]\nforward_s = [30, 60.5]\nmax_parallel = [3, "auto"]\nseed = [0, 1]\n'
    b'split = [1, 2]\ncheckpoint_s = [0, 60]\ncurves = ["known", "learn"]\nnoise = [0.1]\ncost_model = ["stall"]\n'
)


def _pilot_config(path: Path) -> None:
    from bftrainer.config.pilot import read_config
    from bftrainer.plugins import load_site

    config = read_config(path)
    if (site := getattr(load_site(config.nodes.holder), "check_table", None)) is not None:
        site(config, str(path))


def _trainer_file(path: Path) -> None:
    from bftrainer.config.trainer_file import read_trainer_file, settle

    spec = settle(
        read_trainer_file(path), str(path), path.parent, {"PATH": os.defpath, "HOME": "/"}
    )
    for text in (
        *spec.command,
        *spec.env,
        *spec.env.values(),
        str(spec.cwd),
        *spec.setup,
        *spec.stage_in,
    ):
        assert "\0" not in text, "a NUL that no program can be given"
    assert all(name and "=" not in name for name in spec.env), (
        "a variable that no environment can have"
    )
    trainer = spec.trainer()
    assert all(value <= 1e15 for value in trainer.curve.per_s), "a rate without a bound"


def _host_list(data: bytes, folder: Path) -> None:
    from bftrainer.config.host_lists import expand, host_patterns, matches
    from bftrainer.sharing.claims import MOST_STEPS, ClaimComparison

    text = data.decode("utf-8", "surrogateescape")
    patterns = tuple(text.split(" "))
    comparison = ClaimComparison([f"n{number}" for number in range(1000)])
    comparison.claimed("eve", patterns)
    assert comparison.steps <= MOST_STEPS
    try:
        matches("n17", patterns)
        assert host_patterns(patterns)
    finally:
        expand(text)


def _problem_file(path: Path) -> None:
    from bftrainer.config.problem_file import MOST_BYTES, document_of, problem_of, read_problem
    from bftrainer.config.validation import read_text

    problem = read_problem(read_text(path, MOST_BYTES), str(path))
    assert problem_of(document_of(problem), str(path)) == problem


def _grid_file(path: Path) -> None:
    from bftrainer_replay.sweep.grid import read_sweep

    path.with_name("log.csv").write_bytes(LOG)
    sweep = read_sweep(path)
    assert len(sweep.tasks) <= len(sweep.cells)


def readers() -> Iterator[Reader]:
    """The readers of what users write."""
    yield Reader("pilot config", of_file(_pilot_config, "bftrainer.toml"), (PILOT,))
    yield Reader("trainer file", of_file(_trainer_file, "trainer.toml"), (TRAINER,))
    yield Reader("problem file", of_file(_problem_file, "problem.json"), (PROBLEM,), is_json=True)
    yield Reader("grid file", of_file(_grid_file, "grid.toml"), (GRID,))
    yield Reader(
        "host list",
        _host_list,
        (b"node[01-03,7],gpu*", b"n[1-4]m[2,3],cn?[08-10],x-1", b"n[1-4]m[2,3] cn?[08-10] x-1"),
    )
