"""Every one of the 195 recorded commands of a real OpenPBS is read by the parser that fits, or is
listed here with the reason why no parser needs it; values that were noted beside them are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

import pytest
from support.recorded_pbs import as_dsv, queues_as_dsv, recorded, recorded_commands

from bftrainer.cluster.model import Availability
from bftrainer.system.clock import SystemClock
from bftrainer.system.command import parsed
from bftrainer_clusters.pbs import jobs
from bftrainer_clusters.pbs.config import PbsSettings
from bftrainer_clusters.pbs.hold import PbsCluster
from bftrainer_clusters.pbs.queue import parse_queues, parse_schedulers, parse_server
from bftrainer_clusters.pbs.text import (
    PbsRecord,
    parse_nodes,
    parse_reservations,
    parse_time,
    short_id,
    unknown_jobs,
)
from bftrainer_clusters.simple import JobPhase

COMMANDS = {command.file: command for command in recorded_commands()}

READERS: dict[str, Callable[[str], object]] = {
    "*.pbsnodes-*.json": lambda name: parsed(["pbs"], recorded(name), parse_nodes).views,
    "*.qstat-f.dsv": lambda name: parsed(["pbs"], recorded(name), jobs.parse_jobs),
    "*.qstat-f.json": lambda name: jobs.parse_jobs(as_dsv(name)),
    "*.qstat-tf.json": lambda name: jobs.parse_jobs(as_dsv(name)),
    "*.qstat-xf*.json": lambda name: jobs.parse_jobs(as_dsv(name)),
    "*.qstat-Qf.dsv": lambda name: parse_queues(recorded(name)),
    "*.qstat-Qf.json": lambda name: parse_queues(queues_as_dsv(name)),
    "*.qstat-Bf.json": lambda name: [parse_server(recorded(name))],
    "*qmgr-list-sched*.txt": lambda name: parse_schedulers(recorded(name)),
    "*.pbs_rstat-F*.txt": lambda name: parse_reservations(recorded(name)),
    "*.qselect-*.txt": lambda name: jobs.parse_ids(recorded(name)),
    "error.qsub-unknown-host.txt": lambda name: [jobs.parse_submitted(recorded(name))],
}
"""By the names of files, for commands that succeeded."""

EMPTY = {
    "busy.pbs_rstat-F.txt",
    "busy.qselect-preempt.txt",
    "idle.pbs_rstat-F.txt",
    "idle.qstat-f.json",
    "suspended.pbs_rstat-F.txt",
}
"""Read, and nothing is in them."""

FOR_PEOPLE = "a table for people, whose columns are cut; the pilot asks for -F dsv or json"
FORGEABLE = "plain qstat -f, in which a line break in a user's value forges attributes"
NOT_RUN = "the pilot does not run this command"
NO_ANSWER = "no answer: the exit status says everything"
UNREAD = {
    "*.pbsnodes-aSj.txt": FOR_PEOPLE,
    "*.pbsnodes-l.txt": FOR_PEOPLE,
    "*.pbsnodes-av.txt": "the text of pbsnodes -av, of which the pilot reads the JSON",
    "*.pbsnodes-av.dsv": "the DSV of pbsnodes -av, of which the pilot reads the JSON",
    "*.qstat.txt": FOR_PEOPLE,
    "*.qstat-answT1.txt": FOR_PEOPLE,
    "*.qstat-was1.txt": FOR_PEOPLE,
    "*.qstat-s.txt": FOR_PEOPLE,
    "*.qstat-T.txt": FOR_PEOPLE,
    "*.qstat-Q.txt": FOR_PEOPLE,
    "*.qstat-x.txt": FOR_PEOPLE,
    "*.qstat-Bf.txt": "plain qstat -Bf, of which the pilot reads the JSON",
    "*.qstat-Qf.txt": "plain qstat -Qf, of which the pilot reads the DSV",
    "*.qstat-f.txt": FORGEABLE,
    "*.qstat-xf-finished.txt": FORGEABLE,
    "*.pbs_rstat.txt": FOR_PEOPLE,
    "*.pbs_rstat-S.txt": FOR_PEOPLE,
    "idle.qmgr-print-server.txt": "an administrator's file of commands; attributes come from qstat",
    "resv.rsub*.txt": f"pbs_rsub: {NOT_RUN}",
    "error.rsub-too-big.txt": f"pbs_rsub: {NOT_RUN}",
    "*tracejob*.txt": "tracejob works only where the server's logs are readable",
    "not-preemptable.sched_log.txt": "tracejob works only where the server's logs are readable",
    "launch.*.txt": "what can start a process in a job: nothing that the pilot could run outside it",
    "hooks.*.txt": f"hooks are root's: {NOT_RUN}",
    "error.rstat-unknown.txt": "the pilot asks for no reservation by its name",
    "error.qalter-walltime-running.txt": NO_ANSWER,
    "release.pbs_release_nodes.txt": NO_ANSWER,
    "flatuid.qdel-same-user-other-host.txt": NO_ANSWER,
}
"""Successful commands that no parser needs, and launch and hooks that failed."""

FAILED: dict[str, tuple[str, str, bool]] = {
    "error.qstat-unknown-job.txt": ("99999", "", True),
    "error.qstat-some-unknown.txt": ("99999", "", True),
    "error.qstat-finished-without-x.txt": ("100", "", True),
    "error.qstat-finished-with-x.txt": ("100", "", True),
    "error.qdel-unknown.txt": ("99999", "", True),
    "error.qdel-finished.txt": ("100", "", True),
    "error.qdel-not-owner.txt": ("", "429", True),
    "error.qdel-same-user-other-host.txt": ("", "2071", True),
    "error.qsig-not-owner.txt": ("", "429", True),
    "error.qsig-suspend-user.txt": ("", "429", True),
    "error.qalter-running.txt": ("", "", False),
    "release.not-owner.txt": ("", "", True),
    "release.first-node.txt": ("", "", False),
}
"""Failed commands about jobs: the job that PBS calls unknown, the one that is another owner's, and
whether nothing is wrong beyond that.
"""


FAILED_AS_A_WHOLE = {
    "error.pbsnodes-o-user.txt",
    "error.pbsnodes-unknown.txt",
    "error.qmgr-user.txt",
    "error.qrerun-user.txt",
    "error.qrun-user.txt",
    "error.qstat-Q-unknown-queue.txt",
    "error.qstat-bad-id.txt",
    "error.qstat-unknown-queue.txt",
    "error.qsub-acl.txt",
    "error.qsub-bad-walltime.txt",
    "error.qsub-max_queued.txt",
    "error.qsub-no-script.txt",
    "error.qsub-over-max-walltime.txt",
    "error.qsub-queue-disabled.txt",
    "error.qsub-unknown-queue.txt",
    "error.qsub-unknown-resource.txt",
    "error.rdel-not-owner.txt",
    "error.server-down.pbsnodes.txt",
    "error.server-down.qdel.txt",
    "error.server-down.qmgr.txt",
    "error.server-down.qstat.txt",
    "error.server-down.qsub.txt",
    "error.server-down.rstat.txt",
}
"""Failed commands whose message is passed on in a ``CommandError``; no part of it is an answer."""


def patterns_of(name: str, patterns: Iterable[str]) -> list[str]:
    return [pattern for pattern in patterns if fnmatchcase(name, pattern)]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_recording_has_one_reader_or_one_reason(name: str) -> None:
    if COMMANDS[name].status and not patterns_of(name, UNREAD):
        assert (name in FAILED) + (name in FAILED_AS_A_WHOLE) == 1
        return
    readers, reasons = patterns_of(name, READERS), patterns_of(name, UNREAD)
    assert len(readers) + len(reasons) == 1, (readers, reasons)
    if readers:
        found = READERS[readers[0]](name)
        assert bool(found) is (name not in EMPTY), found


def test_all_recordings_are_there_and_no_rule_is_left_over() -> None:
    assert len(COMMANDS) == 195
    for patterns in (READERS, UNREAD):
        used = Counter(pattern for name in COMMANDS for pattern in patterns_of(name, patterns))
        assert set(used) == set(patterns)
    assert set(COMMANDS) >= EMPTY | set(FAILED) | FAILED_AS_A_WHOLE


@pytest.mark.parametrize("name", sorted(FAILED))
def test_what_a_failed_command_says_of_jobs(name: str) -> None:
    unknown, refused, is_harmless = FAILED[name]
    errors = recorded(f"{name}.err")
    assert COMMANDS[name].status
    assert unknown_jobs(errors) == {unknown} - {""}
    assert jobs.refused_jobs(errors) == {refused} - {""}
    assert jobs.says_only_harmless(errors) is is_harmless


@pytest.mark.parametrize("name", sorted(FAILED_AS_A_WHOLE))
def test_no_job_is_unknown_because_a_command_failed_as_a_whole(name: str) -> None:
    errors = recorded(f"{name}.err")
    assert COMMANDS[name].status
    assert errors.strip()
    assert unknown_jobs(errors) == frozenset()


def records(name: str) -> dict[str, PbsRecord]:
    """The jobs of a recording by short id."""
    return {short_id(record.id): record for record in jobs.parse_jobs(as_dsv(name))}


def test_how_jobs_end_by_state_substate_and_status() -> None:
    """F 92 ok, 93 failed, 91 deleted; -4 when the node's mom was restarted, 271 by SIGTERM."""
    names = (
        "ends.qstat-xf.json",
        "after-mom-restart.qstat-f.json",
        "preempted-by-delete.qstat-xf.json",
    )
    found = {}
    for name in names:
        for id_, record in records(name).items():
            if jobs.phase_of(record) is JobPhase.OVER:
                found[id_] = (record.get("substate"), record.get("Exit_status"))
    assert (found["1642"], found["1572"], found["535"]) == (
        ("92", "0"),
        ("93", "-4"),
        ("91", "271"),
    )
    preempted = jobs.holder_record(records(names[2])["535"], "preempt")
    lost = jobs.holder_record(records(names[1])["1572"], "preempt")
    assert (preempted.reason, lost.reason) == ("deleted", "exit status -4")
    long_run = records("suspended.qstat-xf.json") | records("busy.qstat-xf.json")
    reasons = Counter(jobs.holder_record(job, "preempt").reason for job in long_run.values())
    assert reasons["time limit"] == sum(
        job.get("Exit_status") == "-29" for job in long_run.values()
    )


