"""Parsers of PBS's output on recordings of a real OpenPBS 23.06.06."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest
from support.recorded_pbs import FOLDER, as_dsv, recorded, status_of

from bftrainer.cluster.model import Availability
from bftrainer.errors import BFTrainerError, SchedulerError, UnknownStateError
from bftrainer.system.command import parsed
from bftrainer_clusters.pbs import jobs
from bftrainer_clusters.pbs.node_waits import node_waits
from bftrainer_clusters.pbs.observe import can_start, pending_job
from bftrainer_clusters.pbs.queue import (
    parse_queues,
    parse_schedulers,
    parse_server,
)
from bftrainer_clusters.pbs.text import (
    PbsNodes,
    parse_nodes,
    parse_reservations,
    parse_time,
    short_id,
    unknown_jobs,
)
from bftrainer_clusters.simple import JobPhase

JOBS = sorted(path.name for path in FOLDER.glob("*.qstat-f.dsv"))
JSON_JOBS = sorted(
    path.name
    for end in ("f", "tf", "xf")
    for path in FOLDER.glob(f"*.qstat-{end}.json")
    if path.name != "idle.qstat-f.json"
)


def availability(name: str) -> dict[str, Availability]:
    return {view.name: view.availability for view in parse_nodes(recorded(name)).views}


def nodes_beside(nodes: str, dsv: str) -> dict[str, Availability]:
    """Availability of nodes by pbsnodes and by the jobs of qstat."""
    records = jobs.parse_jobs(dsv)
    views = parse_nodes(recorded(nodes)).occupied(jobs.places_of(records), ())
    return {view.name: view.availability for view in views}


@pytest.mark.parametrize("name", JSON_JOBS)
def test_every_recorded_job_is_read(name: str) -> None:
    records = jobs.parse_jobs(as_dsv(name))
    assert records
    for record in records:
        assert record.is_whole
        jobs.holder_record(record, "preempt")
        jobs.ends_s(record)


@pytest.mark.parametrize("moment", ["suspended", "busy"])
def test_json_and_dsv_of_a_moment_have_the_same_jobs(moment: str) -> None:
    """So that recordings in JSON stand for DSV in other tests."""
    from_json, from_dsv = (
        [(r.id, {k: v for k, v in r.attributes.items() if k not in _UNLIKE}) for r in records]
        for records in (
            jobs.parse_jobs(as_dsv(f"{moment}.qstat-f.json")),
            jobs.parse_jobs(recorded(f"{moment}.qstat-f.dsv")),
        )
    )
    assert from_json == from_dsv


_UNLIKE = ("eligible_time", "resources_used.walltime")
"""What changes from one command to the next, a second later."""


def test_a_dead_server_is_an_error_and_an_empty_cluster_is_none() -> None:
    """Both print a JSON document without jobs; only the status differs. The pilot reads DSV, where
    an empty cluster prints nothing.
    """
    assert status_of("error.server-down.qstat.txt") == 255
    assert status_of("idle.qstat-f.json") == 0
    assert jobs.parse_jobs(as_dsv("idle.qstat-f.json")) == ()
    assert {
        status_of(f"error.server-down.{name}.txt") for name in ("pbsnodes", "rstat", "qmgr")
    } == {
        1,
        162,
        3,
    }


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("idle.pbsnodes-av.json", parse_nodes),
        ("idle.qstat-Bf.json", parse_server),
        ("idle.qmgr-list-sched.txt", parse_schedulers),
    ],
)
def test_an_answer_that_is_cut_anywhere_is_an_error(
    name: str, read: Callable[[str], object]
) -> None:
    text = recorded(name).rstrip("\n") + "\n"
    whole = read(text)
    for end in range(1, len(text) - 1):
        try:
            assert parsed(["pbs"], text[:end], read) == whole  # only blanks were cut
        except BFTrainerError:
            continue


@pytest.mark.parametrize("name", JOBS)
def test_a_list_of_jobs_that_is_cut_inside_a_line_is_an_error(name: str) -> None:
    """Where it is cut between two lines, a list of ids tells (:meth:`PbsCommands.all_jobs`)."""
    text = recorded(name)
    for end in range(1, len(text), 7):
        if text[end - 1] != "\n":
            with pytest.raises(SchedulerError, match="truncated"):
                jobs.parse_jobs(text[:end])


def test_values_of_users_forge_neither_jobs_nor_attributes() -> None:
    """A variable has ``|job_state=R|exec_vnode=(n1...)``, another a line ``Job Id: 1.head``."""
    records = jobs.parse_jobs(recorded("injected.qstat-f.dsv"))
    assert [record.id for record in records] == ["1651.head", "1652.head", "1653.head"]
    assert [record.get("job_state") for record in records[1:]] == ["H", "H"]
    assert jobs.places_of(records[1:]) == []
    odd = jobs.parse_jobs(recorded("odd-values.qstat-f.dsv"))
    assert len(odd) == 5
    assert {jobs.user_of(record) for record in odd} == {"uma"}
    assert {record.get("job_state") for record in odd} == {"R"}


def test_a_name_that_hides_attributes_hides_its_own_job_only() -> None:
    """``qsub -N 'x\\'``: whether PBS escapes a backslash is not known."""
    first, *_ = recorded("suspended.qstat-f.dsv").splitlines()
    hidden = first.replace("|Job_Owner=", "\\|Job_Owner=", 1)
    (record,) = jobs.parse_jobs(hidden + "\n")
    assert not record.is_whole
    assert set(jobs.places_of([record])) == {"(n1:ncpus=8)"}


def test_states_of_nodes() -> None:
    assert set(availability("idle.pbsnodes-av.json").values()) == {Availability.FREE}
    busy, free, unusable = Availability.BUSY, Availability.FREE, Availability.UNUSABLE
    # n1 is offline beside its job, n2 has 6 of 8 cores free and is "free" by its state.
    states = availability("states.offline-busy.pbsnodes-av.json")
    assert states == {"n1": unusable, "n2": busy, "n3": busy, "n4": free}
    (n1,) = (
        view
        for view in parse_nodes(recorded("states.offline-busy.pbsnodes-av.json")).views
        if view.name == "n1"
    )
    assert n1.is_withdrawn
    assert availability("states.maintenance.pbsnodes-av.json")["n2"] is unusable
    assert availability("states.resv-exclusive.pbsnodes-av.json")["n4"] is unusable
    assert availability("states.busy.pbsnodes-av.json") != availability("idle.pbsnodes-av.json")
    with pytest.raises(UnknownStateError, match="on-fire"):
        parse_nodes(recorded("idle.pbsnodes-av.json").replace('"free"', '"free,on-fire"', 1))


def test_a_suspended_job_is_on_a_node_that_looks_free() -> None:
    name = "states.suspended-on-free-node"
    assert availability(f"{name}.pbsnodes-av.json")["n1"] is Availability.FREE
    found = nodes_beside(f"{name}.pbsnodes-av.json", as_dsv(f"{name}.qstat-f.json"))
    assert found["n1"] is Availability.BUSY
    assert found["n3"] is Availability.FREE
    # The tasks of an array too: by qstat -t only.
    tasks = jobs.parse_jobs(as_dsv("busy.qstat-tf.json"))
    suspended = [r.id for r in tasks if jobs.phase_of(r) is JobPhase.SUSPENDED]
    assert "411[0].head" in suspended
    assert len(suspended) == len(jobs.places_of(tasks)) - 1


def test_a_host_of_several_vnodes_is_one_node() -> None:
    nodes = parse_nodes(recorded("vnodes-whole.pbsnodes-av.json"))
    views = {view.name: view for view in nodes.views}
    assert sorted(views) == ["n1", "n2", "n3", "n4"]
    assert (views["n4"].cpus, views["n4"].gpu_count) == (8, 2)
    assert views["n4"].availability is Availability.BUSY
    part = {v.name: v for v in parse_nodes(recorded("vnodes-part.pbsnodes-av.json")).views}
    assert part["n4"].availability is Availability.BUSY
    (record,) = jobs.parse_jobs(as_dsv("vnodes-whole.qstat-f.json"))[:1]
    place = record.get("exec_vnode")
    assert nodes.hosts("(n4[0]:ncpus=4+n4[1]:ncpus=4)+(n4)") == {"n4"}
    assert nodes.hosts(place) <= {"n1", "n4"}


def test_the_plan_of_a_waiting_job_has_nodes_and_a_start() -> None:
    """User uma reads the plan of max's job."""
    nodes = parse_nodes(recorded("busy.pbsnodes-av.json"))
    records = {short_id(r.id): r for r in jobs.parse_jobs(recorded("busy.qstat-f.dsv"))}
    mix = pending_job(records["417"], nodes)
    assert (mix.user, mix.size, mix.partitions) == ("max", 3, ("main",))
    assert mix.nodes == {"n1", "n2", "n3"}
    assert mix.starts_s == parse_time("Sat Nov 28 16:46:57 2026")
    assert mix.starts_s - nodes.at_s == 2397
    assert {
        id_ for id_, r in records.items() if r.get("job_state") in "QHW" and not can_start(r)
    } == {
        id_
        for id_, r in records.items()
        if r.get("job_state") in "HW" or r.get("comment").startswith("Can Never Run")
    }


