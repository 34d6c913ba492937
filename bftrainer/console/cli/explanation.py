"""An explanation of a trainer's node count as text, as rows, and as JSON: for ``explain`` and
``top``.
"""

from __future__ import annotations

from bftrainer.console.cli.decision_text import describe_decision
from bftrainer.console.cli.output import clock_time
from bftrainer.console.client.state_dir import pilot_has_ended
from bftrainer.counted import counted
from bftrainer.decide.allocation.placement import in_name_order
from bftrainer.decide.allocation.two_costs import is_limited
from bftrainer.decide.allocation.what_if import WhatIf
from bftrainer.decide.domain.model import Trainer
from bftrainer.decide.domain.problem import Answer
from bftrainer.errors import Reason
from bftrainer.pilot.explain import Explanation, Stake, explain, quantity
from bftrainer.pilot.persistence.registry import Registry, TrainerRecord, TrainerStatus

_MAX_SHARES = 6
"""Trainers whose allocation is shown beside the explained one's."""
_MAX_OTHERS = 4
"""Trainers that are shown with what another count would change for them."""


def as_lines(registry: Registry, trainer: str, now_s: float) -> list[str]:
    """Return the explanation of a trainer's current node count, as lines."""
    if reason := idle_reason(registry.trainer(trainer), now_s):
        return [f"{trainer} has no nodes: {reason}"]
    explanation = explain(registry.store, trainer)
    return [
        headline(explanation, has_ended=pilot_has_ended(registry.store, now_s)),
        "",
        *(f"{key:<15} {text}" for key, text in rows(explanation)),
    ]


def idle_reason(record: TrainerRecord, now_s: float) -> str | None:
    """Say why a trainer takes no part in decisions now; None if it takes part."""
    if record.status.is_final:
        verb = "has" if record.status is TrainerStatus.FAILED else "is"
        return f"it {verb} {record.status.value}" + (f" ({record.reason})" if record.reason else "")
    if record.status is TrainerStatus.PAUSED:
        return f"it is paused; resume it with `bftrainer resume {record.name}`"
    if record.failures and record.not_before_s > now_s:
        return (
            f"it failed ({record.reason}) and will be restarted at "
            f"{clock_time(record.not_before_s)}"
        )
    return None


def headline(explanation: Explanation, *, has_ended: bool = False) -> str:
    """Return the explanation in one sentence.

    After the pilot's end (``has_ended``) there is a second one, since then no trainer has nodes.
    """
    nodes = counted(explanation.share.after, "node")
    since = clock_time(explanation.entry.event.at_s)
    if has_ended:
        return (
            f"{explanation.trainer} had {nodes} from {since}: {explanation.why}. "
            "The pilot has ended; no training has nodes now."
        )
    return f"{explanation.trainer} has had {nodes} since {since}: {explanation.why}."


def rows(explanation: Explanation) -> list[tuple[str, str]]:
    """Return the facts behind the explanation, as (name, text) rows of a table."""
    entry = explanation.entry
    table = [
        ("decision", f"{entry.number}: {describe_decision(entry.event, entry.plan, entry.took_s)}"),
        (
            "pool",
            f"{counted(explanation.pool, 'node')}, {explanation.free} free, "
            f"{counted(explanation.queue, 'training')} in the queue",
        ),
        ("allocation", _allocation_text(explanation)),
    ]
    node_names = _node_names(explanation)
    if node_names is not None:
        table.append(("nodes named", ", ".join(node_names) or "none"))
    if explanation.stake is not None:
        table += _stake_rows(explanation, explanation.stake)
    s = entry.settings
    table.append(
        ("decided by", f"policy {s.policy}, objective {s.objective}, T_fwd {s.forward_s:g} s")
    )
    answer = entry.plan.decision.answer
    if answer is not None:
        table += _solver_rows(answer, entry.took_s)
    return table


def _allocation_text(explanation: Explanation) -> str:
    """Return the node counts of the trainers that had or got nodes, the largest ones."""
    shares = [share for share in explanation.shares if share.after or share.before]
    shares.sort(key=lambda share: -share.after)
    largest = shares[:_MAX_SHARES]
    text = ", ".join(f"{share.id} {_change_text(share.before, share.after)}" for share in largest)
    remainder = len(shares) - len(largest)
    return (text or "none") + (f", {remainder} more" if remainder else "")


def _stake_rows(explanation: Explanation, stake: Stake) -> list[tuple[str, str]]:
    """Return the rows that say what the trainer's nodes are worth, and other counts."""
    share, unit = explanation.share, stake.unit
    rate, gain, cost = quantity(stake.rate), quantity(stake.gain), quantity(stake.cost)
    change = _change_text(share.before, share.after)
    table = [
        ("value", f"{rate} {unit}/s on {counted(share.after, 'node')}, {gain} in T_fwd"),
        ("rescaling cost", f"{change} node{'s' * (change != '1')}: {cost} {unit}"),
    ]
    if explanation.policy_view is not None:
        costs = rescale_costs(explanation.policy_view, explanation.entry.settings.forward_s)
        table.append(("counted as", costs))
    table.append(("more nodes", _what_if_text(stake.more, unit)))
    table.append(("fewer nodes", _what_if_text(stake.less, unit)))
    return table


