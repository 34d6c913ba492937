"""``bftrainer logs``, ``events`` and ``nodes``: what has happened, as workers, journal and audit have it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bftrainer.cli.state import clock_time, json_option, opened_registry, show_json, show_rows, state_option
from bftrainer.errors import UserError

if TYPE_CHECKING:
    from bftrainer.domain.events import Event
    from bftrainer.domain.state import Plan
    from bftrainer.persistence.registry import FragmentRecord


@click.command()
@click.argument("trainer", metavar="NAME")
@click.option("-f", "--follow", is_flag=True, help="Go on as it grows, until the trainer has ended.")
@click.option(
    "-n", "--lines", default=20, show_default=True, type=click.IntRange(min=0), metavar="N", help="The last N of each."
)
@state_option
def logs(trainer: str, follow: bool, lines: int, state: Path) -> None:
    """Print what a trainer's workers have written, latest incarnation.

    \b
    Example:
      bftrainer logs digits
      bftrainer logs -f digits
    """
    from bftrainer.persistence.spool import open_state_dir
    from bftrainer.protocol.paths import TrainerDirectory

    folder = open_state_dir(state)
    _await_pilot(folder, trainer, follow)
    directory = TrainerDirectory.of(folder, trainer)
    offsets: dict[Path, int] = {}
    first = True
    while True:
        with opened_registry(folder) as registry:
            ended = registry.trainer(trainer).finished_s is not None
        found = directory.latest_logs()
        if not found and first:
            _nothing_yet(f"trainer {trainer!r} has not written anything yet", follow and not ended)
        for path in found:
            _print_new(path, offsets, lines if first else None, named=len(found) > 1)
        if not follow or ended:
            return
        first = False
        time.sleep(0.5)


def _await_pilot(folder: Path, trainer: str, follow: bool) -> None:
    """A trainer that is handed in and no more has no log yet: with ``follow`` wait for a pilot to take it."""
    from bftrainer.persistence.spool import RequestKind, Spool

    def is_handed_in() -> bool:
        requests = (found.request for found in Spool(folder).pending())
        return any(r is not None and r.kind is RequestKind.SUBMIT and r.trainer == trainer for r in requests)

    if is_handed_in():
        _nothing_yet(f"trainer {trainer!r} is handed in, and no pilot has read it yet (bftrainer pilot)", follow)
        while is_handed_in():
            time.sleep(0.5)


def _nothing_yet(text: str, follow: bool) -> None:
    """A mistake of whoever wants to see something now; a word to whoever waits."""
    if not follow:
        raise UserError(text)
    click.echo(f"note: {text}; waiting", err=True)


@click.command()
@click.option(
    "-n", "--last", default=20, show_default=True, type=click.IntRange(min=1), metavar="N", help="The latest N."
)
@state_option
@json_option
def events(last: int, state: Path, as_json: bool) -> None:
    """Show the latest decisions, what they answered, and other notes of the pilot.

    \b
    Example:
      bftrainer events -n 50
    """
    from bftrainer.persistence.journal import entries

    with opened_registry(state) as registry:
        newest = registry.store.read("SELECT coalesce(max(number), 0) AS n FROM journal")[0]["n"]
        decisions = list(entries(registry.store, after=max(newest - last, 0)))
        notes = registry.notes(last)
    rows: list[tuple[float, str, str]] = [
        (e.event.at_s, "decision", described(e.event, e.plan, e.took_s)) for e in decisions
    ]
    rows += [(n.at_s, n.kind, f"{n.subject}: {n.text}" if n.subject else n.text) for n in notes]
    rows = sorted(rows, key=lambda row: row[0])[-last:]
    if as_json:
        show_json([{"time": at_s, "kind": kind, "text": text} for at_s, kind, text in rows])
        return
    show_rows(("time", "", ""), [(clock_time(at_s), kind, text) for at_s, kind, text in rows])


@click.command()
@click.option("--all", "everything", is_flag=True, help="Those that were given back too.")
@state_option
@json_option
def nodes(everything: bool, state: Path, as_json: bool) -> None:
    """Show the nodes that are held: since when, by which trainer; with --all, when each was asked back and released.

    \b
    Example:
      bftrainer nodes --all
    """
    from bftrainer.persistence.journal import last_state

    with opened_registry(state) as registry:
        fragments = registry.fragments(open_only=not everything)
        found = last_state(registry.store)
    users = {} if found is None else {n: a.trainer.id for a in found.active for n in a.nodes}
    if as_json:
        show_json([_fragment(f, users.get(f.name)) for f in fragments])
        return
    rows = [
        (
            f.name, users.get(f.name, "-") if f.released_s is None else "", clock_time(f.taken_s),
            clock_time(f.asked_back_s), clock_time(f.released_s), took(f), f.reason,
        )
        for f in fragments
    ]  # fmt: skip
    show_rows(("fragment", "trainer", "taken", "asked back", "released", "took, s", "why"), rows, right=("took, s",))


def described(event: Event, plan: Plan, took_s: float) -> str:
    """A decision in one line: what happened, who has how many nodes now, and by whom."""
    from bftrainer.domain.events import ParallelChanged, PoolChanged, TimerDue, TrainerFinished, TrainerSubmitted

    what = []
    for change in event.changes:
        match change:
            case PoolChanged(joined, left):
                what += [f"+{len(joined)} nodes"] * bool(joined) + [f"-{len(left)} nodes"] * bool(left)
            case TrainerSubmitted(trainer):
                what.append(f"{trainer.id} comes")
            case TrainerFinished(name):
                what.append(f"{name} goes")
            case ParallelChanged(number):
                what.append(f"{number} at once")
            case TimerDue():
                what.append("timer")
    counts = " ".join(map(str, plan.decision.counts)) or "nobody there"
    answer = plan.decision.answer
    by = "" if answer is None else f" ({answer.solver}, {1e3 * took_s:.0f} ms)"
    return f"{', '.join(what)} -> {counts}{by}"


def took(fragment: FragmentRecord) -> str:
    """From asked back to released."""
    if fragment.asked_back_s is None or fragment.released_s is None:
        return ""
    return f"{fragment.released_s - fragment.asked_back_s:.2f}"


def _fragment(f: FragmentRecord, user: str | None) -> dict[str, object]:
    return {
        "fragment": f.name, "node": f.node, "trainer": user if f.released_s is None else None, "asked_s": f.asked_s,
        "taken_s": f.taken_s, "asked_back_s": f.asked_back_s, "released_s": f.released_s, "reason": f.reason,
    }  # fmt: skip


def _print_new(path: Path, offsets: dict[Path, int], tail: int | None, *, named: bool) -> None:
    with path.open("rb") as file:
        size = path.stat().st_size
        begin = offsets.get(path, 0)
        file.seek(begin if begin <= size else 0)
        data = file.read()
        offsets[path] = file.tell()
    text = data.decode(errors="replace").splitlines()
    if tail is not None:
        text = text[-tail:] if tail else []
    for line in text:
        click.echo(f"{path.stem}: {line}" if named else line)
