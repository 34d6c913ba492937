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


def readers() -> Iterator[Reader]:
    """The readers of what users write."""
    yield Reader("pilot config", of_file(_pilot_config, "bftrainer.toml"), (PILOT,))
    yield Reader("trainer file", of_file(_trainer_file, "trainer.toml"), (TRAINER,))
    yield Reader(
        "host list",
        _host_list,
        (b"node[01-03,7],gpu*", b"n[1-4]m[2,3],cn?[08-10],x-1", b"n[1-4]m[2,3] cn?[08-10] x-1"),
    )
