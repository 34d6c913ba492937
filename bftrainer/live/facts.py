"""One stream of what the pilot writes down: for its log, its metrics, its notices. They hear of nothing that is not on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.domain.events import Event
from bftrainer.domain.state import Plan, State
from bftrainer.persistence.journal import LiveJournal, TimedPolicy
from bftrainer.persistence.registry import Registry, Usage
from bftrainer.persistence.store import Store


class FactKind(Enum):
    """What a fact is about."""

    DECISION = "decision"
    NOTE = "note"
    TRAINER = "trainer"
    USAGE = "usage"
    FRAGMENT = "fragment"


@dataclass(frozen=True, slots=True)
class Fact:
    """``subject`` is a trainer's or fragment's name, or what the note is about. ``fields`` by kind:

    decision: event, state, plan, took_s. note: kind, text. trainer: the columns that changed (``status`` a TrainerStatus).
    usage: usage. fragment: one of asked, taken, asked_back, released (seconds since 1970), and reason.
    """

    at_s: float
    kind: FactKind
    subject: str
    fields: Mapping[str, object] = field(default_factory=dict)


Listener = Callable[[Fact], None]


class TellingRegistry(Registry):
    """A registry that tells of each change once it is committed. Changes of trainers have no time: ``now_s`` gives it."""

    def __init__(self, store: Store, now_s: Callable[[], float], listeners: list[Listener]) -> None:
        super().__init__(store)
        self._now_s = now_s
        self._listeners = listeners

    def add(self, spec: TrainerSpec, owner: str, spool_name: str, at_s: float) -> bool:
        """Tells of a new trainer; of one that was there, again."""
        added = super().add(spec, owner, spool_name, at_s)
        if added:
            self._tell(Fact(at_s, FactKind.TRAINER, spec.name, {"status": self.trainer(spec.name).status, "new": True}))
        return added

    def change(self, name: str, **columns: object) -> None:
        """Tells of the columns."""
        super().change(name, **columns)
        self._tell(Fact(self._now_s(), FactKind.TRAINER, name, columns))

    def add_usage(self, usage: tuple[Usage, ...], beat_s: float) -> None:
        """Tells of each trainer's."""
        super().add_usage(usage, beat_s)
        for one in usage:
            self._tell(Fact(beat_s, FactKind.USAGE, one.name, {"usage": one}))

    def fragment_asked(self, name: str, node: str, at_s: float) -> None:
        """Tells of it."""
        super().fragment_asked(name, node, at_s)
        self._tell(Fact(at_s, FactKind.FRAGMENT, name, {"asked": at_s}))

    def fragment_taken(self, name: str, at_s: float) -> None:
        """Tells of it."""
        super().fragment_taken(name, at_s)
        self._tell(Fact(at_s, FactKind.FRAGMENT, name, {"taken": at_s}))

    def fragment_asked_back(self, name: str, at_s: float, reason: str) -> None:
        """Tells of it."""
        super().fragment_asked_back(name, at_s, reason)
        self._tell(Fact(at_s, FactKind.FRAGMENT, name, {"asked_back": at_s, "reason": reason}))

    def fragment_released(self, name: str, at_s: float, reason: str) -> None:
        """Tells of it."""
        super().fragment_released(name, at_s, reason)
        self._tell(Fact(at_s, FactKind.FRAGMENT, name, {"released": at_s, "reason": reason}))

    def note(self, at_s: float, kind: str, subject: str, text: str) -> None:
        """Tells of it."""
        super().note(at_s, kind, subject, text)
        self._tell(Fact(at_s, FactKind.NOTE, subject, {"kind": kind, "text": text}))

    def _tell(self, fact: Fact) -> None:
        for listener in self._listeners:
            listener(fact)


class TellingJournal:
    """Port Journal: tells of each decision once it is on disk."""

    def __init__(self, journal: LiveJournal, policy: TimedPolicy, listeners: list[Listener]) -> None:
        self._journal = journal
        self._policy = policy
        self._listeners = listeners

    def record(self, event: Event, state: State, plan: Plan) -> None:
        """Record, then tell."""
        self._journal.record(event, state, plan)
        fields = {"event": event, "state": state, "plan": plan, "took_s": self._policy.took_s}
        for listener in self._listeners:
            listener(Fact(event.at_s, FactKind.DECISION, "", fields))