def test_which_main_jobs_wait_for_nodes() -> None:
    nodes = parse_nodes(recorded("busy.pbsnodes-av.json"))
    records = jobs.parse_jobs(recorded("busy.qstat-f.dsv"))
    queues = parse_queues(recorded("busy.qstat-Qf.dsv"))
    waits = node_waits(records, queues, nodes, "preempt", "uma")
    assert [(wait.job, wait.size, wait.priority) for wait in waits.jobs if wait.job == "417"] == [
        ("417", 3, 150.0)
    ]
    assert all("Can Never Run" not in wait.reason for wait in waits.jobs)
    assert dict(waits.starts)["415"] == parse_time("Sat Nov 28 16:06:57 2026")
    assert waits.holders == ()  # none of these jobs has the holders' name


def test_reservations_of_others_with_their_nodes() -> None:
    nodes = parse_nodes(recorded("resv.pbsnodes-av.json"))
    found = {
        each.id: (each.ends_s - each.starts_s, nodes.hosts(place))
        for each, place in parse_reservations(recorded("resv.pbs_rstat-F-other-user.txt"))
    }
    assert found == {
        "R423.head": (120, {"n4"}),
        "R424.head": (1800, {"n1", "n2", "n3"}),
        "S425.head": (3600, {"n1", "n2"}),
    }
    assert parse_reservations(recorded("idle.pbs_rstat-F.txt")) == ()


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "Europe/Zurich"])
def test_the_zone_of_the_pilot_plays_no_part(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the hour that repeats when clocks go back."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert parse_time("Sat Nov 28 16:26:57 2026") == 1795883217
        first, second = (parse_time(f"Sun Oct 25 0{hour}:30:00 2026") for hour in (0, 1))
        assert second - first == 3600
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_server_its_queues_and_its_schedulers() -> None:
    server = parse_server(recorded("idle.qstat-Bf.json"))
    assert (server.version, server.shows_jobs, server.is_flat) == ("23.06.06", True, False)
    (scheduler,) = parse_schedulers(recorded("idle.qmgr-list-sched.txt"))
    assert (scheduler.name, scheduler.order, scheduler.queue_priority) == ("default", "SCR", 150)
    assert [
        (queue.name, queue.priority) for queue in parse_queues(recorded("busy.qstat-Qf.dsv"))
    ] == [
        ("workq", 0),
        ("main", 150),
        ("preempt", 10),
    ]


def test_what_commands_say_of_jobs_that_are_unknown_or_of_another_owner() -> None:
    assert unknown_jobs(recorded("error.qstat-some-unknown.txt.err")) == {"99999"}
    assert unknown_jobs(recorded("error.qdel-finished.txt.err")) == {"100"}
    assert unknown_jobs("qstat: 12.head Job has finished, use -x\n") == {"12"}
    refused = recorded("error.qdel-same-user-other-host.txt.err")
    assert jobs.refused_jobs(refused) == {"2071"}
    assert jobs.says_only_harmless(refused)
    assert not jobs.says_only_harmless(recorded("error.server-down.qdel.txt.err"))
    assert not jobs.says_only_harmless("")


def test_ids_have_long_names_of_servers() -> None:
    """As at ALCF."""
    long = "445123.polaris-pbs-01.hsn.cm.polaris.alcf.anl.gov"
    assert jobs.parse_submitted(f"{long}\n") == long
    assert short_id(long) == "445123"
    assert jobs.parse_ids(f"{long}\n411[].head\n411[2].head\n") == (
        long,
        "411[].head",
        "411[2].head",
    )
    text = recorded("injected.qstat-f.dsv").replace(".head|", f"{long.removeprefix('445123')}|")
    assert short_id(jobs.parse_jobs(text)[0].id) == "1651"
    for bad in ("qsub: would exceed", "12\n13\n", ""):
        with pytest.raises(SchedulerError):
            jobs.parse_submitted(bad)


def test_a_preempted_job_that_was_requeued_waits_and_says_that_it_has_run() -> None:
    records = jobs.parse_jobs(as_dsv("preempted-by-requeue.qstat-f.json"))
    record = next(r for r in records if r.get("queue") == "preempt" and r.get("job_state") == "Q")
    assert (record.get("job_state"), record.get("run_count")) == ("Q", "1")
    assert jobs.phase_of(record) is JobPhase.WAITS
    assert jobs.holder_record(record, "preempt").ends_s is None


def test_how_jobs_have_ended() -> None:
    records = jobs.parse_jobs(as_dsv("ends.qstat-xf.json"))
    assert {jobs.phase_of(record) for record in records} == {JobPhase.OVER}
    assert jobs.holder_record(records[0], "preempt").reason in ("exit status 0", "")


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "null",
        '{"nodes": {"n1": null}}',
        '{"nodes": {"n1": []}}',
        '{"timestamp": 1, "nodes": {"n1": {"resources_available": null, "state": "free"}}}',
        '{"timestamp": 1, "nodes": {"n1": {"resources_assigned": 5, "state": "free"}}}',
        '{"timestamp": NaN, "nodes": {"n1": {"state": "free"}}}',
        '{"Server": {"head": null}}',
        '{"Server": {"head": {"resources_default": "x"}}}',
    ],
)
@pytest.mark.parametrize("read", [parse_nodes, parse_server])
def test_a_document_of_another_shape_is_an_error(text: str, read: Callable[[str], object]) -> None:
    with pytest.raises(SchedulerError):
        parsed(["pbs"], text, read)


