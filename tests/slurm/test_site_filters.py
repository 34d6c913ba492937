"""Filters that a site puts around sbatch: they print lines of their own, and refuse a request for
memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import started
from support.command_line import bftrainer
from support.live_machine import Machine, eventually, machine
from support.pilot_config import pilot_config
from support.slurm_lab import Lab, Settings

FILTER = """\
#!/bin/bash
printf '\\n-------\\n  Welcome\\n-------\\n\\n--> Verifying valid submit host (login4)...OK\\n'
for word in "$@"; do
    case $word in --mem=*)
        echo "sbatch: error: Memory must be requested per core: use --mem-per-cpu, not --mem" >&2
        echo "sbatch: error: Batch job submission failed: Memory specification can not be satisfied" >&2
        exit 1
    esac
done
exec {sbatch} "$@"
"""
CONFIG = pilot_config(nodes={"flap_back_off_s": 1})


@pytest.fixture(scope="module")
def memory_lab() -> Iterator[Lab]:
    """Jobs count their memory."""
    yield from started(Settings(nodes=2, shares_nodes=True))


@pytest.fixture
def beside(memory_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    memory_lab.enter(monkeypatch.setenv)
    memory_lab.put_fake("sbatch", FILTER.format(sbatch=memory_lab.real("sbatch")))
    pilot = machine(tmp_path, [], CONFIG)
    yield pilot
    pilot.close()
    memory_lab.tidy_up()


def doctor(pilot: Machine, lab: Lab) -> str:
    return re.sub(r"\s+", " ", bftrainer("doctor", "--state", str(pilot.state), env=lab.env).out)


@pytest.mark.parametrize(
    ("line", "mib"),
    [('options = ["--mem-per-cpu=700M"]', "1400M"), ('mem = ""', "2000M")],
    ids=["per core", "none"],
)
def test_a_pilot_trains_where_sbatch_is_filtered(
    beside: Machine, memory_lab: Lab, line: str, mib: str
) -> None:
    refused = doctor(beside, memory_lab)
    assert "Memory must be requested per core" in refused
    assert 'slurm.options = ["--mem-per-cpu=4000M"], or none with slurm.mem = ""' in refused
    (beside.state / "bftrainer.toml").write_text(f"{CONFIG}{line}\n")
    assert "sbatch would accept a holder" in doctor(beside, memory_lab)
    beside.submit("t", 20_000, 0.05, 2)
    beside.pilot()
    eventually(beside.state_is_there)
    eventually(lambda: len(beside.of_trainer("t")) == 2, 60)
    eventually(lambda: beside.steps("t"), 60)
    requested = memory_lab.run(
        "squeue", "-h", "-n", "bftrainer-holder", "-t", "R", "-O", "tres-alloc:100"
    )
    assert set(re.findall(r"mem=(\w+)", requested)) == {mib}