def test_a_release_of_one_node_keeps_the_others_of_the_job() -> None:
    nodes = parse_nodes(recorded("idle.pbsnodes-av.json"))
    before, after = (
        records(f"release.{when}.qstat-f.json")["1651"] for when in ("before", "after")
    )
    assert nodes.hosts(before.get("exec_vnode")) == {"n1", "n2", "n3"}
    assert nodes.hosts(after.get("exec_vnode")) == {"n1", "n2"}
    assert (jobs.node_count(before), jobs.node_count(after)) == (3, 2)


def test_json_shows_the_first_of_several_ids_only() -> None:
    """So the pilot asks with ids for DSV alone, which shows all (injected.qstat-f.dsv has three)."""
    assert len(COMMANDS["many-ids.qstat-f.json"].argv.split()[4:]) == 3
    assert set(records("many-ids.qstat-f.json")) == {"1648"}
    assert jobs.jobs_argv(["1648", "1649"])[2:4] == ["-F", "dsv"]


def test_plain_output_is_forged_and_the_same_moment_in_dsv_is_not() -> None:
    """A line break in a value of 1652's begins a line that looks like the record of another job."""
    assert "\nJob Id: 1.head" in recorded("injected.qstat-f.txt")
    assert set(records("injected.qstat-f.json")) == {"1651", "1652", "1653"}


