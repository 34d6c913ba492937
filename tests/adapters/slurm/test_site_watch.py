"""When a pilot reads its site again, and what counts while Slurm or its accounting does not
answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from support.public_sites import SITES
from support.recorded_slurm import recorded

from bftrainer.cluster.model import Availability, NodeView
from bftrainer.decide.domain.checks import Check
from bftrainer.errors import CommandError, SchedulerError
from bftrainer_clusters.slurm.associations import Accounting
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.job_list import _COLUMNS, HOLDER_NAME, JobList
from bftrainer_clusters.slurm.limit_waits import SharedLimits
from bftrainer_clusters.slurm.main_waits import MainJobWait, WaitingMainJobs, waits_for_holders
from bftrainer_clusters.slurm.site_checks import checks_of_holding
from bftrainer_clusters.slurm.site_facts import SiteSetup
from bftrainer_clusters.slurm.site_watch import SiteWatch

FIT = SITES["two preemptible QOSes in a partition of their own"]
HOUR = 3600.0


@dataclass
class Site:
    """Answers of a site, whose time goes by when the test says so."""

    settings: SlurmSettings = FIT.settings
    facts: SiteSetup = field(default_factory=lambda: FIT.facts)
    error: str = ""
    now_s: float = 0.0
    read_at: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watch = SiteWatch(self.read, self.judge, lambda: self.now_s)

    def read(self) -> SiteSetup:
        self.read_at.append(self.now_s)
        if self.error:
            raise CommandError(["scontrol"], self.error)
        return self.facts

    def judge(self, facts: SiteSetup) -> tuple[Check, ...]:
        return checks_of_holding(self.settings, facts, "me")

    def accounting(self, silence: str = "") -> None:
        self.facts = replace(
            FIT.facts, accounting=Accounting(silence=silence) if silence else FIT.facts.accounting
        )

    def exempt(self, text: str) -> None:
        self.facts = replace(
            self.facts, config_text=self.facts.config_text.replace("00:00:00", text)
        )

    def at(self, now_s: float) -> tuple[str, bool]:
        """The permit after a look at this time."""
        self.now_s = now_s
        self.watch.update_if_due()
        permit = self.watch.permit
        return permit.refusal, permit.releases


@pytest.fixture
def site() -> Site:
    return Site()


def test_before_it_is_read_nothing_may_be_held(site: Site) -> None:
    assert "has not been read yet" in site.watch.permit.refusal
    assert site.at(0.0) == ("", False)


def test_it_is_read_every_hour(site: Site) -> None:
    for now_s in range(0, 24 * 3600, 10):
        site.at(float(now_s))
    assert len(site.read_at) == 24
    site.exempt("00:10:00")
    refusal, releases = site.at(24 * HOUR)
    assert refusal.startswith("exempt time: PreemptExemptTime 600 s")
    assert releases


@pytest.mark.parametrize("of_accounting", [False, True])
def test_silence_at_the_start_allows_nothing_and_is_asked_again_each_minute(
    site: Site, of_accounting: bool
) -> None:
    site.accounting("no response" if of_accounting else "")
    site.error = "" if of_accounting else "no response"
    for now_s in range(0, 300, 10):
        refusal, releases = site.at(float(now_s))
        assert "no response" in refusal
        assert not releases, "holders of a pilot before this one stay for a while"
    assert site.read_at == [0.0, 60.0, 120.0, 180.0, 240.0]
    site.accounting()
    site.error = ""
    assert site.at(300.0) == ("", False)


@pytest.mark.parametrize("of_accounting", [False, True])
def test_later_the_last_answer_counts_for_an_hour(site: Site, of_accounting: bool) -> None:
    site.at(0.0)
    site.accounting("no response" if of_accounting else "")
    site.error = "" if of_accounting else "no response"
    assert site.at(HOUR) == ("", False)
    assert site.at(2 * HOUR - 1) == ("", False)
    refusal, releases = site.at(2 * HOUR)
    assert "no response" in refusal or "does not answer" in refusal
    assert releases
    site.accounting()
    site.error = ""
    assert site.at(2 * HOUR + 600) == ("", False)


def test_a_site_that_is_fixed_is_seen_within_a_quarter_of_an_hour(site: Site) -> None:
    site.exempt("00:10:00")
    assert site.at(0.0)[0]
    site.facts = FIT.facts
    assert site.at(899.0)[0]
    assert site.at(900.0) == ("", False)


def test_what_slurmctld_says_counts_though_accounting_is_silent(site: Site) -> None:
    site.at(0.0)
    site.accounting("no response")
    site.exempt("00:10:00")
    refusal, releases = site.at(HOUR)
    assert "PreemptExemptTime 600 s" in refusal
    assert releases


def test_silent_accounting_may_be_accepted(site: Site) -> None:
    settings = FIT.settings.model_dump() | {"accept": ("accounting", "qos")}
    site.settings = SlurmSettings.model_validate(settings)
    site.accounting("no response")
    assert site.at(0.0) == ("", False)
    assert site.watch.accepts == ("accounting", "qos")
    assert [site.at(now_s)[0] for now_s in (HOUR, 2 * HOUR, 3 * HOUR)] == ["", "", ""]
    assert len(site.read_at) == 4


def test_an_answer_that_cannot_be_parsed_is_none(site: Site) -> None:
    def read() -> SiteSetup:
        raise SchedulerError("no version in ''")

    watch = SiteWatch(read, site.judge, lambda: site.now_s)
    watch.update()
    assert "no version in ''" in watch.permit.refusal


def test_a_restart_or_a_reconfiguration_is_a_reason_to_read(site: Site) -> None:
    text = recorded("site-recommended.config.txt")
    site.facts = replace(site.facts, config_text=text)
    site.watch.update()
    for other in (
        "",
        text,
        str(text),
        text.replace("NEXT_JOB_ID             = 2", "NEXT_JOB_ID             = 3"),
    ):
        site.watch.configuration_is(other)
    assert len(site.read_at) == 1
    for key in (
        "BOOT_TIME               = 1",
        "HASH_VAL                = M",
        "PreemptExemptTime       = 0",
    ):
        assert key in text
        site.watch.configuration_is(text.replace(key, key + "1"))
    assert len(site.read_at) == 4


def test_a_time_limit_is_read_again_when_slurm_says_that_it_is_too_long(site: Site) -> None:
    site.watch.update()
    for reason in ("Priority", "QOSGrpNodeLimit", "Resources"):
        site.watch.reason_is(reason)
    assert len(site.read_at) == 1
    site.watch.reason_is("QOSMaxWallDurationPerJobLimit")
    site.watch.reason_is("PartitionTimeLimit")
    assert len(site.read_at) == 2
    site.now_s = 61.0
    site.watch.reason_is("PartitionTimeLimit")
    assert len(site.read_at) == 3


def test_a_main_job_that_waits_is_a_reason_to_read_at_most_once_an_hour(site: Site) -> None:
    site.watch.update()
    assert [site.watch.main_job_waits() for site.now_s in (10.0, 20.0, HOUR, HOUR + 10)] == [
        True,
        False,
        False,
        True,
    ]


def test_calls_a_day(site: Site) -> None:
    """A reading costs slurmctld a call for the partitions, and two for a configuration that was
    forgotten; the other commands ask slurmdbd. The longest time limit was read each hour before.
    """
    jobs = WaitingMainJobs(lambda: site.now_s)
    early = 0
    for now_s in range(0, 24 * 3600, 10):
        site.at(float(now_s))
        if jobs.is_too_long((MainJobWait(str(now_s // 300)),)):
            early += site.watch.main_job_waits()
    assert early <= 24
    assert 3 * early + len(site.read_at) - 24 < 100


NODES = tuple(
    NodeView(f"n{i}", Availability.BUSY if i < 4 else Availability.FREE, ("main", "scavenge"))
    for i in range(6)
)


def squeue(*rows: dict[str, str]) -> JobList:
    empty = dict.fromkeys(_COLUMNS, "")
    return JobList(tuple(empty | row for row in rows), "m")


def holder(node: str) -> dict[str, str]:
    return {
        "%A": node,
        "%u": "me",
        "%j": HOLDER_NAME,
        "%T": "RUNNING",
        "%n": node,
        "%P": "scavenge",
        "%q": "low",
    }


def main_job(size: int, **more: str) -> dict[str, str]:
    job = {
        "A": "7",
        "u": "eve",
        "T": "PENDING",
        "r": "Resources",
        "P": "main",
        "D": str(size),
        "q": "normal",
    } | more
    return {f"%{key}": value for key, value in job.items()}


@pytest.mark.parametrize(
    ("job", "counts"),
    [
        (main_job(4), True),  # two held, two idle
        (main_job(5), False),
        (main_job(1, r="Priority"), False),
        (main_job(1, r="JobHeldUser"), False),
        (main_job(1, T="RUNNING"), False),
        (main_job(1, P="other"), False),
        (main_job(1, P="other,main"), True),
        (main_job(1, P="scavenge"), False),  # as preemptible as holders
        (holder("n5") | {"%T": "PENDING", "%r": "Resources", "%D": "1"}, False),
    ],
)
def test_main_jobs_for_which_held_nodes_would_do(job: dict[str, str], counts: bool) -> None:
    jobs = squeue(holder("n0"), holder("n1"), job)
    own = SharedLimits(own_partition="scavenge")
    assert bool(waits_for_holders(jobs, NODES, "me", own)) == counts
    assert not waits_for_holders(squeue(job), NODES, "me", own), "nothing is held"


def test_a_job_counts_once_when_it_has_waited_for_a_minute_from_look_to_look() -> None:
    now_s = [0.0]
    waiting = WaitingMainJobs(lambda: now_s[0])

    def late(at_s: float, *names: str) -> bool:
        now_s[0] = at_s
        return waiting.is_too_long(tuple(map(MainJobWait, names)))

    assert [late(0.0, "7"), late(59.0, "7"), late(60.0, "7"), late(70.0, "7")] == [
        False,
        False,
        True,
        False,
    ]
    assert [late(80.0), late(90.0, "7"), late(149.0, "7"), late(150.0, "7", "8")] == [
        False,
        False,
        False,
        True,
    ]
