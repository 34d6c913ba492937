"""Out of memory: a reason with node and size, and sizes that are not tried again, also by the next
pilot.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.live_house import house, spec

from bftrainer.decide.domain.sizes import sizes_of
from bftrainer.pilot.persistence.registry import Registry
from bftrainer.pilot.trainers.for_core import fitting_sizes, spec_to_start, with_fitting_sizes
from bftrainer.pilot.trainers.outcomes import unfit_sizes
from bftrainer.wires.log_tail import oom_killed, out_of_memory


@pytest.mark.parametrize(
    ("line", "which", "is_killed"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.", "GPU", False),
        ("RuntimeError: CUDA error: out of memory", "GPU", False),
        (
            "slurmstepd-node17: error: Detected 1 oom_kill event in StepId=1234.0. Some of the "
            "step tasks have been OOM "
            "Killed.",
            "host",
            True,
        ),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1234.0.", "host", True),
        ("srun: error: node17: task 0: Out Of Memory", "host", True),
        ("MemoryError", "host", False),
        ("my own line about an oom_kill", "host", False),
        ("srun: error: node17: task 0: Killed", "", False),
    ],
)
def test_which_memory_was_too_small(line: str, which: str, is_killed: bool) -> None:
    assert (out_of_memory(["as far as this", line]), oom_killed(["as far as this", line])) == (
        which,
        is_killed,
    )


def test_a_driver_is_told_no_size_that_did_not_fit() -> None:
    submitted = spec("a", 4)
    assert spec_to_start(submitted, ()) is submitted
    assert spec_to_start(submitted, ((1, 2),)).sizes == (3, 4)
    assert spec_to_start(submitted, ((1, 4),)).sizes == (1, 2, 3, 4), "then it has failed"


@given(st.integers(1, 12), st.data())
def test_what_ran_is_tried_again_unless_it_failed_and_each_failure_leaves_fewer_sizes(
    most: int, data: st.DataObject
) -> None:
    trainer = spec("a", most).trainer()
    left, unfit = frozenset(sizes_of(trainer)), ()
    threshold, grows = data.draw(st.integers(0, most + 1)), data.draw(st.booleans())
    ran: set[int] = set()
    while left:
        size = data.draw(st.sampled_from(sorted(left)))
        if (size <= threshold) is grows:
            ran.add(size)
            if len(ran) == len(left):
                break
            continue
        unfit = (*unfit, unfit_sizes(size, ran, trainer))
        now = frozenset(fitting_sizes(trainer, unfit))
        assert ran <= now < left
        assert size not in now
        assert not now or frozenset(sizes_of(with_fitting_sizes(trainer, unfit))) == now
        left = now


def test_the_reason_names_node_and_size_and_the_next_pilot_does_not_try_it_either(
    tmp_path: Path,
) -> None:
    home = house(tmp_path / "state")
    home.submit(spec("a", max_nodes=4))
    home.cluster.give("n1", "n2")
    home.launcher.fits["a"] = 3
    home.at(6, lambda: home.launcher.progress("a", 10.0))
    home.at(10, lambda: home.cluster.give("n3", "n4"))
    home.pilot(15)
    row = Registry(home.store()).trainer("a")
    assert row.reason.startswith(
        "failed 1 time, will be retried: GPU out of memory on n1 at 4 nodes; ran at 2: status 1"
    )
    assert row.unfit == ((4, 4),)
    began = len(home.launcher.orders)
    home.pilot(60)
    assert {
        len(nodes) for _, name, nodes in home.launcher.orders[began:] if name == "a" and nodes
    } == {3}
