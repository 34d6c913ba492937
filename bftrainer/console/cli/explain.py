"""``bftrainer explain``: why a trainer has its number of nodes, now or at a past time."""

from __future__ import annotations

import math
import time
from datetime import date, datetime
from datetime import time as clock
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from bftrainer.console.cli.output import json_option, say, show_json
from bftrainer.console.cli.state import state_option
from bftrainer.console.cli.tables import hanging_indent, show_facts
from bftrainer.console.cli.trainer_names import TrainerName
from bftrainer.console.client.state_dir import opened_registry, pilot_has_ended, read
from bftrainer.errors import UserError

if TYPE_CHECKING:
    from bftrainer.pilot.explain import Explanation


@click.command()
@click.argument("trainer", type=TrainerName(), metavar="[NAME]", required=False)
@click.option(
    "--at",
    metavar="TIME",
    help="A past time: 14:05, 2026-03-01T14:05 (local time), or epoch seconds.",
)
@click.option(
    "--user", help="Explain a user's nodes beside other users' instead, as squeue shows them now."
)
@state_option
@json_option
def explain(
    trainer: str | None, at: str | None, user: str | None, state: Path, as_json: bool
) -> None:
    """Explain why a training has the number of nodes it has; with --user, why a user has.

    Using the journal, the command shows what the training's nodes are worth, what changing their
    number costs, how the next larger or smaller number would affect all trainings, and which
    trainings outbid this one. The pilot need not be running.

    \b
    Example:
      bftrainer explain digits
      bftrainer explain digits --at 14:05
      bftrainer explain --user ann
    """
    if (trainer is None) == (user is None) or (user is not None and at is not None):
        raise UserError("expected the NAME of a training, or --user without --at")
    if trainer is None:
        _explain_user(str(user), state, as_json)
        return
    from bftrainer.console.cli.explanation import as_dict, rows

    facts = _explained(state, trainer, None if at is None else _parse_time(at))
    explanation = facts.explanation
    if as_json:
        if explanation is None:
            row: dict[str, object] = {"trainer": trainer, "status": facts.status, "nodes": 0}
            show_json([row | {"why": facts.idle_reason}])
        else:
            show_json([as_dict(explanation, has_ended=facts.has_ended)])
        return
    say(hanging_indent("", facts.sentence(trainer)))
    if explanation is not None:
        show_facts(rows(explanation))


class _Explained(NamedTuple):
    """Why a trainer has its nodes: the explanation of a decision, or without one, why the trainer
    takes no part in decisions. ``has_ended``: the pilot, so that no trainer has nodes now.
    """

    status: str
    idle_reason: str | None
    explanation: Explanation | None
    has_ended: bool

    def sentence(self, trainer: str) -> str:
        """Return the answer in one sentence; after the pilot's end, there is a second one."""
        from bftrainer.console.cli.explanation import headline

        if self.explanation is None:
            return f"{trainer} has no nodes: {self.idle_reason}"
        return headline(self.explanation, has_ended=self.has_ended)


def _explained(state: Path, trainer: str, at_s: float | None) -> _Explained:
    """Explain a trainer's nodes at a time; None is now. Raises ``UserError`` if there was no
    decision by then.
    """
    from bftrainer.console.cli.explanation import idle_reason
    from bftrainer.pilot import explain as live

    now_s = time.time()
    with opened_registry(state) as registry:
        record = registry.trainer(trainer)
        reason = idle_reason(record, now_s) if at_s is None else None
        # The journal may name modules; those of the configuration are imported by the pilot too.
        decisions = read(state, None).decisions
        may_import = (decisions.policy.partition("?")[0], decisions.objective or "")
        explanation = None
        if reason is None:
            limit_s = math.inf if at_s is None else at_s
            explanation = live.explain(registry.store, trainer, limit_s, may_import)
        has_ended = at_s is None and pilot_has_ended(registry.store, now_s)
    return _Explained(record.status.value, reason, explanation, has_ended)


def first_sentence(state: Path, trainer: str) -> str:
    """Return why a trainer has its nodes now, in one sentence. Raises ``UserError`` before the
    first decision on it.
    """
    return _explained(state, trainer, None).sentence(trainer)


def _explain_user(user: str, state: Path, as_json: bool) -> None:
    """Print why a user holds its number of nodes, as squeue shows them now."""
    from bftrainer.console.cli.users import share_reason, shares_now

    reason = share_reason(shares_now(state), user)
    if as_json:
        show_json([{"user": user, "why": reason}])
    else:
        say(hanging_indent("", reason))


def _parse_time(text: str) -> float:
    """Convert the value of ``--at`` to seconds since 1970.

    It is such seconds, a date with a time, or a time of today. Raises ``UserError`` for any other
    text.
    """
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
            f"--at {text}: not a time, expected 14:05, 2026-03-01T14:05 (local time), or "
            "seconds since 1970"
        ) from None
