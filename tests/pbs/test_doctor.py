"""``bftrainer doctor --site`` and ``init`` on the stand-in: what they say, what is kept, and that they
only read.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.pbs_under_test import QUEUE, StandInPbs

from bftrainer.cluster.site_advice import SiteWishes
from bftrainer.decide.domain.checks import Check, CheckStatus
from bftrainer.errors import CommandError, UndecidedError, UserError
from bftrainer_clusters.pbs.config import PbsSettings
from bftrainer_clusters.pbs.doctor import examine_pbs
from bftrainer_clusters.pbs.site import SITE


def examined(
    pbs: StandInPbs, ends_holders: bool = False, **environment: str
) -> dict[str, list[Check]]:
    settings = PbsSettings(queue=QUEUE, timeout_s=30.0)
    keep = pbs.state / "kept"
    checks: dict[str, list[Check]] = {}
    for check in examine_pbs(settings, keep, ends_holders, environment, pbs.lab.env):
        checks.setdefault(check.name, []).append(check)
    return checks


def test_a_site_that_is_ready(pbs: StandInPbs) -> None:
    pbs.lab.main_job()
    checks = examined(pbs)
    assert {check.state for each in checks.values() for check in each} == {CheckStatus.OK}
    assert checks["nodes"][0].detail == "pbsnodes: 4 nodes, 3 idle"
    assert checks["schedulers"][0].detail == "qmgr: default: preempt_order D"
    assert f"PBS deletes jobs of {QUEUE} for main jobs" in checks["queue"][0].detail
    assert not (pbs.state / "kept").exists()
    asked = Counter(tuple(words) for words in pbs.lab.state()["calls"])
    assert set(asked.values()) == {1}, "no question is asked twice"
    assert {words[0] for words in pbs.lab.state()["calls"]} - {"qsub"} == {
        "pbsnodes",
        "qstat",
        "qselect",
        "qmgr",
        "pbs_rstat",
    }


def test_a_site_that_suspends_is_refused_with_the_remedy(pbs: StandInPbs) -> None:
    pbs.lab.order("SCR")
    (check,) = examined(pbs)["queue"]
    assert check.state is CheckStatus.BROKEN
    assert "preempt_order = D" in check.detail
    assert "docs/pbs.md" in check.remedy


def test_a_long_kill_delay_is_a_warning(pbs: StandInPbs) -> None:
    pbs.lab.edit(lambda state: state["queues"][QUEUE].update(kill_delay=600))
    checks = examined(pbs)
    assert checks["queue"][0].state is CheckStatus.OK
    assert checks["kill_delay"][0].state is CheckStatus.WARNING


def test_hidden_jobs_and_another_owner(pbs: StandInPbs) -> None:
    pbs.lab.change(query_other_jobs=False)
    checks = examined(pbs, PBS_JOBID="1.head")
    assert checks["other users' jobs"][0].state is CheckStatus.WARNING
    assert "flatuid = True" in checks["owner"][0].remedy
    assert examined(pbs, True)["other users' jobs"][0].state is CheckStatus.BROKEN
    pbs.lab.change(query_other_jobs=True, flatuid=True)
    assert "owner" not in examined(pbs, PBS_JOBID="1.head")


def test_what_is_not_understood_is_kept(pbs: StandInPbs) -> None:
    pbs.lab.edit(lambda state: state["nodes"]["node02"].update(states=["on-fire"]))
    (check,) = examined(pbs)["nodes"]
    assert check.state is CheckStatus.BROKEN
    assert "on-fire" in (pbs.state / "kept" / "pbs-nodes.txt").read_text()
    pbs.lab.fault("*", "down")
    checks = examined(pbs)
    assert all("Connection refused" in check.detail for check in checks["jobs"])
    assert "unknown without the answers about queues" in checks["queue"][0].detail


def proposal(pbs: StandInPbs, monkeypatch: pytest.MonkeyPatch, **wishes: Any) -> dict[str, Any]:
    pbs.lab.enter(monkeypatch.setenv)
    proposed = SITE.propose(SiteWishes(**wishes))
    assert proposed is not None
    return {f"{key.table}.{key.key}": key.value for key in proposed.keys} | {
        "remarks": proposed.remarks
    }


def test_init_reads_the_queue_and_the_gpus(
    pbs: StandInPbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert proposal(pbs, monkeypatch) == {
        "pbs.queue": QUEUE,
        "nodes.slots": 2,
        "remarks": (f"PBS deletes jobs of {QUEUE} for main jobs",),
    }
    pbs.lab.order("SCR")
    (remark,) = proposal(pbs, monkeypatch, slots=1)["remarks"]
    assert "no holder may run yet: PBS suspends" in remark


def test_init_asks_where_no_name_tells_the_queue(
    pbs: StandInPbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    pbs.lab.edit(lambda state: state["queues"].update(second=state["queues"].pop(QUEUE)))
    with pytest.raises(UndecidedError, match="decide with --partition"):
        proposal(pbs, monkeypatch)
    decided = proposal(pbs, monkeypatch, partition="second", nodes_per_holder=4)
    assert (decided["pbs.queue"], decided["pbs.nodes_per_holder"]) == ("second", 4)
    with pytest.raises(UserError, match="no execution queue of PBS; expected main, second"):
        proposal(pbs, monkeypatch, partition="third")
    with pytest.raises(UserError, match="--qos: not for PBS"):
        proposal(pbs, monkeypatch, qos="low")
    pbs.lab.fault("*", "down")
    with pytest.raises(CommandError, match="Connection refused"):
        proposal(pbs, monkeypatch)