def test_a_reservation_of_ten_thousand_years_is_read() -> None:
    """One user's reservation must not make the whole cluster invisible."""
    lines = recorded("resv.pbs_rstat-F.txt").split("\n")
    ends = next(i for i, line in enumerate(lines) if line.startswith("reserve_end"))
    lines[ends] = "reserve_end = Fri Jan  1 00:00:00 13435"
    first, *others = (resv for resv, _ in parse_reservations("\n".join(lines)))
    assert first.ends_s == math.inf
    assert len(others) == 2


def test_a_reservation_in_a_users_value_hides_no_other() -> None:
    text = recorded("resv.pbs_rstat-F.txt")
    forged = "Resource_List.software = x\nResv ID: R424.head\nreserve_state = RESV_FINISHED\n"
    others = parse_reservations(text.replace("Resource_List.ncpus = 8\n", forged, 1))
    ids = [resv.id for resv, _ in others]
    assert "R424.head" in ids
    assert "S425.head" in ids


def test_a_hidden_place_costs_no_more_than_its_length() -> None:
    """A user's variable of half a megabyte, in a record of which the name hides the owner."""
    variables = "exec_vnode=(" * 40_000
    line = "Job Id: 1.head|Job_Name=a\\|Job_Owner=eve@head|job_state=R|exec_vnode=(n1:ncpus=1)"
    records = jobs.parse_jobs(f"{line}|Variable_List=A={variables}\n")
    assert jobs.places_of(records) == ["(n1:ncpus=1)"]


