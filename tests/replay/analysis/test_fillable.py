"""What a waiting job needs decides whether it could have used idle nodes: logs of sacct written by
hand, and a plain script.

Eight nodes c1..c4 (partition cpu, 16 cores) and g1..g4 (partition gpu, 4 GPUs each). Jobs on each
node at the beginning and at the end name its partition and what it has. From 1:00 to 4:00 nodes are
busy or idle as a test says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from replay.windows import window
from support.reading_logs import read

from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.policies.plain import Plain
from bftrainer_replay.analysis.accounts import accounts_of
from bftrainer_replay.analysis.idle_causes import IdleCause, IdleCauses, idle_causes
from bftrainer_replay.analysis.partitions import partitions_of
from bftrainer_replay.analysis.plain_jobs import plain_curve, plain_jobs
from bftrainer_replay.analysis.window_fragments import pool_sizes_of
from bftrainer_replay.generation.generate import generate
from bftrainer_replay.logs.model import LogWindow, restricted_log
from bftrainer_replay.logs.slurm_columns import SACCT_COLUMNS
from bftrainer_replay.simulation.play import Scenario, play
from bftrainer_replay.simulation.replay_world import Arrival

CPU, GPU = ("c1", "c2", "c3", "c4"), ("g1", "g2", "g3", "g4")
HAS_CPU, HAS_GPU = "cpu=16,node=1", "cpu=16,gres/gpu:a100=4,gres/gpu=4,node=1"
DAY = "2026-02-01T"


def clock(minutes: float) -> str:
    return f"{DAY}{int(minutes) // 60:02d}:{int(minutes) % 60:02d}:00"


class Site:
    """Jobs as sacct prints them. Times are minutes after midnight; a waiting job runs after the
    log's part that counts.
    """

    def __init__(self) -> None:
        self.lines = [SACCT_COLUMNS.replace(",", "|")]
        self.account, self.qos = "a", "normal"
        for since, until in ((0, 60), (240, 300), (300, 360)):
            for node in (*CPU, *GPU):
                self.ran(node, since, until)

    def ran(self, node: str, since: float, until: float) -> None:
        gpu = node.startswith("g")
        self.add(
            since,
            since,
            since,
            until,
            60,
            1,
            node,
            "gpu" if gpu else "cpu",
            tres=HAS_GPU if gpu else HAS_CPU,
        )

    def waits(
        self,
        submit: float,
        until: float,
        nodes: int,
        limit_min: object,
        partition: str,
        *,
        eligible: float | None = None,
        tres: str = "",
        reason: str = "None",
        constraint: str = "",
    ) -> None:
        self.add(
            submit,
            submit if eligible is None else eligible,
            None,
            until,
            limit_min,
            nodes,
            "None assigned",
            partition,
            tres=tres or f"cpu={nodes},node={nodes}",
            reason=reason,
            constraint=constraint,
        )

    def add(
        self,
        submit: float,
        eligible: float,
        start: float | None,
        end: float,
        limit: object,
        nodes: int,
        names: str,
        partition: str,
        *,
        tres: str = "",
        reason: str = "None",
        constraint: str = "",
    ) -> None:
        begin = "None" if start is None else clock(start)
        ran = 0 if start is None else int(60 * (end - start))
        state = "CANCELLED" if start is None else "COMPLETED"
        job = (
            len(self.lines),
            "site",
            f"u{len(self.lines)}",
            self.account,
            clock(submit),
            clock(eligible),
            begin,
            clock(end),
            ran,
            limit,
            nodes,
            names,
            state,
            partition,
            self.qos,
            reason,
            tres,
            tres if start is not None else "",
            constraint,
            "SchedMain",
        )
        self.lines.append("|".join(map(str, job)))

    def window(self, folder: Path) -> LogWindow:
        opened = read(folder, "\n".join(self.lines) + "\n")
        return restricted_log(opened.log)

    def causes(self, folder: Path) -> IdleCauses:
        found = idle_causes(self.window(folder))
        assert found is not None
        return found


def shares(found: IdleCauses) -> dict[IdleCause, float]:
    return {cause: round(share, 6) for cause, share in found.shares().items() if share > 1e-9}


@pytest.fixture
def site() -> Site:
    """The nodes of cpu are busy from 1:00 to 4:00, those of gpu idle."""
    site = Site()
    for node in CPU:
        for hour in (60, 120, 180):
            site.ran(node, hour, hour + 60)
    return site


def test_jobs_for_another_partition_fill_nothing(site: Site, tmp_path: Path) -> None:
    site.waits(60, 240, 4, 30, "cpu")
    assert shares(site.causes(tmp_path)) == {IdleCause.PARTITION: 1.0}


def test_a_job_that_is_too_long_fills_nothing(site: Site, tmp_path: Path) -> None:
    """All holes are 30 minutes long, and one job of 24 hours waits."""
    for start in (90, 150, 210):
        for node in GPU:
            site.ran(node, start, start + 30)
    site.waits(60, 240, 4, 1440, "gpu")
    assert shares(site.causes(tmp_path)) == {IdleCause.TOO_LONG: 1.0}


def test_a_job_that_fits_fills_everything_until_the_rest_of_the_hole_is_too_short(
    site: Site, tmp_path: Path
) -> None:
    site.waits(60, 240, 4, 5, "cpu,gpu")
    found = shares(site.causes(tmp_path))
    assert found == pytest.approx(
        {IdleCause.FITS: 175 / 180, IdleCause.TOO_LONG: 5 / 180}, abs=1e-5
    )


@pytest.mark.parametrize(
    ("cause", "needs"),
    [
        (IdleCause.DEVICES, {"tres": "cpu=4,gres/gpu=32,node=4"}),  # eight GPUs a node
        (IdleCause.DEVICES, {"tres": "cpu=4,gres/gpu:h100=4,gres/gpu=4,node=4"}),
        (IdleCause.DEVICES, {"tres": "cpu=256,node=4"}),
        (IdleCause.DEPENDENCY, {"reason": "Dependency"}),
        (IdleCause.BEGIN_TIME, {"reason": "BeginTime"}),
        (IdleCause.HELD, {"reason": "JobHeldUser"}),
        (IdleCause.LIMIT, {"reason": "AssocGrpCpuLimit"}),
        (IdleCause.LIMIT, {"reason": "QOSMaxJobsPerUserLimit"}),
        (IdleCause.OTHER, {"reason": "Licenses"}),
    ],
)
def test_each_cause_alone(
    site: Site, tmp_path: Path, cause: IdleCause, needs: dict[str, str]
) -> None:
    site.waits(60, 240, 4, 1, "gpu", **needs)  # type: ignore[arg-type]
    assert shares(site.causes(tmp_path)) == {cause: 1.0}


def test_a_node_has_the_features_of_the_jobs_that_ran_on_it(site: Site, tmp_path: Path) -> None:
    for node in CPU:
        site.add(0, 0, 0, 60, 60, 1, node, "cpu", tres=HAS_CPU, constraint="intel")
    site.waits(60, 240, 4, 1, "gpu", constraint="intel")
    assert shares(site.causes(tmp_path)) == {IdleCause.DEVICES: 1.0}


def test_mixed_by_cause(site: Site, tmp_path: Path) -> None:
    """From 1:00 on one node fits, from 2:00 on two are asked for by a held job, too, from 3:00 on
    all by a job for cpu.
    """
    site.waits(60, 240, 1, 0, "gpu")
    site.waits(120, 240, 2, 1, "gpu", reason="JobHeldAdmin")
    site.waits(180, 240, 4, 1, "cpu")
    found = shares(site.causes(tmp_path))
    expected = {
        IdleCause.FITS: 3,
        IdleCause.BEYOND: 3 + 1,
        IdleCause.HELD: 2,
        IdleCause.PARTITION: 3,
    }
    assert found == pytest.approx(
        {cause: hours / 12 for cause, hours in expected.items()}, abs=1e-5
    )


def test_a_reason_that_ended_when_the_job_became_eligible_holds_until_then(
    site: Site, tmp_path: Path
) -> None:
    site.waits(60, 240, 4, 0, "gpu", eligible=150, reason="Dependency")
    assert shares(site.causes(tmp_path)) == {IdleCause.DEPENDENCY: 0.5, IdleCause.FITS: 0.5}


def test_what_the_log_does_not_have_is_named_and_counts_as_fitting(
    site: Site, tmp_path: Path
) -> None:
    site.waits(60, 240, 4, 1440, "cpu", reason="JobHeldUser")
    columns = site.lines[0].split("|")
    gone = [
        columns.index(name)
        for name in ("Partition", "TimelimitRaw", "Reason", "ReqTRES", "Constraints")
    ]
    site.lines = [
        "|".join(field for place, field in enumerate(line.split("|")) if place not in gone)
        for line in site.lines
    ]
    found = site.causes(tmp_path)
    assert shares(found) == {IdleCause.FITS: 1.0}
    assert [text.partition(" (")[2].rstrip(")") for text in found.not_judged] == [
        "TimelimitRaw",
        "Partition",
        "Reason",
        "ReqTRES",
        "Constraints",
    ]


def test_a_row_per_partition_and_device_type(site: Site, tmp_path: Path) -> None:
    site.waits(60, 240, 2, 0, "gpu")
    site.waits(60, 240, 4, 1, "cpu")
    rows = {(row.partition, row.devices): row for row in partitions_of(site.window(tmp_path))}
    assert list(rows) == [("gpu", "gpu:a100 x4"), ("cpu", "no device")]
    gpu, cpu = rows.values()
    assert (gpu.nodes, gpu.idle_node_h, gpu.idle_share, gpu.fillable_share) == (4, 12.0, 0.75, 0.5)
    assert (cpu.nodes, cpu.idle_node_h, cpu.fillable_share, cpu.waiting) == (4, 0.0, 0.0, 0.75)


@pytest.mark.parametrize("kind", ["account", "qos"])
def test_a_row_per_account_and_qos(
    site: Site, tmp_path: Path, kind: Literal["account", "qos"]
) -> None:
    site.account = site.qos = "b"
    site.waits(60, 240, 2, 0, "gpu")
    site.ran("g1", 60, 120)
    first, second = accounts_of(site.window(tmp_path), kind)
    assert (first.name, first.jobs, first.node_h, first.waiting) == (
        "a" if kind == "account" else "normal",
        20,
        20,
        0,
    )
    assert (second.name, second.jobs, second.node_h, second.waiting) == ("b", 1, 1, 0.75)
    assert (first.share, second.share) == pytest.approx((20 / 21, 1 / 21))
    assert (first.fillable_share, second.fillable_share) == pytest.approx((0, 6 / 11))


# --- Plain one-node jobs on idle nodes: by hand, and as the policy ``plain`` does it in a replay

TWO = window(1000.0, "a", (100.0, "b"), (500.0, "a"), (995.0, "c"))


def test_each_start_costs_its_time_and_no_job_waits_for_more_nodes_than_there_are() -> None:
    one, two = plain_jobs(TWO, (1, 2), 10.0)
    idle = 500.0 + 900.0 + 5.0
    # The mean cost of a start is (10 + 10 + 5) / 3 s. With one job, it starts on a, and again when
    # a leaves with even chances.
    cost = 25 / 3
    assert one.share * idle == pytest.approx(1000 - 1.5 * cost)
    assert two.share * idle == pytest.approx(idle - 3 * cost)
    assert plain_jobs(window(10.0, ""), (5,), 1.0)[0].share == 0.0


def test_the_curve_ends_where_more_jobs_do_nearly_nothing_more() -> None:
    curve = plain_curve(restricted_log(generate(64, 2, 1), machine_nodes=64), 10, 18.0)
    shares = [each.share for each in curve]
    assert shares == sorted(shares)
    assert 10 in [each.jobs for each in curve]
    assert curve[-1].jobs < 64


def test_as_many_jobs_as_nodes_do_what_the_replay_of_the_policy_does() -> None:
    window = restricted_log(generate(32, 1, 3), machine_nodes=32)
    curve = Curve((1,), (1.0,))
    jobs = (Trainer(f"job-{k}", curve, 1, 1, 18.0, 0.0, samples_total=1e12) for k in range(32))
    arrivals = tuple(Arrival(window.start_s, job) for job in jobs)
    told = play(Scenario(window, arrivals), Plain(), keep_entries=False)
    (ours,) = plain_jobs(window, (32,), 18.0)
    assert ours.share == pytest.approx(
        told.totals.samples / pool_sizes_of(window).node_s(), abs=1e-6
    )
