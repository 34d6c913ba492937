"""The journal: every event with its plan, on disk before the plan is carried out; and its
reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, fields
from sqlite3 import Row

from bftrainer import __version__
from bftrainer.decide.core.coordinator import adopt
from bftrainer.decide.domain.events import Event
from bftrainer.decide.domain.problem import Answer
from bftrainer.decide.domain.state import Plan, State
from bftrainer.errors import InvalidValueError
from bftrainer.pilot.persistence import codec
from bftrainer.pilot.persistence.store import Store
from bftrainer.times import HostS

STATE_EVERY = 200
"""Decisions between two snapshots of the state, kept in addition to the last state."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that decisions depend on, as columns of the same names; ``forward_s`` is T_fwd,
    ``max_parallel`` P_jmax (None: all are admitted).
    """

    policy: str
    solver: str
    objective: str
    forward_s: float
    seed: int
    max_parallel: int | None
    gather_s: float = 0.0

    @classmethod
    def of_row(cls, row: Row) -> Settings:
        """The settings of a row of the table ``settings``."""
        return cls(**{field.name: row[field.name] for field in fields(cls)})


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One row: the event, the plan, all answers of solvers, and the seconds that the decision
    took.
    """

    number: int
    settings: Settings
    event: Event
    plan: Plan
    answers: tuple[Answer, ...]
    took_s: float


class JournalWriter:
    """Writes the journal. Each row comes with the state after it, from which a restarted pilot
    resumes.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._settings_number = 0

    def begin(self, settings: Settings, at_s: HostS) -> None:
        """Write the settings with which decisions are made from now on; rows that follow refer to
        them by their number.
        """
        with self._store.writing("settings") as db:
            cursor = db.execute(
                "INSERT INTO settings (at_s, version, policy, solver, objective, forward_s, "
                "seed, max_parallel, gather_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (at_s, __version__, *astuple(settings)),
            )
            assert cursor.lastrowid is not None
            self._settings_number = cursor.lastrowid

    def record(
        self, event: Event, state: State, plan: Plan, answers: tuple[Answer, ...], took_s: float
    ) -> int:
        """Write an event, its plan and the state after it in one commit; return the number of the
        row.

        ``state`` is what the plan was decided on, ``answers`` are those of the solvers, and
        ``took_s`` is how many seconds the decision took. Raises
        :class:`~bftrainer.errors.StoreError`.
        """
        # The policy failed: the solvers were asked again only to find the trainers that cause it.
        if plan.decision.kept:
            answers = ()  # of trials: the decision does not follow from them
        with self._store.writing("decision") as db:
            texts = codec.dumps(event), codec.dumps(plan), codec.dumps(answers)
            cursor = db.execute(
                "INSERT INTO journal (at_s, settings, event, plan, answers, took_s) VALUES (?, "
                "?, ?, ?, ?, ?)",
                (event.at_s, self._settings_number, *texts, took_s),
            )
            assert cursor.lastrowid is not None
            number = cursor.lastrowid
            state_row = number, codec.dumps(adopt(state, plan))
            db.execute("INSERT OR REPLACE INTO last_state VALUES (1, ?, ?)", state_row)
            if number % STATE_EVERY == 0:
                db.execute("INSERT INTO states VALUES (?, ?)", state_row)
        return number


Admit = Callable[[Settings], object]
"""Builds the policy of these settings, so that its memories may be read
(:func:`bftrainer.pilot.persistence.codec.allow`).
"""


def last_state(store: Store) -> State | None:
    """Return the state after the last decision, or None before the first.

    Memories of policies whose classes are not loaded come as
    :class:`~bftrainer.pilot.persistence.codec.Unread`.
    """
    for row in store.read("SELECT state FROM last_state"):
        state: State = codec.loads(row["state"], strict=False, kind=State)
        return state
    return None


def state_before(store: Store, at_s: float, admit: Admit) -> tuple[int, State | None]:
    """Return the latest snapshot of the state from before ``at_s``, as (number of the decision that
    it follows, state); (0, None) where there is none.

    ``admit`` is called with the settings of that decision before the snapshot is read, so that the
    memory of its policy may be read.
    """
    query = (
        "SELECT journal, state, settings FROM states JOIN journal ON number = journal WHERE "
        "at_s < ? "
        "ORDER BY journal DESC LIMIT 1"
    )
    for row in store.read(query, min(at_s, 1e300)):
        admit(_settings_of(_settings_by_number(store), row["settings"]))
        return int(row["journal"]), codec.loads(row["state"], kind=State)
    return 0, None


def entries(store: Store, after: int = 0, admit: Admit | None = None) -> Iterator[JournalEntry]:
    """Yield the rows of the journal with numbers above ``after``, in order; a few of them are read
    at a time.

    ``admit`` is called with the settings of a row before the row is read; then a policy's memory of
    a class that is not admitted raises :class:`~bftrainer.errors.InvalidValueError`. Without
    ``admit`` such a memory is :class:`~bftrainer.pilot.persistence.codec.Unread`.
    """
    strict = admit is not None
    settings = _settings_by_number(store)
    while rows := store.read(
        "SELECT * FROM journal WHERE number > ? ORDER BY number LIMIT 200", after
    ):
        for row in rows:
            if row["settings"] not in settings:
                settings = _settings_by_number(
                    store
                )  # a pilot has written more since they were read
            after = row["number"]
            row_settings = _settings_of(settings, row["settings"])
            if admit is not None:
                admit(row_settings)
            yield JournalEntry(
                number=row["number"],
                settings=row_settings,
                event=codec.loads(row["event"], strict=strict, kind=Event),
                plan=codec.loads(row["plan"], strict=strict, kind=Plan),
                answers=_parsed_answers(codec.loads(row["answers"], strict=strict, kind=tuple)),
                took_s=row["took_s"],
            )


def events(store: Store) -> Iterator[Event]:
    """Yield the events of the journal in order, without their decisions; some of them are read at a
    time.
    """
    after = 0
    while rows := store.read(
        "SELECT number, event FROM journal WHERE number > ? ORDER BY number LIMIT 1000", after
    ):
        for row in rows:
            after = row["number"]
            yield codec.loads(row["event"], strict=False, kind=Event)


def settings_times_s(store: Store) -> tuple[HostS, ...]:
    """Return the times at which pilots began to decide, or to decide with other settings."""
    return tuple(row["at_s"] for row in store.read("SELECT at_s FROM settings ORDER BY at_s"))


def _parsed_answers(values: tuple[object, ...]) -> tuple[Answer, ...]:
    """Return the solvers' answers in a row of the journal, which has read ``values``. Raises
    :class:`InvalidValueError` if one of them is anything else.
    """
    answers = tuple(value for value in values if isinstance(value, Answer))
    if len(answers) < len(values):
        raise InvalidValueError("the journal has a row with answers that no solver gives")
    return answers


def _settings_of(settings: dict[int, Settings], number: int) -> Settings:
    """Return the settings with the number that a row names. Raises :class:`InvalidValueError` if
    there are none.
    """
    if number not in settings:
        raise InvalidValueError(
            f"the journal has a row of settings {number}, which it does not contain"
        )
    return settings[number]


def _settings_by_number(store: Store) -> dict[int, Settings]:
    return {row["number"]: Settings.of_row(row) for row in store.read("SELECT * FROM settings")}
