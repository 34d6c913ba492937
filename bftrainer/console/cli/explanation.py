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
from bftrainer.errors import Reason
from bftrainer.pilot.explain import Explanation, explain, quantity
from bftrainer.pilot.persistence.registry import Registry, TrainerRecord, TrainerStatus


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
        return f"it is {record.status.value}" + (f" ({record.reason})" if record.reason else "")
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
    nodes, since = (
        counted(explanation.share.after, "node"),
        clock_time(explanation.entry.event.at_s),
    )
    if has_ended:
        return (
            f"{explanation.trainer} had {nodes} from {since}: {explanation.why}. "
            "The pilot has ended; no trainer has nodes now."
        )
    return f"{explanation.trainer} has had {nodes} since {since}: {explanation.why}."


def rows(explanation: Explanation) -> list[tuple[str, str]]:
    """Return the facts behind the explanation, as (name, text) rows of a table."""
    entry, stake, share = explanation.entry, explanation.stake, explanation.share
    table = [
        ("decision", f"{entry.number}: {describe_decision(entry.event, entry.plan, entry.took_s)}"),
        (
            "pool",
            f"{counted(explanation.pool, 'node')}, {explanation.free} free, "
            f"{counted(explanation.queue, 'trainer')} in the queue",
        ),
    ]
    held = sorted((s for s in explanation.shares if s.after or s.before), key=lambda s: -s.after)
    shown = ", ".join(f"{s.id} {_change(s.before, s.after)}" for s in held[:6])
    table.append(
        ("allocation", (shown or "none") + (f", {len(held) - 6} more" if len(held) > 6 else ""))
    )
    if (named := _named(explanation)) is not None:
        table.append(("nodes named", ", ".join(named) or "none"))
    if stake is not None:
        rate, gain = quantity(stake.rate), quantity(stake.gain)
        change, cost = _change(share.before, share.after), quantity(stake.cost)
        table += [
            ("value", f"{rate} {stake.unit}/s on {counted(share.after, 'node')}, {gain} in T_fwd"),
            ("rescaling cost", f"{change} node{'s' * (change != '1')}: {cost} {stake.unit}"),
            *(
                ()
                if explanation.policy_view is None
                else [
                    ("counted as", rescale_costs(explanation.policy_view, entry.settings.forward_s))
                ]
            ),
            ("more nodes", _what_if(stake.more, stake.unit)),
            ("fewer nodes", _what_if(stake.less, stake.unit)),
        ]
    s = entry.settings
    table.append(
        ("decided by", f"policy {s.policy}, objective {s.objective}, T_fwd {s.forward_s:g} s")
    )
    if (answer := entry.plan.decision.answer) is not None:
        gap = f", gap {answer.gap:.2g}" if answer.gap else ""
        table.append(
            ("solver", f"{answer.solver}, {answer.status.value}{gap}, {1e3 * entry.took_s:.1f} ms")
        )
        table += [
            ("fallback from", f"{f.solver}: {f.reason.value} ({f.detail})")
            for f in answer.fallbacks
            if f.reason is not Reason.NO_PACKAGE
        ]
    return table


def rescale_costs(trainer: Trainer, forward_s: float) -> str:
    """Say how many seconds a rescale of the trainer costs in the allocation problem."""
    if trainer.start_s is None:
        return (
            f"a stall of all nodes, {trainer.scale_up_s:.3g} s up, "
            f"{trainer.scale_down_s:.3g} s down"
        )
    shown = (
        f"{trainer.start_s:.3g} s in which new nodes start and the others train on, then a "
        "stall of all nodes, "
        f"{trainer.scale_up_s:.3g} s up, {trainer.scale_down_s:.3g} s down"
    )
    return f"{shown}; limited by T_fwd" if is_limited(trainer, forward_s) else shown


def _named(explanation: Explanation) -> list[str] | None:
    """Return the nodes that the policy named for the trainer; None if the core chose them."""
    nodes = dict(explanation.entry.plan.decision.nodes).get(explanation.trainer)
    return None if nodes is None else in_name_order(nodes)


def as_dict(explanation: Explanation, *, has_ended: bool = False) -> dict[str, object]:
    """Return the explanation as an object for JSON.

    ``nodes`` are those of the decision, also after the pilot's end (``has_ended``).
    """
    entry, stake, answer = (
        explanation.entry,
        explanation.stake,
        explanation.entry.plan.decision.answer,
    )
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
        "counts": {s.id: s.after for s in explanation.shares},
        "pilot_has_ended": has_ended,
    }
    if (named := _named(explanation)) is not None:
        table["nodes_named"] = named
    if stake is not None:
        table["stake"] = {
            "unit": stake.unit,
            "per_s": stake.rate,
            "gain": stake.gain,
            "rescale_cost": stake.cost,
            "more": _what_if_dict(stake.more),
            "less": _what_if_dict(stake.less),
            **(
                {}
                if explanation.policy_view is None
                else {"costs_s": _costs_dict(explanation.policy_view)}
            ),
        }
    if answer is not None:
        table["solver"] = {
            "name": answer.solver,
            "status": answer.status.value,
            "gap": answer.gap,
            "took_s": entry.took_s,
            "fallbacks": [
                {"solver": f.solver, "reason": f.reason.value, "detail": f.detail}
                for f in answer.fallbacks
            ],
        }
    return table


def _what_if(alternative: WhatIf | None, unit: str) -> str:
    if alternative is None:
        return "not possible"
    moved = ", ".join(f"{s.id} {_change(s.before, s.after)}" for s in alternative.others[:4])
    return (
        f"{alternative.count}: {quantity(alternative.change, signed=True)} {unit} over all trainers"
        + (f" ({moved})" if moved else "")
    )


def _what_if_dict(alternative: WhatIf | None) -> dict[str, object] | None:
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


def _change(before: int, after: int) -> str:
    return f"{after}" if before == after else f"{before} -> {after}"