def _solver_rows(answer: Answer, took_s: float) -> list[tuple[str, str]]:
    """Return the rows of the solver, and of the solvers that failed before it.

    A solver that is not installed is no failure.
    """
    gap = f", gap {answer.gap:.2g}" if answer.gap else ""
    table = [("solver", f"{answer.solver}, {answer.status.value}{gap}, {1e3 * took_s:.1f} ms")]
    for fallback in answer.fallbacks:
        if fallback.reason is not Reason.NO_PACKAGE:
            text = f"{fallback.solver}: {fallback.reason.value} ({fallback.detail})"
            table.append(("fallback from", text))
    return table


def rescale_costs(trainer: Trainer, forward_s: float) -> str:
    """Say how many seconds a rescale of the trainer costs in the allocation problem."""
    if trainer.start_s is None:
        return (
            f"a stall of all nodes, {trainer.scale_up_s:.3g} s up, "
            f"{trainer.scale_down_s:.3g} s down"
        )
    costs = (
        f"{trainer.start_s:.3g} s in which new nodes start and the others train on, then a "
        "stall of all nodes, "
        f"{trainer.scale_up_s:.3g} s up, {trainer.scale_down_s:.3g} s down"
    )
    return f"{costs}; limited by T_fwd" if is_limited(trainer, forward_s) else costs


def _node_names(explanation: Explanation) -> list[str] | None:
    """Return the nodes that the policy named for the trainer; None if the core chose them."""
    nodes = dict(explanation.entry.plan.decision.nodes).get(explanation.trainer)
    return None if nodes is None else in_name_order(nodes)


def as_dict(explanation: Explanation, *, has_ended: bool = False) -> dict[str, object]:
    """Return the explanation as an object for JSON.

    ``nodes`` are those of the decision, also after the pilot's end (``has_ended``).
    """
    entry = explanation.entry
    table: dict[str, object] = {
        "trainer": explanation.trainer,
        "nodes": explanation.share.after,
        "nodes_before": explanation.share.before,
        "why": explanation.why,
        "decision": entry.number,
        "time": entry.event.at_s,
        "pool": explanation.pool,
        "free": explanation.free,
        "queue": explanation.queue,
        "place_in_queue": explanation.place,
        "policy": entry.settings.policy,
        "objective": entry.settings.objective,
        "forward_s": entry.settings.forward_s,
        "counts": {share.id: share.after for share in explanation.shares},
        "pilot_has_ended": has_ended,
    }
    node_names = _node_names(explanation)
    if node_names is not None:
        table["nodes_named"] = node_names
    if explanation.stake is not None:
        table["stake"] = _stake_dict(explanation, explanation.stake)
    answer = entry.plan.decision.answer
    if answer is not None:
        table["solver"] = _solver_dict(answer, entry.took_s)
    return table


def _stake_dict(explanation: Explanation, stake: Stake) -> dict[str, object]:
    """Return what the trainer's nodes are worth, and other counts, for JSON."""
    values: dict[str, object] = {
        "unit": stake.unit,
        "per_s": stake.rate,
        "gain": stake.gain,
        "rescale_cost": stake.cost,
        "more": _what_if_dict(stake.more),
        "less": _what_if_dict(stake.less),
    }
    if explanation.policy_view is not None:
        values["costs_s"] = _costs_dict(explanation.policy_view)
    return values


def _solver_dict(answer: Answer, took_s: float) -> dict[str, object]:
    """Return the solver and its fallbacks for JSON."""
    fallbacks = [
        {
            "solver": fallback.solver,
            "reason": fallback.reason.value,
            "detail": fallback.detail,
        }
        for fallback in answer.fallbacks
    ]
    return {
        "name": answer.solver,
        "status": answer.status.value,
        "gap": answer.gap,
        "took_s": took_s,
        "fallbacks": fallbacks,
    }


def _what_if_text(alternative: WhatIf | None, unit: str) -> str:
    """Say what another node count of the trainer would change; None is a count that the trainer
    cannot have.
    """
    if alternative is None:
        return "not possible"
    others = alternative.others[:_MAX_OTHERS]
    changes = ", ".join(f"{share.id} {_change_text(share.before, share.after)}" for share in others)
    change = quantity(alternative.change, signed=True)
    return f"{alternative.count}: {change} {unit} over all trainings" + (
        f" ({changes})" if changes else ""
    )


def _what_if_dict(alternative: WhatIf | None) -> dict[str, object] | None:
    """Return what another node count of the trainer would change, for JSON."""
    if alternative is None:
        return None
    others = {
        s.id: {"before": s.before, "after": s.after, "gain": s.gain} for s in alternative.others
    }
    return {
        "nodes": alternative.count,
        "change": alternative.change,
        "own": alternative.own,
        "others": others,
    }


def _costs_dict(trainer: Trainer) -> dict[str, float | None]:
    return {"start": trainer.start_s, "up": trainer.scale_up_s, "down": trainer.scale_down_s}


def _change_text(before: int, after: int) -> str:
    return f"{after}" if before == after else f"{before} -> {after}"
