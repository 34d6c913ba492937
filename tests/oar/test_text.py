"""The readers of OAR's answers, on what a live OAR 2.5.9 printed (tests/recorded/oar-2.5.9; its
COMMANDS.tsv has the commands, record_oar.py records them again).
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from bftrainer.cluster.model import Availability, Observation
from bftrainer.cluster.windows import EndKind, PilotJobs, free_nodes
from bftrainer.errors import SchedulerError, UnknownStateError
from bftrainer.system.command import parsed
from bftrainer_clusters.oar import text
from bftrainer_clusters.oar.site import SITE, OarCluster, OarSettings, plan_argv
from bftrainer_clusters.simple import JobPhase

RECORDED = Path(__file__).parents[1] / "recorded" / "oar-2.5.9"


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text()


def changed(name: str, id_: str, **values: object) -> str:
    """The answer with other values in one object."""
    answer: dict[str, dict[str, Any]] = json.loads(recorded(name))
    answer[id_].update(values)
    return json.dumps(answer)


def nodes(moment: str, resources: str | None = None) -> dict[str, Availability]:
    plan = text.parse_plan(recorded(f"{moment}.oarstat-gantt-J"))
    seen = text.parse_nodes(
        recorded(f"{moment}.oarnodes-J") if resources is None else resources, plan
    )
    return {node.name: node.availability for node in seen}


def observation(moment: str) -> Observation:
    jobs = text.parse_jobs(recorded(f"{moment}.oarstat-J"))
    plan = text.parse_plan(recorded(f"{moment}.oarstat-gantt-J"))
    seen = text.parse_nodes(recorded(f"{moment}.oarnodes-J"), plan)
    pending, reservations = text.pending_jobs(jobs, plan), text.reservations(jobs, plan)
    return Observation(1795957356.0, seen, pending, reservations)


def test_every_state_has_a_phase() -> None:
    """Those of the table jobs in OAR's pg_structure.sql."""
    assert set(text.JOB_STATES) == {
        *("Waiting", "Hold", "toLaunch", "toError", "toAckReservation", "Launching", "Running"),
        *("Suspended", "Resuming", "Finishing", "Terminated", "Error"),
    }


def test_without_jobs_oarstat_prints_nothing() -> None:
    assert recorded("empty.oarstat-J") == recorded("empty.oarstat-own") == ""
    assert text.parse_jobs("") == {}
    assert text.parse_own("", "root") == ()
    assert set(nodes("empty").values()) == {Availability.FREE}
    assert observation("empty").pending == ()


@pytest.mark.parametrize("name", ["moment.oarstat-J", "moment.oarstat-own"])
def test_an_answer_that_is_cut_off_is_an_error(name: str) -> None:
    whole = recorded(name).rstrip()
    for end in range(1, len(whole)):
        with pytest.raises(ValueError, match=r"."):
            text.objects(whole[:end])


@pytest.mark.parametrize("jobs", ["[]", "null", '{"1": null}', '{"1": []}', '{"1": 5}'])
def test_a_plan_of_another_shape_is_an_error(jobs: str) -> None:
    with pytest.raises(SchedulerError):
        parsed(("oarstat",), f'{{"jobs": {jobs}}}', text.parse_plan)


def test_the_nodes_of_a_plan_are_a_list() -> None:
    plan = json.loads(recorded("moment.oarstat-gantt-J"))
    next(iter(plan["jobs"].values()))["network_address"] = "node01"
    with pytest.raises(SchedulerError, match="expected a list"):
        text.parse_plan(json.dumps(plan))


def test_no_nodes_are_an_error() -> None:
    with pytest.raises(SchedulerError, match="no node"):
        text.parse_nodes("", {})


def test_nodes_with_jobs_plans_and_a_drain() -> None:
    """Holders on two nodes, a main job on the third; the fourth is drained."""
    assert nodes("moment") == {
        "node01": Availability.BUSY,
        "node02": Availability.BUSY,
        "node03": Availability.BUSY,
        "node04": Availability.UNUSABLE,
    }
    node04 = observation("moment").nodes[3]
    assert (node04.is_withdrawn, node04.cpus, node04.state) == (True, 2, "Alive, drain")


def test_plans_and_reservations() -> None:
    seen = observation("moment")
    (reservation,) = seen.reservations
    assert reservation.nodes == {"node04"}
    assert reservation.ends_s - reservation.starts_s == 3600
    sizes = {(job.size, job.starts_s is None, job.is_eligible, job.user) for job in seen.pending}
    assert sizes == {(3, False, True, "max"), (1, True, False, "max")}


def test_a_node_that_is_absent_is_not_usable() -> None:
    assert nodes("absent")["node03"] is Availability.UNUSABLE


@pytest.mark.parametrize(
    ("values", "availability"),
    [
        ({"state": "Suspected"}, Availability.UNUSABLE),
        ({"state": "Dead"}, Availability.UNUSABLE),
        ({"suspended_jobs": "YES"}, Availability.BUSY),
        ({"jobs": "7"}, Availability.BUSY),
        ({"besteffort": "NO"}, Availability.UNUSABLE),
        ({"desktop_computing": "YES"}, Availability.UNUSABLE),
        ({"drain": "YES"}, Availability.UNUSABLE),
    ],
)
def test_one_resource_of_a_node_decides(
    values: dict[str, object], availability: Availability
) -> None:
    resources = changed("empty.oarnodes-J", "2", **values)
    seen = nodes("empty", resources)
    assert seen["node01"] is availability
    assert seen["node02"] is Availability.FREE


