"""srtf and fcfs-rigid: fixed sizes, who runs, who is passed over, who is killed."""

from __future__ import annotations

import pytest
from support.policy_states import active, decide, fresh, state

from bftrainer.decide.domain.model import Curve, Trainer
from bftrainer.decide.policies.requirements import check_needs, refusal
from bftrainer.errors import InvalidValueError, UnknownNameError
from bftrainer.plugins import build_policy
from bftrainer_papers.policies.afs import AfsL
from bftrainer_papers.policies.fcfs_rigid import FcfsRigid
from bftrainer_papers.policies.loss_phase import LossPhase
from bftrainer_papers.policies.modelarts_optimal import ModelArtsOptimal
from bftrainer_papers.policies.srtf import Srtf


def test_srtf_runs_who_would_be_done_first_at_its_requested_size() -> None:
    trainers = [
        active("long", 4, requested=4, samples=1e6),
        active("short", requested=4, samples=100),
        active("shorter-but-large", requested=8, samples=120),
    ]
    assert decide(Srtf(), fresh(trainers, 8)).counts == (0, 0, 8)
    assert decide(Srtf(), fresh(trainers, 7)).counts == (0, 4, 0), (
        "who does not fit is passed over; nobody is scaled"
    )


def test_fcfs_keeps_who_runs_and_passes_over_who_does_not_fit() -> None:
    trainers = [active("a", 4, requested=4), active("b", requested=8), active("c", requested=2)]
    assert decide(FcfsRigid(), fresh(trainers, 8)).counts == (4, 0, 2)


def test_a_lost_node_kills_and_sends_to_the_end_of_the_queue() -> None:
    policy = FcfsRigid()
    trainers = [active("a", 4, requested=4), active("b", 2, requested=2), active("c", requested=4)]
    _, memory = policy.decide(fresh(trainers, 6), decide.event(0.0))
    assert memory == ("a", "b", "c")
    hit = [active("a", 3, requested=4), active("b", 2, requested=2), active("c", requested=4)]
    decision, memory = policy.decide(state(hit, 1, memory=memory), decide.event(1.0))
    assert memory == ("b", "c", "a")
    assert decision.counts == (0, 2, 4), "c was next"
    decision, memory = policy.decide(
        state([*hit[1:], active("d", requested=4)], 9, memory=memory), decide.event(2.0)
    )
    assert memory == ("b", "c", "d"), "a has finished meanwhile"


def test_without_a_request_the_largest_size_is_meant() -> None:
    assert decide(FcfsRigid(), fresh([active("a", max_nodes=5)], 9)).counts == (5,)


@pytest.mark.parametrize("policy", [AfsL(), Srtf(), ModelArtsOptimal()])
def test_unknown_length_is_refused_with_the_reason(policy: AfsL | Srtf | ModelArtsOptimal) -> None:
    unknown = active("t", samples=None)
    assert refusal(policy, unknown.trainer) == (
        f"trainer t: policy {policy.name} requires the total number of samples (samples_total)"
    )
    with pytest.raises(InvalidValueError, match="samples_total"):
        policy.decide(fresh([unknown], 3), decide.event(0.0))


def test_silent_trainers_are_refused_by_policies_that_need_losses() -> None:
    silent = Trainer("t", Curve((1, 2), (1.0, 2.0)), 1, 2, 0.0, 0.0)
    with pytest.raises(InvalidValueError, match="reports_loss"):
        check_needs(LossPhase(), silent)
    assert refusal(FcfsRigid(), silent) is None


def test_a_misspelt_option_is_refused_with_the_valid_ones(settings_with: object) -> None:
    with pytest.raises(UnknownNameError, match="valid: cap, interval_s, powers_of_two"):
        build_policy("modelarts-greedy", settings_with(kap=4.0))  # type: ignore[operator]
    assert build_policy("modelarts-greedy", settings_with(cap=4.0)).cap == 4  # type: ignore[operator, attr-defined]


def test_a_request_must_be_a_legal_size() -> None:
    with pytest.raises(InvalidValueError, match="requested_nodes"):
        active("t", requested=17)
