"""``bftrainer explain``: why a trainer has its n nodes, now or at any past moment."""

from __future__ import annotations

import math
from datetime import date, datetime
from datetime import time as clock
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.cli.state import clock_time, json_option, opened_registry, show_json, show_rows, state_option
from bftrainer.errors import UserError

if TYPE_CHECKING:
    from bftrainer.allocation.what_if import WhatIf
    from bftrainer.live.explain import Explanation
    from bftrainer.persistence.registry import Registry, TrainerRecord


@click.command()
@click.argument("trainer", metavar="NAME")
@click.option(
    "--at", "at", metavar="TIME", help="A past moment: 14:05, 2026-03-01T14:05 (local time), or epoch seconds."
)
@state_option
@json_option
def explain(trainer: str, at: str | None, state: Path, as_json: bool) -> None:
    """Explain why a trainer has as many nodes as it has.

    From the journal: what its nodes are worth, what changing their number costs, what one node more or less would have
    brought to everybody, and who outbids it. Works while the pilot runs, and when it does not.

    \b
    Example:
      bftrainer explain digits
      bftrainer explain digits --at 14:05
    """
    from bftrainer.live import explain as live

    at_s = math.inf if at is None else moment(at)
    with opened_registry(state) as registry:
        record = registry.trainer(trainer)
        remark = _remark(record) if at is None else None
        found = None if remark else live.explain(registry.store, trainer, at_s)
    if found is None:
        if as_json:
            show_json([{"trainer": trainer, "status": record.status.value, "nodes": 0, "why": remark}])
        else:
            click.echo(f"{trainer} has no nodes: {remark}")
        return
    if as_json:
        show_json([as_dict(found)])
        return
    click.echo(f"{trainer} has {_nodes(found.share.after)} since {clock_time(found.entry.event.at_s)}: {found.why}.")
    show_rows(("", ""), rows(found))


def as_lines(registry: Registry, trainer: str) -> list[str]:
    """The same for a screen: the sentence, then the table's rows."""
    from bftrainer.live import explain as live

    record = registry.trainer(trainer)
    if remark := _remark(record):
        return [f"{trainer} has no nodes: {remark}"]
    found = live.explain(registry.store, trainer)
    since = clock_time(found.entry.event.at_s)
    table = rows(found)
    return [
        f"{trainer} has {_nodes(found.share.after)} since {since}: {found.why}.",
        "",
        *(f"{a:<12} {b}" for a, b in table),
    ]


def moment(text: str) -> float:
    """Seconds since 1970 of what a user wrote."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        pass
    try:
        return datetime.combine(date.today(), clock.fromisoformat(text)).timestamp()
    except ValueError:
        raise UserError(
            f"--at {text}: is no time, expected 14:05, 2026-03-01T14:05 (local time), or seconds since 1970"
        ) from None


def rows(found: Explanation) -> list[tuple[str, str]]:
    """The table below the sentence."""
    from bftrainer.cli.watch import described
    from bftrainer.live.explain import quantity

    entry, stake, share = found.entry, found.stake, found.share
    table = [("decision", f"{entry.number}: {described(entry.event, entry.plan, entry.took_s)}")]
    table.append(("pool", f"{_nodes(found.pool)}, {found.free} free, {found.queue} trainers in the queue"))
    held = sorted((s for s in found.shares if s.after or s.before), key=lambda s: -s.after)
    shown = ", ".join(f"{s.id} {_change(s.before, s.after)}" for s in held[:6])
    table.append(("who has what", (shown or "nobody has any") + (f", {len(held) - 6} more" if len(held) > 6 else "")))
    if stake is not None:
        table.append(
            (
                "its worth",
                f"{quantity(stake.rate)} {stake.unit}/s on {_nodes(share.after)}, {quantity(stake.gain)} in T_fwd",
            )
        )
        table.append(
            ("rescaling", f"{_change(share.before, share.after)} nodes cost {quantity(stake.cost)} {stake.unit}")
        )
        table.append(("more nodes", _what_if(stake.more, stake.unit)))
        table.append(("fewer nodes", _what_if(stake.less, stake.unit)))
    s = entry.settings
    table.append(("decided by", f"policy {s.policy}, objective {s.objective}, T_fwd {s.forward_s:g} s"))
    if (answer := entry.plan.decision.answer) is not None:
        gap = f", gap {answer.gap:.2g}" if answer.gap else ""
        table.append(("solver", f"{answer.solver}, {answer.status.value}{gap}, {1e3 * entry.took_s:.1f} ms"))
        table += [("passed on", f"{f.solver}: {f.reason.value} ({f.detail})") for f in answer.fallbacks]
    return table


def as_dict(found: Explanation) -> dict[str, object]:
    """For programs."""
    entry, stake, answer = found.entry, found.stake, found.entry.plan.decision.answer
    table: dict[str, object] = {
        "trainer": found.trainer, "nodes": found.share.after, "nodes_before": found.share.before, "why": found.why,
        "decision": entry.number, "time": entry.event.at_s, "pool": found.pool, "free": found.free,
        "queue": found.queue, "place_in_queue": found.place, "policy": entry.settings.policy,
        "objective": entry.settings.objective, "forward_s": entry.settings.forward_s,
        "counts": {s.id: s.after for s in found.shares},
    }  # fmt: skip
    if stake is not None:
        table["stake"] = {
            "unit": stake.unit, "per_s": stake.rate, "gain": stake.gain, "rescale_cost": stake.cost,
            "more": _what_if_dict(stake.more), "less": _what_if_dict(stake.less),
        }  # fmt: skip
    if answer is not None:
        table["solver"] = {
            "name": answer.solver, "status": answer.status.value, "gap": answer.gap, "took_s": entry.took_s,
            "fallbacks": [{"solver": f.solver, "reason": f.reason.value, "detail": f.detail} for f in answer.fallbacks],
        }  # fmt: skip
    return table


def _remark(record: TrainerRecord) -> str | None:
    """Why a trainer takes no part in decisions now; None where it does."""
    from bftrainer.persistence.registry import TrainerStatus

    if record.status.is_final:
        return f"it is {record.status.value}" + (f" ({record.reason})" if record.reason else "")
    if record.status is TrainerStatus.PAUSED:
        return f"it is paused; `bftrainer resume {record.name}` lets it go on"
    if record.failures and record.not_before_s > datetime.now().timestamp():
        return f"it failed ({record.reason}) and is tried again at {clock_time(record.not_before_s)}"
    return None


def _what_if(found: WhatIf | None, unit: str) -> str:
    from bftrainer.live.explain import quantity

    if found is None:
        return "not possible"
    moved = ", ".join(f"{s.id} {_change(s.before, s.after)}" for s in found.others[:4])
    return f"{found.count}: {quantity(found.change, signed=True)} {unit} for everybody" + (
        f" ({moved})" if moved else ""
    )


def _what_if_dict(found: WhatIf | None) -> dict[str, object] | None:
    if found is None:
        return None
    others = {s.id: {"before": s.before, "after": s.after, "gain": s.gain} for s in found.others}
    return {"nodes": found.count, "change": found.change, "own": found.own, "others": others}


def _change(before: int, after: int) -> str:
    return f"{after}" if before == after else f"{before} -> {after}"


def _nodes(n: int) -> str:
    return f"{n} node" if n == 1 else f"{n} nodes"