def test_a_node_that_is_there_until_a_time_has_a_window() -> None:
    resources = changed("empty.oarnodes-J", "1", available_upto=1795960000)
    (node, *_) = text.parse_nodes(resources, {})
    seen = Observation(1795957356.0, (node,))
    (free,) = free_nodes(seen, PilotJobs())
    assert (free.end.kind, free.end.at_s) == (EndKind.BACKFILL_WINDOW, 1795960000)


def test_unknown_states_are_quoted() -> None:
    with pytest.raises(UnknownStateError, match="Asleep"):
        nodes("empty", changed("empty.oarnodes-J", "1", state="Asleep"))
    id_ = next(iter(json.loads(recorded("moment.oarstat-J"))))
    with pytest.raises(UnknownStateError, match="Dreaming"):
        text.parse_jobs(changed("moment.oarstat-J", id_, state="Dreaming"))


def test_holders_are_those_of_the_owner_that_oar_names() -> None:
    own = text.parse_own(recorded("moment.oarstat-own"), "root")
    assert [job.label for job in own] == ["label", "label"]
    assert all(job.blocks == "" for job in own)
    assert {OarCluster.states[job.state] for job in own} == {JobPhase.RUNS}
    assert text.parse_own(recorded("moment.oarstat-own"), "eve") == ()
    ended = {job.id: job for job in text.parse_own(recorded("preempted.oarstat-own"), "root")}
    assert {OarCluster.states[record.state] for record in ended.values()} == {JobPhase.OVER}
    assert "FRAG_JOB_REQUEST" in ended["1"].reason
    assert "CHECKPOINT" in ended["2"].reason


def test_a_holder_starts_when_oar_says_and_ends_an_hour_later() -> None:
    (first, _) = sorted(
        text.parse_own(recorded("moment.oarstat-own"), "root"), key=lambda job: job.id
    )
    starts_s = json.loads(recorded("moment.oarstat-own"))[first.id]["startTime"]
    assert first.ends_s == starts_s + 3600


def test_the_id_of_a_submission() -> None:
    assert text.parse_id(recorded("submitted.node01")) == "1"
    with pytest.raises(SchedulerError, match="no job id"):
        text.parse_id("OAR_JOB_ID=-5\n")  # what oarsub prints after a failure


@pytest.mark.parametrize("name", ["error.oardel-unknown", "error.oardel-signal"])
def test_what_is_over_is_no_error_of_oardel(name: str) -> None:
    assert text.is_only_over((RECORDED / f"{name}.err").read_text())
    # Words of oardel's source (2.5.9).
    assert text.is_only_over("Cannot frag 3 ; This job was already killed.\n")
    assert text.is_only_over("Cannot signal 3 ; This job is not running.\n")


@pytest.mark.parametrize("errors", ["", "Cannot connect to executor head:6666\n"])
def test_another_failure_of_oardel_is_an_error(errors: str) -> None:
    assert not text.is_only_over(errors)
    assert not text.is_only_over(f"Cannot frag 3 ; This job was already killed.\n{errors}x\n")


def test_a_job_that_starts_again_or_is_none_of_besteffort_refuses_holders() -> None:
    cluster = OarCluster(OarSettings(options=("-t", "idempotent")))
    assert "idempotent" in cluster.why_no_holder()
    for options in (("-n", "mine"), ("--name=mine",)):
        cluster = OarCluster(OarSettings(options=options))
        assert "a holder is known by its name" in cluster.why_no_holder()
    for types, words in (
        (["besteffort", "idempotent"], "of the type idempotent"),
        ([], "no besteffort job"),
    ):
        id_ = next(iter(json.loads(recorded("moment.oarstat-own"))))
        own = text.parse_own(changed("moment.oarstat-own", id_, types=types), "root")
        assert [(job.id, job.blocks) for job in own if job.blocks] == [(id_, words)]


def test_plans_are_asked_for_from_now_in_the_hour_that_occurs_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On 2026-10-25, 02:00 to 03:00 occurs twice in Paris; oarstat takes either for what is meant."""
    monkeypatch.setenv("TZ", "Europe/Paris")
    time.tzset()
    try:
        for now_s in range(1792882800, 1792882800 + 4 * 3600, 600):
            begin, _ = plan_argv(now_s)[3].split(", ")
            parts = time.strptime(begin, "%Y-%m-%d %H:%M:%S")
            if (parts.tm_mday, parts.tm_hour) == (25, 2):  # the other reading: winter time
                assert time.mktime((*parts[:8], 0)) <= now_s
            else:
                assert time.mktime((*parts[:8], -1)) <= now_s
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_site_is_named_as_its_table() -> None:
    assert (SITE.name, SITE.table) == ("oar", OarSettings)