def test_nodes_of_a_hidden_cluster_still_show_jobs() -> None:
    """query_other_jobs = False: qstat shows none of them."""
    nodes: PbsNodes = parse_nodes(recorded("hidden.pbsnodes-av.json"))
    listed = (
        {r.id for r in jobs.parse_jobs(as_dsv("hidden.qstat-f.json"))} if _has_jobs() else set()
    )
    assert nodes.jobs - listed


def _has_jobs() -> bool:
    return '"Jobs"' in recorded("hidden.qstat-f.json")


def test_the_vnodes_of_a_host_leave_a_job_together() -> None:
    """pbs_release_nodes knows vnodes only, and a host may have several."""
    record, *_ = jobs.parse_jobs(as_dsv("vnodes-whole.qstat-f.json"))
    place = record.get("exec_vnode")
    assert place == "(n4[0]:ncpus=4+n4[1]:ncpus=4)+(n4)"
    assert jobs.vnodes_on(place, ["n4"]) == ("n4[0]", "n4[1]", "n4")
    assert jobs.vnodes_on("(n1:ncpus=4)+(n2:ncpus=4)+(n3:ncpus=4)", ["n2", "n3"]) == ("n2", "n3")
    assert jobs.vnodes_on("", ["n2"]) == ("n2",)