def test_words_for_limits_on_the_jobs_of_a_user_and_for_other_problems() -> None:
    cluster = PbsCluster(PbsSettings(queue="preempt"), SystemClock())
    running = records("limits.max_run.qstat-f.json")["436"].get("comment")
    cores = "Not Running: Queue preempt per-user limit reached on resource ncpus"
    assert cores in recorded("limits.max_run_res.qstat-s.txt")
    queued = recorded("error.qsub-max_queued.txt.err")
    assert all(map(cluster.is_limit, (running, cores, queued)))
    never = records("limits.max_run.qstat-f.json")["433"].get("comment")
    too_long = recorded("error.qsub-over-max-walltime.txt.err")
    assert not any(map(cluster.is_limit, (never, too_long)))


def test_nodes_and_jobs_of_moments_of_which_only_the_words_differ() -> None:
    """Suspended by an operator is substate 43; a reservation's job is in the reservation's queue."""
    operator = records("states.suspended-by-operator.qstat-f.json")["421"]
    assert (jobs.phase_of(operator), operator.get("substate")) == (JobPhase.SUSPENDED, "43")
    assert records("states.resv-job.qstat-f.json")["428"].get("queue") == "R423"
    down = {view.name: view for view in parse_nodes(recorded("states.down.pbsnodes-av.json")).views}
    assert (down["n2"].state, down["n2"].availability) == ("down", Availability.UNUSABLE)
    part = records("vnodes-part.qstat-f.json")["1635"]
    nodes = parse_nodes(recorded("vnodes-part.pbsnodes-av.json"))
    assert nodes.hosts(part.get("exec_vnode")) == {"n4"}
    (host,) = parse_nodes(recorded("vnodes.pbsnodes-H-n4.json")).views
    assert (host.name, host.cpus, host.gpu_count) == ("n4", 8, 2)


def test_a_main_job_that_waits_behind_holders_has_their_limit_as_its_start() -> None:
    """Order R with -r n: PBS's own estimate is the end of the holders' time limits."""
    found = records("not-preemptable.qstat-f.json")
    start = parse_time(found["549"].get("estimated.start_time"))
    assert start == jobs.ends_s(found["545"])
