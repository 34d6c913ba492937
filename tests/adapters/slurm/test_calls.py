"""Slurm's commands within a budget: what they cost, limits read from Slurm's configuration, and
answers that were refused.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from support.fakes_live import FakeClock

from bftrainer.errors import CommandError, PostponedError
from bftrainer_clusters.holding.call_budget import CallBudget, CallKind
from bftrainer_clusters.slurm import job_list, jobs
from bftrainer_clusters.slurm.calls import SlurmCalls, cost
from bftrainer_clusters.slurm.observe import (
    CLOCK_KEPT_S,
    NODES_ARGV,
    RESERVATIONS_ARGV,
    ServerClock,
)
from bftrainer_clusters.slurm.rate_limit import RateLimit, parse_calls_of, rate_limit
from bftrainer_clusters.slurm.setup import config_argv

LIMITED = (
    "SlurmctldParameters = "
    "enable_configless,rl_enable,rl_bucket_size=40,rl_refill_period=60,rl_refill_rate=4"
)
CONFIG = f"SLURM_VERSION = 26.05.5\nSlurmUser = slurm(64030)\n{LIMITED}\n"


@pytest.mark.parametrize(
    ("argv", "calls"),
    [
        (job_list.query().argv, 2),
        (NODES_ARGV, 2),
        (RESERVATIONS_ARGV, 1),
        (config_argv(), 2),
        (["sdiag"], 1),
        (["sbatch", "-N1"], 1),
        (jobs.list_query("me").argv, 2),
        (jobs.known_query(["1"]).argv, 2),
        (jobs.steps_argv(["1"]), 1),
        (jobs.cancel_argv(["1", "2", "3"]), 3),
        (jobs.kill_steps_argv(["1.0", "2.0"]), 8),
    ],
)
def test_what_a_command_costs_slurmctld(argv: list[str], calls: int) -> None:
    """Counted by sdiag: docs/slurm.md."""
    assert cost(argv) == calls


def test_the_limit_of_a_site() -> None:
    config = {"SlurmctldParameters": LIMITED.partition("= ")[2], "SlurmUser": "slurm(64030)"}
    found = rate_limit(config, "me")
    assert found == RateLimit(40, 4 / 60)
    assert found.per_minute == pytest.approx(4.0)
    assert rate_limit({"SlurmctldParameters": "rl_enable"}, "me") == RateLimit(30, 2.0), (
        "Slurm's defaults"
    )
    assert [rate_limit(config, user) for user in ("root", "slurm")] == [None, None], "exempt"
    assert rate_limit({"SlurmctldParameters": "enable_configless"}, "me") is None


def programs(folder: Path, **scripts: str) -> dict[str, str]:
    for name, script in scripts.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def limited(tmp_path: Path, clock: FakeClock, squeue: str = "echo x") -> SlurmCalls:
    (tmp_path / "config").write_text(f"{CONFIG}\nSlurmctld(primary) at host is UP\n")
    env = programs(tmp_path, squeue=squeue, scontrol=f"cat {tmp_path}/config")
    calls = SlurmCalls(env, CallBudget(600.0, clock.elapsed_s), "me", clock.elapsed_s)
    calls.config(10.0)
    return calls


def test_the_sites_limit_becomes_the_budgets(tmp_path: Path) -> None:
    clock = FakeClock()
    calls = limited(tmp_path, clock)
    assert calls.is_limited
    for _ in range(30):
        calls.run(["squeue"], CallKind.LOOK, 10.0)
    with pytest.raises(
        PostponedError, match=r"the budget of 3\.2 calls a minute allows the next look in"
    ) as caught:
        calls.check(CallKind.LOOK)
    assert caught.value.retry_s > 60
    assert calls.wait_s(CallKind.RELEASE) == 0.0
    (tmp_path / "config").write_text("SLURM_VERSION = 26.05.5\nSlurmctld(primary) at host is UP\n")
    calls.reconfigure(300.0)
    calls.config(10.0)
    assert not calls.is_limited, "asked again, as the pilot was told to read its configuration"
    clock.sleep(60.0)
    calls.check(CallKind.LOOK)


def test_a_refused_call_is_no_failure_but_many_in_a_row_are(tmp_path: Path) -> None:
    """26.05.5's commands print nothing, sleep and try again: a timeout under a limit is taken for a
    refusal.
    """
    clock = FakeClock()
    calls = limited(tmp_path, clock, "sleep 30")
    for _ in range(3):
        with pytest.raises(PostponedError, match="may have refused it"):
            calls.run(["squeue"], CallKind.LOOK, 0.05)
    with pytest.raises(CommandError):
        calls.run(["squeue"], CallKind.LOOK, 0.05)
    programs(tmp_path, squeue="echo x")
    calls.run(["squeue"], CallKind.LOOK, 10.0)
    programs(
        tmp_path,
        squeue="echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1",
    )
    with pytest.raises(CommandError, match="Unable to contact"):
        calls.run(["squeue"], CallKind.LOOK, 10.0)


SDIAG = """\
Remote Procedure Call statistics by message type
	REQUEST_JOB_INFO                        ( 2003) count:8      ave_time:48     total_time:390

Remote Procedure Call statistics by user
	me              (    {uid}) count:{count}     ave_time:61     total_time:2165
	root            (       0) count:26     ave_time:74     total_time:1942

Pending RPC statistics
"""


def test_calls_of_workers_and_of_the_user_are_charged(tmp_path: Path) -> None:
    uid = os.getuid() or 4711
    assert parse_calls_of(SDIAG.format(uid=4711, count=35), 4711) == 35
    assert parse_calls_of(SDIAG.format(uid=uid, count=35), 1) is None
    clock = FakeClock()
    calls = limited(tmp_path, clock)
    me = os.getuid()
    calls.count(SDIAG.replace("root            (       0)", "other (77)").format(uid=me, count=100))
    calls.run(["squeue"], CallKind.LOOK, 10.0)
    before = calls.wait_s(CallKind.SUBMIT)
    calls.count(SDIAG.replace("root            (       0)", "other (77)").format(uid=me, count=132))
    assert before == 0.0
    assert calls.wait_s(CallKind.SUBMIT) > 60.0, "30 calls beyond the pilot's two"
    calls.count(SDIAG.replace("root            (       0)", "other (77)").format(uid=me, count=3))
    assert calls.wait_s(CallKind.SUBMIT) > 60.0, "reset at midnight"


def test_the_servers_time_between_two_calls_of_sdiag() -> None:
    clock = FakeClock()
    server = ServerClock(clock.elapsed_s)
    assert server.is_due
    server.set(5000.0, 4990.0)
    clock.sleep(12.5)
    assert (server.now_s(), server.planned_s, server.is_due) == (5012.5, 4990.0, False)
    clock.sleep(CLOCK_KEPT_S)
    assert server.is_due
