"""Every parser on what each version of Slurm answered in the same situations; text and JSON beside
each other.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import slurm_json
from support.recorded_slurm import MARK, RECORDED, VERSIONS, recorded

from bftrainer.cluster.model import Availability, Device, NodeView, Observation, PendingJob
from bftrainer.cluster.windows import PilotJobs, free_nodes, may_be_taken_at_once
from bftrainer.decide.domain.checks import CheckStatus
from bftrainer.errors import SchedulerError
from bftrainer_clusters.slurm import associations, limit_waits
from bftrainer_clusters.slurm import text as slurm_text
from bftrainer_clusters.slurm.associations import Accounting
from bftrainer_clusters.slurm.checks import judge
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.hold import Listing
from bftrainer_clusters.slurm.jobs import (
    HolderSteps,
    JobPhase,
    is_limit,
    is_unknown_job,
    parse_job_steps,
    parse_known,
    parse_nodes,
    parse_steps,
)
from bftrainer_clusters.slurm.limit_waits import shared_limits
from bftrainer_clusters.slurm.peers import parse_peers
from bftrainer_clusters.slurm.pilot_job import parse_job
from bftrainer_clusters.slurm.rate_limit import parse_calls_of
from bftrainer_clusters.slurm.setup import parse_config, parse_partitions, parse_qos, parse_version
from bftrainer_clusters.slurm.site_facts import SiteSetup
from bftrainer_clusters.slurm.site_limits import Holders
from bftrainer_clusters.slurm.states import NodeFlag, flags_of

OURS = "bftrainer: idle node held by pilot test of root; it is given back at once when wanted"
MOMENTS = (
    "empty",
    "planned",
    "reasons",
    "hostile",
    "kinds",
    "reserved",
    "states",
    "gpus",
    "mig",
    "shard",
)
JSON_VERSIONS = [version for version in VERSIONS if parse_version(version) >= slurm_json.SINCE]

every_version = pytest.mark.parametrize("version", VERSIONS)


def nodes(moment: str, version: str) -> dict[str, NodeView]:
    return {
        node.name: node for node in slurm_text.parse_nodes(recorded(f"{moment}.nodes.txt", version))
    }


def pending(moment: str, version: str) -> tuple[PendingJob, ...]:
    return slurm_text.parse_pending(recorded(f"{moment}.pending.txt", version), MARK)


def observation(moment: str, version: str) -> Observation:
    at_s, planned_s = slurm_text.parse_times(recorded(f"{moment}.sdiag.txt", version))
    reservations = slurm_text.parse_reservations(recorded(f"{moment}.reservations.txt", version))
    return Observation(
        at_s,
        tuple(nodes(moment, version).values()),
        pending(moment, version),
        reservations,
        planned_s=planned_s,
    )


@every_version
def test_a_recording_says_of_which_version_it_is_and_nothing_of_the_machine(version: str) -> None:
    files = sorted((RECORDED / f"slurm-{version}").glob("*.txt"))
    assert len(files) > 40
    for file in files:
        head, when = file.read_text(errors="replace").split("\n")[:2]
        assert head.startswith("# command: "), file.name
        assert version in when, file.name


@pytest.mark.parametrize("version", JSON_VERSIONS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_text_and_json_of_one_moment_say_the_same(version: str, moment: str) -> None:
    by_json = {
        node.name: node
        for node in slurm_json.parse_nodes(recorded(f"{moment}.nodes.json", version))
    }
    by_text = nodes(moment, version)
    assert by_json.keys() == by_text.keys()
    for name, node in by_text.items():
        assert flags_of(node.state) == flags_of(by_json[name].state)
        assert node == replace(by_json[name], state=node.state)
    told = slurm_json.parse_reservations(recorded(f"{moment}.reservations.json", version))
    assert sorted(told, key=lambda r: r.id) == sorted(
        observation(moment, version).reservations, key=lambda r: r.id
    )
    jobs = {
        job.id: job for job in slurm_json.parse_pending(recorded(f"{moment}.pending.json", version))
    }
    assert jobs.keys() == {job.id for job in pending(moment, version)}
    for job in pending(moment, version):
        other = jobs[job.id]
        assert (job.starts_s is None) == (other.starts_s is None)
        assert job.starts_s is None or job.starts_s == pytest.approx(other.starts_s, abs=3), (
            "a cycle may lie between"
        )
        assert replace(job, starts_s=None) == replace(other, starts_s=None)


@every_version
def test_an_empty_cluster_and_a_planned_one(version: str) -> None:
    empty = observation("empty", version)
    assert {free.node.name for free in free_nodes(empty, PilotJobs())} == {
        f"node{n:02d}" for n in range(1, 9)
    }
    assert (empty.pending, empty.reservations) == ((), ())
    seen = observation("planned", version)
    assert sorted((job.size, len(job.nodes)) for job in seen.pending) == [(3, 3), (7, 7)]
    (maint,) = seen.reservations
    assert (maint.ends_s - maint.starts_s, maint.nodes) == (3600, {"node07"})
    windows = {free.node.name: free.window_s(seen.at_s) for free in free_nodes(seen, PilotJobs())}
    assert set(windows) == {"node03", "node06", "node07", "node08"}
    assert all(0 < windows[name] < 3600 for name in ("node03", "node06", "node07"))
    assert windows["node08"] == float("inf")
    assert seen.planned_s is not None
    assert 0 <= seen.at_s - seen.planned_s < 5


@every_version
def test_ids_of_arrays_and_het_jobs_and_reasons(version: str) -> None:
    found = sorted(pending("kinds", version), key=lambda job: int(job.id))
    first = int(found[0].id)
    assert [(int(job.id) - first, job.size) for job in found] == [(0, 2), (1, 1), (2, 3)]
    found = sorted(pending("reasons", version), key=lambda job: int(job.id))
    assert [(job.size, job.is_eligible) for job in found] == [(3, True)] + [(1, False)] * 4


@every_version
def test_states(version: str) -> None:
    found = nodes("states", version)
    what = {name: node.availability for name, node in found.items()}
    busy, unusable = Availability.BUSY, Availability.UNUSABLE
    expected = [
        busy,
        unusable,
        unusable,
        unusable,
        unusable,
        busy,
        Availability.ASLEEP,
        Availability.FREE,
    ]
    assert what == {f"node{n:02d}": one for n, one in enumerate(expected, 1)}
    flags = {name: flags_of(node.state) for name, node in found.items()}
    assert {NodeFlag.ALLOCATED, NodeFlag.DRAIN} <= flags["node01"], (
        "its reason says that it is idle"
    )
    for name, flag in (
        ("node02", NodeFlag.DRAIN),
        ("node03", NodeFlag.DOWN),
        ("node04", NodeFlag.MAINTENANCE),
        ("node05", NodeFlag.RESERVED),
        ("node07", NodeFlag.POWERED_DOWN),
    ):
        assert flag in flags[name]


@every_version
def test_reservations_of_every_kind_end_windows(version: str) -> None:
    seen = observation("reserved", version)
    assert {one.id: min(one.nodes) for one in seen.reservations} == {
        "flex": "node01",
        "floats": "node02",
        "magnetic": "node03",
        "now": "node04",
        "both": "node05",
    }
    windows = {
        free.node.name: (free.end.id, free.window_s(seen.at_s))
        for free in free_nodes(seen, PilotJobs())
    }
    assert windows.keys() == {"node01", "node03", "node05", "node06", "node07", "node08"}
    assert windows["node01"] == ("flex", pytest.approx(3600, abs=30))
    assert windows["node05"] == ("both", pytest.approx(3600, abs=30))
    assert windows["node03"] == ("magnetic", pytest.approx(14_400, abs=30))
    floats = next(one for one in seen.reservations if one.id == "floats")
    assert floats.starts_s - seen.at_s == pytest.approx(7200, abs=2), (
        "as far away as it was at first"
    )
    assert nodes("reserved", version)["node02"].state == "IDLE+RESERVED", "and yet in effect"


@every_version
def test_gpus_mig_slices_and_shards(version: str) -> None:
    def devices(moment: str) -> tuple[Device, ...]:
        found = nodes(moment, version)
        assert found["node01"].devices == found["node02"].devices, "those in use count, too"
        return found["node02"].devices

    assert devices("gpus") == (Device("a100", 4),)
    assert devices("mig") == (Device("a100_3g.20gb", 1), Device("a100_1g.5gb", 2))
    assert devices("shard") == (Device("a100", 2),), "a shard is a part of a GPU that was counted"


@every_version
def test_names_and_comments_of_a_stranger(version: str) -> None:
    assert {
        (job.user, job.starts_s, job.nodes, job.is_eligible) for job in pending("hostile", version)
    } == {("nobody", None, frozenset(), False)}
    peers = parse_peers(recorded("hostile.peers.txt", version), MARK, "mine", "root")
    assert [(one.user, one.pilot, one.hosts, len(one.holders)) for one in peers] == [
        ("nobody", "evil", (), 1),
        ("nobody", "unknown", (), 1),
    ]
    node = nodes("hostile", version)["node02"]
    assert "and State=DOWN" in recorded("hostile.nodes.txt", version)
    assert (node.availability, node.partitions) == (Availability.BUSY, ("main", "scavenge"))


@every_version
def test_holders_steps_and_the_pilots_own_job(version: str) -> None:
    def holders(name: str) -> dict[str, tuple[str, JobPhase]]:
        listed = Listing(OURS).read(recorded(f"{name}.holders.txt", version), MARK)
        return {job.node: (job.id, job.phase) for job in listed.values()}

    found = holders("planned")
    assert {node: phase for node, (_, phase) in found.items()} == {
        "node04": JobPhase.RUNS,
        "node05": JobPhase.RUNS,
    }
    assert holders("cancelled")["node05"][1] is JobPhase.OVER
    steps = parse_steps(recorded("planned.steps.txt", version), MARK)
    assert steps == HolderSteps(
        (f"{found['node04'][0]}.1",), frozenset(job for job, _ in found.values())
    )
    assert parse_known(recorded("planned.known.txt", version), MARK) == {
        job for job, _ in found.values()
    }
    job = parse_job(recorded("planned.job.txt", version))
    assert (job.state, job.user, job.name) == ("RUNNING", "root", "bftrainer-holder")
    assert job.options == ("--partition=scavenge", "--time=4:00")
    assert job.ends_s is not None
    for name in ("unknown.job", "unknown.known", "unknown.exists"):
        assert is_unknown_job(recorded(f"{name}.txt", version)), name


@every_version
def test_a_holder_of_several_nodes_that_has_given_one_back(version: str) -> None:
    """The list shows for ever what it was submitted for."""
    listed = Listing(OURS).read(recorded("several.holders.txt", version), MARK)
    (job,) = listed.values()
    assert job.fragments == tuple(f"node0{i}#{job.id}.node0{i}" for i in (1, 2, 3))
    assert parse_nodes(recorded("several.nodes-of.txt", version), MARK) == {
        job.id: ("node01", "node02")
    }
    text = recorded("several.job-steps.txt", version)
    steps = {
        node: parse_job_steps(text, frozenset({node})).workers
        for node in ("node01", "node02", "node03")
    }
    assert sorted([steps["node01"], steps["node02"]]) == [(f"{job.id}.1",), (f"{job.id}.2",)]
    assert steps["node03"] == ()
    assert parse_job_steps(text).payloads == {job.id}


@every_version
def test_steps_that_only_the_stepmgr_knows(version: str) -> None:
    steps = parse_steps(recorded("stepmgr.steps.txt", version), MARK)
    found = parse_job_steps(recorded("stepmgr.job-steps.txt", version))
    (job,) = found.payloads
    assert found == HolderSteps((f"{job}.1",), frozenset({job}))
    assert steps == (found if parse_version(version) < (24, 5) else HolderSteps((), frozenset()))
    for text in ("", "scontrol: Job step 7 not found\n"):
        with pytest.raises(SchedulerError, match="no step in"):
            parse_job_steps(text)


@every_version
def test_accounts_and_a_main_job_that_waits_for_their_limit(version: str) -> None:
    answers = {
        " ".join(argv): recorded(f"shared.{name}.txt", version)
        for name, argv in {
            "user": associations.argv("lab", user="root"),
            "account": associations.argv("lab", account="science"),
            "accounts": associations.argv("lab"),
            "default-account": associations.default_account_argv("root"),
        }.items()
    }
    accounts = {
        it.account: it for it in associations.parse(answers[" ".join(associations.argv("lab"))])
    }
    assert (accounts["pilots"].parent, accounts["physics"].parent) == ("science", "science")
    assert dict(accounts["science"].caps) == {"GrpTRES": "node=1"}
    of_user = associations.parse(answers[" ".join(associations.argv("lab", user="root"))])
    assert {it.user for it in of_user} == {"root"}
    (own,) = [it for it in of_user if it.account == "pilots"]
    assert "scavenger" in own.qos
    (science,) = associations.parse(answers[" ".join(associations.argv("lab", account="science"))])
    at = Holders(None, associations=(own, science))
    shared = shared_limits(at, "lab", lambda argv: answers[" ".join(argv)])
    (limit,) = shared.limits
    assert limit.accounts == {"science", "pilots", "physics"}
    (wait,) = limit_waits.parse(
        recorded("shared.waits.txt", version), MARK, replace(shared, own_qos="scavenger")
    )
    assert (wait.size, wait.reason) == (1, "AssocGrpNodeLimit")


@every_version
def test_calls_of_a_user_in_sdiag(version: str) -> None:
    calls = parse_calls_of(recorded("planned.sdiag.txt", version), 0)
    assert calls is not None
    assert calls > 10
    assert parse_calls_of(recorded("planned.sdiag.txt", version), 4711) is None


@every_version
def test_limits_of_a_qos(version: str) -> None:
    plain, limited = (
        parse_qos(recorded(f"{name}.qos.txt", version)) for name in ("plain", "limited")
    )
    assert plain["normal"].preempts == {"scavenger"}
    assert (plain["scavenger"].preempt_mode, plain["scavenger"].usage_factor) == ("CANCEL", 0.0)
    ours = limited["scavenger"]
    assert (ours.grace_s, ours.exempt_s, ours.max_s) == (45, 3600.0, 1800.0)
    assert ours.caps == {
        "MaxSubmitPU": "2",
        "MaxJobsPU": "1",
        "MaxTRESPU": "node=1",
        "GrpTRES": "node=2",
    }
    listed = Listing(OURS).read(recorded("limited.holders.txt", version), MARK).values()
    waiting = [job for job in listed if job.phase is JobPhase.WAITS]
    assert [is_limit(job.reason) for job in waiting] == [True]
    assert is_limit(recorded("limited.sbatch.txt", version))


@every_version
@pytest.mark.parametrize("site", ["recommended", "defaults", "qos"])
def test_what_doctor_says_of_a_site(version: str, site: str) -> None:
    config = recorded(f"site-{site}.config.txt", version)
    partitions = parse_partitions(recorded(f"site-{site}.partitions.txt", version))
    assert parse_config(config)["SLURM_VERSION"] == version
    settings = (
        SlurmSettings(qos="scavenger") if site == "qos" else SlurmSettings(partition="scavenge")
    )
    qos = parse_qos(recorded("plain.qos.txt", version)) if site == "qos" else None
    found = {
        check.name: check
        for check in judge(settings, SiteSetup(config, partitions, Accounting(qos)), "me")
    }
    by_weight = {name for name, check in found.items() if check.state is not CheckStatus.OK}
    slow = {"kill wait", "user signal", "epilog", "scheduler"} if site == "defaults" else set()
    assert by_weight == {"tracking", *slow}, "the tests' cluster has no cgroups"
    assert ("bf_interval=10" in found["scheduler"].remedy) == (site == "defaults")
    assert found["version"].detail.startswith(f"{version} ({version} tried on ")


def test_a_job_that_waits_in_an_expedited_requeue_is_pending_though_its_nodes_are_idle() -> None:
    """26.05.5: they are IDLE, other jobs may start there, and ``-t PD`` does not list the job. It
    preempts holders.
    """
    version = VERSIONS[-1]
    (job,) = pending("expediting", version)
    assert (job.size, job.starts_s, job.is_eligible) == (8, None, True)
    states = {name: node.availability for name, node in nodes("expediting", version).items()}
    assert states.pop("node02") is Availability.UNUSABLE
    assert set(states.values()) == {Availability.FREE}
    seen = observation("expediting", version)
    assert may_be_taken_at_once(seen, PilotJobs()), (
        "a node that becomes idle is taken only after debounce_s"
    )
    assert not may_be_taken_at_once(replace(seen, pending=()), PilotJobs()), (
        "as it was without EXPEDITING"
    )
