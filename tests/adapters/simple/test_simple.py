"""What a scheduler in five verbs gets from the shared code, on the scheduler in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.fakes_jobs import FakeClock
from support.memory_under_test import MemoryCluster, MemoryScheduler, MemorySettings

from bftrainer.cluster.model import Acquired, FragmentPhase, NodeRequest, Observation
from bftrainer.cluster.site_plugin import batch_systems, find_site
from bftrainer.config.pilot import PilotConfig
from bftrainer.decide.domain.checks import Check, CheckStatus
from bftrainer.errors import UnknownStateError, UserError
from bftrainer_clusters.simple import JobRecord, JobRequest, SimpleHolder, SimpleSite
from bftrainer_clusters.simple.holder import SimpleJobs

ENTRY_POINTS = "[bftrainer.sites]\nmemory = memory_cluster:SITE\n"


class RecordingCluster(MemoryCluster):
    """The cluster in memory, with answers that a test sets. Its jobs have no processes."""

    def __init__(self) -> None:
        super().__init__(MemorySettings(), MemoryScheduler({"n1": 2, "n2": 2}))
        self.records: tuple[JobRecord, ...] = ()
        self.requests: list[JobRequest] = []
        self.id = "7"
        self.canceled: list[str] = []
        self.problem = ""
        self.site_checks = 0

    def list(self) -> tuple[JobRecord, ...]:
        return self.records

    def submit(self, job: JobRequest) -> str:
        self.requests.append(job)
        return self.id

    def cancel(self, ids: Sequence[str]) -> None:
        self.canceled += ids

    def why_no_holder(self) -> str:
        self.site_checks += 1
        return self.problem


class House:
    """A holder on such a cluster, with a clock that only a test moves."""

    def __init__(self, folder: Path) -> None:
        self.cluster, self.clock = RecordingCluster(), FakeClock()
        holders = folder / "holders"
        self.holder = SimpleHolder(self.cluster, "memory", holders, "me-1", self.clock)
        self.holder.poll()

    @property
    def jobs(self) -> SimpleJobs[MemorySettings]:
        jobs = self.holder._jobs
        assert isinstance(jobs, SimpleJobs)
        return jobs

    def acquire(self, node: str) -> Acquired:
        return self.holder.acquire((NodeRequest(node, 3600.0),))


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_the_label_comes_back_as_a_fragment(house: House) -> None:
    (fragment,) = house.acquire("n1").fragments
    (request,) = house.cluster.requests
    assert (request.node, request.minutes, fragment.name) == ("n1", 59, "n1#7")
    house.cluster.records = (JobRecord("7", request.label, "Running", 5.0),)
    listed = house.jobs.listed()["7"]
    assert (listed.fragments, listed.ends_s) == (("n1#7",), 5.0)


def test_jobs_with_other_labels_are_not_ours(house: House) -> None:
    labels = ("bftrainer:me-11:n1", "bftrainer:other:n1", "interactive", "")
    house.cluster.records = tuple(
        JobRecord(str(number), label, "A state that only they have")
        for number, label in enumerate(labels)
    )
    assert house.jobs.listed() == {}


def test_a_state_that_the_table_lacks_is_an_error(house: House) -> None:
    house.cluster.records = (JobRecord("7", "bftrainer:me-1:n1", "Hibernating"),)
    with pytest.raises(UnknownStateError, match="Hibernating"):
        house.jobs.listed()


def test_an_id_that_would_name_a_node_of_several_is_refused(house: House) -> None:
    house.cluster.id = "445.head"
    (refusal,) = house.acquire("n1").refusals
    assert "Memory named a job '445.head'" in refusal.reason


def test_a_node_whose_name_is_no_word_is_refused(house: House) -> None:
    (refusal,) = house.acquire("n1; reboot").refusals
    assert "exclude the node" in refusal.reason
    assert house.cluster.requests == []


def test_the_site_is_checked_before_the_first_holder_and_every_ten_minutes(house: House) -> None:
    house.cluster.problem = "the queue suspends preempted jobs"
    assert house.cluster.site_checks == 0
    (refusal,) = house.acquire("n1").refusals
    assert refusal.reason == "the queue suspends preempted jobs"
    house.cluster.problem = ""
    house.clock.sleep(599.0)
    assert house.acquire("n1").refusals
    assert house.cluster.site_checks == 1
    house.clock.sleep(2.0)
    assert house.acquire("n1").fragments
    assert house.cluster.site_checks == 2


def test_a_holder_that_the_site_has_changed_ends_at_once_and_is_the_last(house: House) -> None:
    """Main jobs would wait for it, and the check of the site says that holders may run."""
    assert house.acquire("n1").fragments
    house.cluster.records = (
        JobRecord("7", "bftrainer:me-1:n1", "Running", 5e9, blocks="in queue main, not idle"),
    )
    house.clock.sleep(10.0)
    (held,) = house.holder.poll()
    assert held.phase is not FragmentPhase.READY
    assert held.why == "not preempted for main jobs: in queue main, not idle"
    assert house.cluster.canceled == ["7"]
    (refusal,) = house.acquire("n2").refusals
    assert "job 7 is in queue main, not idle, and main jobs would wait for it" in refusal.reason
    house.cluster.records = ()
    house.clock.sleep(601.0)
    assert house.acquire("n2").fragments


def test_a_job_is_gone_after_three_lists_without_it(house: House) -> None:
    house.acquire("n1")
    phases = []
    for _ in range(3):
        house.clock.sleep(10.0)
        phases += [fragment.phase for fragment in house.holder.poll()]
    assert phases == [FragmentPhase.PENDING, FragmentPhase.GONE]


@pytest.fixture
def scheduler() -> MemoryScheduler:
    return MemoryScheduler({"n1": 2, "n2": 2}, closed={"n2"})


@pytest.fixture
def site(scheduler: MemoryScheduler) -> SimpleSite[MemorySettings]:
    return SimpleSite("memory", MemorySettings, lambda table: MemoryCluster(table, scheduler))


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with the site, as pip records it."""
    record = tmp_path / "packages" / "memory_site-1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: memory-site\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(record.parent)


