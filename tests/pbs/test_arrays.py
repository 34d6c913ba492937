"""Job arrays on the stand-in PBS: when their jobs are asked for, and how much of the answer is held."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Mapping

import pytest
from support.pbs_under_test import StandInPbs
from support.recorded_pbs import recorded

from bftrainer.cluster.model import Availability
from bftrainer.errors import CommandError
from bftrainer.system import command
from bftrainer_clusters.pbs import jobs
from bftrainer_clusters.pbs.text import PbsRecord, parse_nodes

MANY = 100_000


def with_array(
    pbs: StandInPbs,
    running: Mapping[int, str],
    suspended: Mapping[int, str],
    count: int = 100,
    padding: int = 0,
) -> None:
    array = {"count": count, "running": running, "suspended": suspended, "padding": padding}
    pbs.lab.change(arrays={"411": array})


def availability(pbs: StandInPbs) -> dict[str, Availability]:
    return {node.name: node.availability for node in pbs.scheduler.observe().nodes}


def asked_for_tasks(pbs: StandInPbs) -> list[list[str]]:
    return [words for words in pbs.lab.calls("qstat") if "-t" in words]


def test_an_array_whose_running_jobs_are_all_on_nodes_is_not_asked_for(pbs: StandInPbs) -> None:
    with_array(pbs, running={0: "node01", 1: "node02"}, suspended={})
    (pending,) = pbs.scheduler.observe().pending
    assert (pending.id, pending.size) == ("411[]", 98)
    assert [*availability(pbs).values()].count(Availability.BUSY) == 2
    assert asked_for_tasks(pbs) == []


def test_a_suspended_job_of_an_array_keeps_its_node(pbs: StandInPbs) -> None:
    with_array(pbs, running={0: "node01"}, suspended={1: "node03"})
    found = availability(pbs)
    assert [name for name, each in found.items() if each is Availability.FREE] == [
        "node02",
        "node04",
    ]
    (words,) = asked_for_tasks(pbs)
    assert words[-1] == "411[].head"


def test_of_a_hundred_thousand_jobs_only_those_with_nodes_are_held(pbs: StandInPbs) -> None:
    """PBS prints 60 MB here."""
    with_array(pbs, {7: "node01"}, {MANY - 1: "node04"}, count=MANY, padding=500)
    commands = pbs.cluster().commands
    records = commands.all_jobs()
    tracemalloc.start()
    try:
        found = commands.hidden_tasks(records, ["411[7].head"])
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {record.id: record.get("job_state") for record in found} == {
        "411[7].head": "R",
        f"411[{MANY - 1}].head": "S",
    }
    assert peak_bytes < 4_000_000
    assert availability(pbs)["node04"] is Availability.BUSY


def test_what_is_held_of_an_answer_has_a_limit_and_the_program_is_ended() -> None:
    """Lines of jobs with nodes, a line that never ends, and errors."""
    for text in ("exec_vnode=(n1)\\n", "x"):
        for stream in ("stdout", "stderr"):
            endless = f"import sys\nwhile True: sys.{stream}.write('{text}' * 1000)"
            argv = [sys.executable, "-c", endless]
            with pytest.raises(CommandError, match="printed more than 100000 bytes, killed"):
                command.outcome_of_lines(
                    argv, jobs.may_have_nodes, timeout_s=60, most_bytes=100_000
                )
    argv = [sys.executable, "-c", "while True: print('dropped')"]
    with pytest.raises(CommandError, match="no response within"):
        command.outcome_of_lines(argv, jobs.may_have_nodes, timeout_s=0.5)


def test_a_filtered_answer_has_the_lines_the_errors_and_the_status() -> None:
    script = "printf 'a\\nb exec_vnode=(n1)\\n\\nexec_vnode=(n'; echo no >&2; exit 3"
    output = command.outcome_of_lines(["sh", "-c", script], jobs.may_have_nodes, timeout_s=60)
    assert output == command.Output("b exec_vnode=(n1)\nexec_vnode=(n", "no\n", 3)


def test_the_recorded_array_hides_its_suspended_jobs() -> None:
    """All six jobs of 411[] are suspended: it counts them as running, and no node shows them."""
    (array,) = (job for job in jobs.parse_jobs(recorded("busy.qstat-f.dsv")) if "[]" in job.id)
    shown = jobs.indices_by_array(parse_nodes(recorded("busy.pbsnodes-av.json")).jobs)
    assert array.get("array_state_count") == "Queued:0 Running:6 Exiting:0 Expired:0"
    assert "411" not in shown
    assert jobs.hides_tasks(array, ())


@pytest.mark.parametrize(
    ("counts", "remaining", "shown", "hides"),
    [
        ("Queued:94 Running:6 Exiting:0", "6-99", range(6), False),
        ("Queued:94 Running:5 Exiting:1", "6-99", range(6), False),
        ("Queued:94 Running:6 Exiting:0", "6-99", range(5), True),
        # Job 6 has started after the array was listed; one of the six is suspended.
        ("Queued:94 Running:6 Exiting:0", "6-99", (0, 1, 2, 3, 4, 6), True),
        # One of them has ended since: asked for in vain.
        ("Queued:3 Running:2 Exiting:0", "2,4-6:2", (3,), True),
        ("Queued:3 Running:2 Exiting:0", "2,4-6:2", (3, 5), False),
        ("Queued:0 Running:2 Exiting:0", "-", (0, 1), False),
        ("", "6-99", range(6), True),
        ("Queued:94 Running:6 Exiting:0", "", range(6), True),
        ("Queued:94 Running:6 Exiting:0", "6-99:0", range(6), True),
    ],
)
def test_when_an_array_may_hide_jobs(
    counts: str, remaining: str, shown: tuple[int, ...], hides: bool
) -> None:
    attributes = {"array_state_count": counts, "array_indices_remaining": remaining}
    assert jobs.hides_tasks(PbsRecord("411[].head", attributes), shown) is hides
    assert jobs.hides_tasks(PbsRecord("411[].head", attributes, is_whole=False), shown)