def configuration(**table: object) -> PilotConfig:
    return PilotConfig.model_validate({"nodes": {"holder": "memory"}, "memory": table})


def test_the_entry_point_of_the_page_is_a_site() -> None:
    site = find_site("memory")
    assert isinstance(site, SimpleSite)
    assert (site.name, site.table, site.runs_here) == ("memory", MemorySettings, False)
    assert "memory" in dict(batch_systems())


def test_the_site_builds_what_a_pilot_needs(
    site: SimpleSite[MemorySettings], tmp_path: Path
) -> None:
    built = site.build(configuration(), tmp_path, FakeClock())
    assert [node.name for node in built.scheduler.observe().nodes] == ["n1", "n2"]
    assert built.ours.partitions == {"scavenge"}
    assert built.driver["prefix"][-2:] == ["{node}", "{fragment_id}"]
    assert built.driver["drop_environment"] == ["MEMORY_JOB_ID"]
    assert isinstance(built.scheduler, MemoryCluster)
    assert built.reconfigure(configuration(queue="other", max_pending=3)) == ("memory.queue",)
    settings = built.scheduler.settings
    assert (settings.queue, settings.max_pending) == ("scavenge", 3)


def test_a_mistake_in_the_table_names_it(site: SimpleSite[MemorySettings], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="memory: unknown key 'quue'"):
        site.build(configuration(quue="x"), tmp_path, FakeClock())


def test_doctor_asks_what_a_pilot_asks(
    site: SimpleSite[MemorySettings], scheduler: MemoryScheduler, tmp_path: Path
) -> None:
    def checks(config: PilotConfig | None) -> list[Check]:
        return site.check(config, "bftrainer.toml", tmp_path)

    assert checks(None) == []
    assert [(check.name, check.detail) for check in checks(configuration())] == [
        ("memory: nodes", "2 nodes, 1 idle"),
        ("memory: jobs", "0 jobs of yours"),
        ("memory: holders", "holders may run"),
    ]
    scheduler.is_down = True
    assert {check.state for check in checks(configuration())[:2]} == {CheckStatus.BROKEN}


def test_doctor_names_what_an_adapter_gets_wrong(
    site: SimpleSite[MemorySettings], scheduler: MemoryScheduler, tmp_path: Path
) -> None:
    class WrongCluster(MemoryCluster):
        def observe(self) -> Observation:
            raise KeyError("cpus")

        def list(self) -> tuple[JobRecord, ...]:
            return (JobRecord("1", "other", "Held"),)

    wrong = SimpleSite("memory", MemorySettings, lambda each: WrongCluster(each, scheduler))
    nodes, jobs, _ = wrong.check(configuration(), "bftrainer.toml", tmp_path)
    assert nodes.state is jobs.state is CheckStatus.BROKEN
    assert "an error in the scheduler's adapter: KeyError: 'cpus', at " in nodes.detail
    assert jobs.detail == "unknown job state 'Held'"


def test_an_entry_point_that_is_no_site_is_refused(tmp_path: Path) -> None:
    record = tmp_path / "packages" / "memory_site-1.0.dist-info" / "entry_points.txt"
    record.write_text(f"{ENTRY_POINTS}wrong = math:pi\n")
    with pytest.raises(UserError, match="site 'wrong': its entry point names a float, expected a"):
        find_site("wrong")


def test_record_observes_without_a_configuration(site: SimpleSite[MemorySettings]) -> None:
    observed = site.batch.observe(None, "", FakeClock(), None)
    assert len(observed.scheduler.observe().nodes) == 2
    with pytest.raises(UserError, match="slots-per-node"):
        site.batch.observe(None, "", FakeClock(), 4)


@pytest.mark.parametrize(
    ("has", "separable"),
    [
        (("n1", "n2", "n3"), ["n2#7.n2", "n3#7.n3"]),
        (("n1", "n3"), ["n3#7.n3"]),
        ((), []),
        # By other names than those of the request: which one has the first process is not known.
        (("n1.site", "n2.site", "n3.site"), []),
    ],
)
def test_which_nodes_leave_a_job_alone(
    house: House, has: tuple[str, ...], separable: list[str]
) -> None:
    label = f"{house.jobs.label}n1:n2:n3"
    house.cluster.records = (JobRecord("7", label, "Running", 5.0, nodes=has),)
    assert sorted(house.jobs.listed()["7"].separable) == separable
