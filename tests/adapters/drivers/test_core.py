"""The core of all drivers: one table of cases for six launchers."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bftrainer.wires.driver_events import Hung, Running, Withheld
from bftrainer.wires.hosts_file import HostSlots
from bftrainer.wires.progress_line import Phase, ProgressLine
from bftrainer.wires.reports import Ending
from bftrainer_drivers.common.core import (
    AskWorkersToStop,
    Begin,
    DriverStep,
    EndNow,
    Excused,
    GroupFormed,
    GroupOver,
    HostsListed,
    Joined,
    KillGroup,
    News,
    Report,
    Reported,
    Retry,
    RunState,
    StopRequested,
    TaskFinished,
    Terms,
    TimePassed,
    WaitingEnded,
    Warmed,
    WorkerEnded,
    advance,
)
from bftrainer_drivers.common.legal_sizes import LegalSizes
from bftrainer_drivers.common.membership import Announce, Drop, Member, StartWarming
from bftrainer_drivers.common.outcome import DriverOutcome, Exit

A, B, C = (HostSlots(node, 1, fragment) for node, fragment in zip("abc", "123", strict=True))
LOG = Path("worker.log")
ELASTIC = Terms(True, LegalSizes(1), stop_s=30, hang_s=60)
HOROVOD = Terms(True, LegalSizes(1), stop_s=30, hang_s=60, needs_confirmation=True)
TORCHFT = Terms(True, LegalSizes(2), stop_s=30, hang_s=60)
TORCHRUN = Terms(False, LegalSizes(1), stop_s=30, hang_s=60)
RESTART = Terms(False, LegalSizes(1), stop_s=30, hang_s=60, is_collective=False, stop_signal=10)

POOL = Terms(
    True, LegalSizes(1), stop_s=30, hang_s=math.inf, is_collective=False, is_independent=True
)


class Told:
    """A driver that is told things; ``steps`` are those after the last one."""

    def __init__(self, terms: Terms) -> None:
        self.state = RunState.initial(terms)
        self.steps: list[DriverStep] = []
        self.now_s = 0.0

    def hear(self, *news: News, at_s: float | None = None) -> list[DriverStep]:
        self.now_s = self.now_s if at_s is None else at_s
        self.steps = []
        for each in news:
            self.state, steps = advance(self.state, each, self.now_s)
            self.steps += steps
        return self.steps

    def of(self, kind: type) -> list[object]:
        return [step for step in self.steps if isinstance(step, kind)]

    def reports(self, kind: type) -> list[object]:
        return [
            step.event
            for step in self.steps
            if isinstance(step, Report) and isinstance(step.event, kind)
        ]

    def member(self, host: HostSlots) -> Member:
        membership = self.state.membership
        known = (*membership.group, *membership.announced, *membership.warm, *membership.warming)
        return next(member for member in known if member.host == host)

    def ended(
        self, host: HostSlots, status: int, error: str = "", *, planned: bool = False
    ) -> list[DriverStep]:
        return self.hear(
            WorkerEnded(self.member(host), Exit(status, planned, LOG, error, host.node))
        )


def training(terms: Terms, *hosts: HostSlots) -> Told:
    """A driver whose group trains on these hosts."""
    told = Told(terms)
    told.hear(HostsListed(hosts))
    if terms.is_elastic:
        told.hear(
            *(
                Warmed(step.member, is_cold=True)
                for step in told.steps
                if isinstance(step, StartWarming)
            )
        )
        told.hear(TimePassed())
    told.hear(*(Joined(told.member(host), LOG) for host in hosts))
    if terms.is_elastic:
        told.hear(GroupFormed(tuple(told.member(host).label for host in hosts)))
    told.hear(Reported(ProgressLine(0.0, Phase.RUNNING, 1, len(hosts), 1, 32.0)))
    return told


ALL = pytest.mark.parametrize(
    "terms",
    [HOROVOD, TORCHFT, TORCHRUN, RESTART, ELASTIC, POOL],
    ids=["horovod", "torchft", "torchrun", "restart", "stock", "pool"],
)


@ALL
def test_the_group_is_reported_once(terms: Terms) -> None:
    told = Told(terms)
    told.hear(HostsListed((A, B)))
    if terms.is_elastic:
        assert told.of(StartWarming)
        told = training(terms, A, B)
        assert told.reports(Running) == (
            [Running(2, ("1", "2"))] if terms.needs_confirmation else []
        )
    else:
        assert told.of(Begin)
        assert told.reports(Running) == [Running(2, ("1", "2"))]
    told = training(terms, A, B)
    assert told.hear(HostsListed((A, B)), TimePassed()) == []


@ALL
def test_a_stop_request_asks_once_and_ends_when_all_have_left(terms: Terms) -> None:
    told = training(terms, A, B)
    assert told.hear(StopRequested(), StopRequested()) == [AskWorkersToStop("stop requested")]
    told.hear(Reported(ProgressLine(0.0, Phase.CHECKPOINTED, 1, 2, 2, 64.0)))
    for host in (A, B):
        told.ended(host, 83)
        assert told.state.outcome is None
    assert told.hear(GroupOver()) == []
    assert told.state.outcome == DriverOutcome(Ending.STOPPED, "stop requested")
    assert told.state.checkpointed


@ALL
def test_who_does_not_leave_within_stop_s_is_killed(terms: Terms) -> None:
    told = training(terms, A, B)
    told.hear(StopRequested())
    assert told.hear(TimePassed(), at_s=29.9) == []
    told.hear(TimePassed(), at_s=30.0)
    assert told.state.outcome == DriverOutcome(
        Ending.STOPPED, "stop requested; it did not leave, and was killed after 30 s (stop_s)"
    )
    assert not told.state.checkpointed


@ALL
def test_a_silence_of_hang_s_fails_the_trainer(terms: Terms) -> None:
    if terms is POOL:
        return  # a task may take as long as it likes
    told = training(terms, A, B)
    told.hear(TimePassed(), Reported(ProgressLine(0.0, Phase.BUSY, 1)), at_s=50.0)
    told.hear(TimePassed(), at_s=149.0)
    assert told.state.outcome is None, "a silence of 50 s has ended well: 99 s are no hang"
    told.hear(TimePassed(), at_s=150.0)
    assert told.state.outcome == DriverOutcome(
        Ending.FAILED, "hung: no report for 100 s (hang_s)", 1, LOG
    )
    assert len(told.reports(Hung)) == 2


@ALL
def test_a_start_without_a_step_is_bounded_by_first_step_s(terms: Terms) -> None:
    if terms is POOL:
        return
    told = Told(replace(terms, first_step_s=900))
    told.hear(HostsListed((A, B)), at_s=100.0)
    told.hear(*(Warmed(step.member) for step in told.of(StartWarming)), TimePassed())  # type: ignore[attr-defined]
    told.hear(*(Joined(told.member(host), LOG) for host in (A, B)))
    told.hear(TimePassed(), at_s=999.0)
    assert told.state.outcome is None
    told.hear(TimePassed(), at_s=1000.0)
    assert told.state.outcome == DriverOutcome(
        Ending.FAILED, "no step within 900 s of its start (first_step_s)", 1, LOG
    )
    assert [event.silent_s for event in told.reports(Hung)] == [900.0] * 2  # type: ignore[attr-defined]


@ALL
def test_a_sign_of_life_is_enough_for_a_start(terms: Terms) -> None:
    told = training(replace(terms, first_step_s=9), A, B)
    told.hear(TimePassed(), at_s=40.0)
    assert told.state.outcome is None


@ALL
def test_too_few_nodes_end_the_driver(terms: Terms) -> None:
    told = Told(terms)
    told.hear(HostsListed((A,) if terms.sizes.smallest > 1 else ()))
    assert told.state.outcome.ending is Ending.STOPPED
    assert re.search(
        rf"nodes?, but min_nodes is {terms.sizes.smallest}$", told.state.outcome.reason
    )


@ALL
def test_no_node_left_asks_for_a_checkpoint(terms: Terms) -> None:
    told = training(terms, A, B)
    told.hear(HostsListed(()))
    assert len(told.of(AskWorkersToStop)) == 1
    assert told.state.leaving.is_final
    assert told.hear(HostsListed((A, B)), TimePassed()) == []


@ALL
def test_a_command_that_cannot_start_fails(terms: Terms) -> None:
    told = training(terms, A, B)
    told.ended(A, 127)
    assert (
        told.state.outcome.reason == "the command cannot be started: a worker ended with status 127"
    )


@ALL
def test_sigterm_ends_the_driver_at_once(terms: Terms) -> None:
    told = training(terms, A, B)
    over = DriverOutcome(Ending.STOPPED, "the driver received SIGTERM")
    assert told.hear(EndNow(over), StopRequested(), HostsListed(())) == []
    assert told.state.outcome == over


@pytest.mark.parametrize("terms", [HOROVOD, TORCHFT, ELASTIC])
def test_a_lost_worker_costs_an_elastic_group_its_node(terms: Terms) -> None:
    told = training(terms, A, B, C)
    lost = told.member(B)
    steps = told.ended(B, -9)
    assert Drop(lost) in steps
    assert [step.members for step in steps if isinstance(step, Announce)] == [
        (told.member(A), told.member(C))
    ]
    assert told.reports(Withheld) == [Withheld("b", "2", "a worker ended by SIGKILL")]
    told.hear(GroupFormed((told.member(A).label, told.member(C).label)))
    told.hear(
        Reported(ProgressLine(0.0, Phase.RUNNING, 1, 2, 9, 9.0))
    ) if terms.needs_confirmation else None
    assert told.reports(Running) == [Running(2, ("1", "3"))]


@pytest.mark.parametrize("terms", [HOROVOD, ELASTIC])
def test_a_dismissed_member_holds_back_the_report_until_it_has_ended(terms: Terms) -> None:
    told = training(terms, A, B)
    gone = told.member(B)
    told.hear(HostsListed((A,)))
    told.hear(
        GroupFormed((told.member(A).label,)),
        Reported(ProgressLine(0.0, Phase.RUNNING, 1, 1, 9, 9.0)),
    )
    assert told.reports(Running) == []
    told.hear(
        WorkerEnded(gone, Exit(-9, True, LOG)),
        Reported(ProgressLine(0.0, Phase.RUNNING, 1, 1, 9, 9.0)),
    )
    assert told.reports(Running) == [Running(1, ("1",))]


@pytest.mark.parametrize("terms", [TORCHRUN, RESTART])
def test_other_nodes_are_prepared_then_the_group_leaves_and_the_next_begins(terms: Terms) -> None:
    told = training(terms, A, B)
    told.hear(HostsListed((A, C)))
    ahead = [step.member for step in told.steps if isinstance(step, StartWarming)]
    assert [member.host for member in ahead] == [A, C], "each change needs new workers"
    told.hear(Warmed(ahead[0]), TimePassed())
    assert told.of(AskWorkersToStop) == []
    told.hear(Warmed(ahead[1]), TimePassed())
    assert told.of(AskWorkersToStop) == [AskWorkersToStop("other nodes")]
    for host in (A, B):
        told.ended(host, 83)
    told.hear(GroupOver())
    assert told.of(Begin) == [Begin(tuple(ahead))]
    assert told.reports(Running) == [Running(2, ("1", "3"))]
    assert told.state.outcome is None


@pytest.mark.parametrize("terms", [TORCHRUN, RESTART])
def test_a_script_that_completes_while_it_is_asked_to_stop_is_done(terms: Terms) -> None:
    for samples, ending in ((80_000, Ending.DONE), (79_200, Ending.STOPPED)):
        told = training(replace(terms, samples=80_000.0), A, B)
        told.hear(StopRequested())
        told.hear(Reported(ProgressLine(0.0, Phase.RUNNING, 1, 2, 9, samples)))
        for host in (A, B):
            told.ended(host, 0)
        told.hear(GroupOver())
        assert told.state.outcome.ending is ending


@pytest.mark.parametrize("terms", [TORCHRUN, RESTART])
def test_a_change_that_is_taken_back_drops_what_was_prepared(terms: Terms) -> None:
    told = training(terms, A, B)
    told.hear(HostsListed((A, C)))
    told.hear(HostsListed((A, B)))
    assert [step.member.host for step in told.steps if isinstance(step, Drop)] == [A, C]
    assert told.hear(TimePassed(), at_s=20.0) == []


@pytest.mark.parametrize("terms", [TORCHRUN, RESTART])
def test_the_peers_of_a_dead_worker_are_killed_and_the_rest_begins_again(terms: Terms) -> None:
    told = training(terms, A, B)
    told.ended(B, -9)
    assert told.reports(Withheld) == [Withheld("b", "2", "a worker ended by SIGKILL")]
    assert KillGroup() in told.hear(TimePassed(), at_s=2.1)
    told.ended(A, -9, planned=True)
    told.hear(GroupOver())
    (begin,) = told.of(Begin)
    assert [member.host for member in begin.members] == [A]


def test_workers_that_need_no_peers_may_save_after_one_has_crashed() -> None:
    for terms, killed in ((TORCHRUN, True), (RESTART, False)):
        told = training(terms, A, B)
        told.ended(B, 3)
        told.hear(StopRequested())
        told.hear(TimePassed(), at_s=2.1)
        assert (KillGroup() in told.steps) is killed


def test_a_waiting_worker_that_is_killed_costs_its_node_and_one_that_fails_starts_cold() -> None:
    for status, withheld in ((-9, [Withheld("c", "3", "a worker ended by SIGKILL")]), (1, [])):
        told = training(TORCHRUN, A, B)
        told.hear(HostsListed((A, B, C)))
        ahead = told.member(C)
        told.hear(WaitingEnded(ahead, Exit(status, False, LOG)))
        assert told.reports(Withheld) == withheld


def test_three_groups_in_succession_that_the_script_ends_fail_the_trainer() -> None:
    told = training(HOROVOD, A, B, C)
    for host in (A, B, C):
        told.ended(host, 1, "ValueError: boom")
        if told.state.outcome is None:
            told.hear(
                GroupFormed(tuple(member.label for member in told.state.membership.announced))
            )
    assert told.state.outcome.reason.startswith("workers of 3 groups in succession failed")


def test_a_node_that_joins_or_leaves_a_pool_concerns_no_other() -> None:
    told = training(POOL, A, B)
    told.hear(HostsListed((C,)), TimePassed())
    assert [step.member.host for step in told.steps if isinstance(step, StartWarming)] == [C]
    assert told.of(AskWorkersToStop) == []
    told.hear(Warmed(told.member(C), is_cold=True), TimePassed())
    assert [
        [m.host for m in step.members] for step in told.steps if isinstance(step, Announce)
    ] == [[C]]
    gone = [told.member(A), told.member(B)]
    told.hear(GroupFormed((told.member(C).label,)))
    assert told.reports(Running) == [], "workers that were asked to stop may still run"
    told.hear(*(WorkerEnded(member, Exit(83, True, LOG)) for member in gone))
    assert told.reports(Running) == [Running(1, ("3",))]
    assert told.state.outcome is None


@pytest.mark.parametrize("status", [1, -11, -9])
def test_a_worker_of_a_pool_that_fails_starts_again_after_a_pause_that_doubles(status: int) -> None:
    told = training(POOL, A)
    failing = told.member(A)
    for pause_s in (1.0, 2.0):
        told.ended(A, status)
        assert told.hear(TimePassed(), at_s=told.now_s + pause_s - 0.1) == []
        assert told.hear(TimePassed(), at_s=told.now_s + 0.1) == [Retry(failing, 0)]
        assert told.hear(TimePassed()) == []


def test_no_worker_of_a_pool_starts_again_that_hears_of_a_stop_before_its_driver() -> None:
    told = training(POOL, A, B)
    told.ended(A, 83)
    assert told.state.retries.restart_s
    told.hear(StopRequested())
    assert not told.state.retries.restart_s
    assert told.of(Retry) == []


@pytest.mark.parametrize(
    ("status", "finishes", "fails"), [(1, False, True), (1, True, False), (-9, False, False)]
)
def test_three_failures_without_a_finished_task_fail_a_pool(
    status: int, finishes: bool, fails: bool
) -> None:
    told = training(POOL, A)
    for _ in range(3):
        told.hear(*([TaskFinished(told.member(A))] if finishes else []))
        told.ended(A, status, "ValueError: boom")
        told.hear(TimePassed(), at_s=told.now_s + 60)
    assert (told.state.outcome is not None) is fails
    if told.state.outcome is not None:
        assert told.state.outcome.reason == (
            "3 workers in succession failed, and no task was finished; the last one ended with "
            "status 1: ValueError: boom"
        )


def test_a_node_on_which_workers_keep_failing_is_withheld_while_others_are_left() -> None:
    told = training(POOL, A, B)
    for _ in range(2):
        told.ended(A, 1)
        told.hear(TaskFinished(told.member(B)))
        withheld = told.reports(Withheld)
        told.hear(TimePassed(), at_s=told.now_s + 60)
    assert told.state.membership.withheld == {"1"}
    assert withheld == []
    assert told.state.outcome is None


def test_a_pool_is_done_when_no_slot_has_work_left() -> None:
    told = training(POOL, A, B)
    told.ended(A, 1)
    told.hear(TimePassed(), at_s=2.0)
    told.ended(B, 0)
    assert told.hear(TimePassed(), at_s=3.0) == []
    assert told.state.outcome is None
    told.ended(A, 0)
    told.hear(GroupOver())
    assert told.state.outcome == DriverOutcome(Ending.DONE)


HEARD = st.lists(
    st.tuples(
        st.sampled_from(["hosts", "stop", "warm", "join", "end", "form", "over", "line", "time"]),
        st.integers(0, 7),
    )
)


@ALL
@given(story=HEARD)
def test_the_core_changes_no_state_and_says_nothing_after_the_end(
    terms: Terms, story: Sequence[tuple[str, int]]
) -> None:
    told = Told(terms)
    for now_s, (what, number) in enumerate(story):
        membership = told.state.membership
        known = [*membership.group, *membership.announced, *membership.warm, *membership.warming]
        member = known[number % len(known)] if known else Member("x", A)
        news: News = {
            "hosts": HostsListed(
                tuple(host for bit, host in enumerate((A, B, C)) if number >> bit & 1)
            ),
            "stop": StopRequested(),
            "warm": Warmed(member),
            "join": Joined(member, LOG),
            "end": WorkerEnded(
                member, Exit((0, 1, 83, -9, -6, 127, 137, 83)[number], number > 5, LOG)
            ),
            "form": GroupFormed(tuple(each.label for each in membership.announced)),
            "over": GroupOver(),
            "line": Reported(ProgressLine(0.0, list(Phase)[number % 4], 1, number, 1, 1.0)),
            "time": TimePassed(),
        }[what]
        before, was_over = copy.deepcopy(told.state), told.state.outcome is not None
        state = told.state
        told.hear(news, at_s=float(now_s * (1 + 20 * (number == 7))))
        assert state == before, "a state is a value"
        if was_over:
            assert told.steps == []
            assert told.state.outcome == before.outcome
        withheld = told.state.membership.withheld
        for step in told.steps:
            if isinstance(step, Begin | Announce):
                assert not {each.host.fragment for each in step.members} & withheld


@pytest.mark.parametrize(
    ("met_stranger", "has_stepped", "fails"),
    [(True, False, False), (True, True, True), (False, False, True)],
)
def test_a_group_that_a_stranger_breaks_while_it_connects_begins_again(
    met_stranger: bool, has_stepped: bool, fails: bool
) -> None:
    told = training(TORCHRUN, A, B) if has_stepped else Told(TORCHRUN)
    if not has_stepped:
        told.hear(HostsListed((A, B)))
        told.hear(*(Joined(told.member(host), LOG) for host in (A, B)))
    for host in (A, B):
        error = "RuntimeError: Connection closed by peer [127.0.0.1]:4711"
        end = Exit(1, False, LOG, error, host.node, met_stranger=met_stranger)
        told.hear(WorkerEnded(told.member(host), end))
    told.hear(GroupOver())
    assert (told.state.outcome is not None) is fails
    assert bool(told.of(Begin)) is not fails


TWO_OR_FOUR = LegalSizes(1, 4, (2, 4))
GROUPS = pytest.mark.parametrize(
    "terms",
    [replace(terms, sizes=TWO_OR_FOUR) for terms in (HOROVOD, TORCHFT, TORCHRUN, RESTART, ELASTIC)],
    ids=["horovod", "torchft", "torchrun", "restart", "stock"],
)
D = HostSlots("d", 1, "4")


def uses(told: Told) -> list[list[HostSlots]]:
    """The hosts of the groups that the last steps begin or allow."""
    groups = [step.members for step in told.steps if isinstance(step, Begin | Announce)]
    return [[member.host for member in members] for members in groups]


@GROUPS
def test_a_loss_leaves_the_largest_legal_size(terms: Terms) -> None:
    told = training(terms, A, B, C, D)
    told.ended(D, -9)
    if not terms.is_elastic:
        assert KillGroup() in told.hear(TimePassed(), at_s=2.1)
        for host in (A, B, C):
            told.ended(host, -9, planned=True)
        told.hear(GroupOver())
    assert uses(told) == [[A, B]]
    assert told.state.leaving is None
    assert told.hear(TimePassed()) == []


@GROUPS
def test_hosts_beyond_a_legal_size_wait_until_it_is_the_next_one(terms: Terms) -> None:
    told = training(terms, A, B)
    assert told.hear(HostsListed((A, B, C)), TimePassed()) == []
    told.hear(HostsListed((A, B, C, D)))
    joining = [step.member for step in told.steps if isinstance(step, StartWarming)]
    assert [member.host for member in joining] == ([C, D] if terms.is_elastic else [A, B, C, D])
    told.hear(*(Warmed(member) for member in joining[:-1]), TimePassed())
    patience_s = told.state.membership.straggler_s
    told.hear(TimePassed(), at_s=patience_s - 1)
    assert uses(told) == []
    assert told.of(AskWorkersToStop) == []
    told.hear(Warmed(joining[-1]), TimePassed())
    if terms.is_elastic:
        assert uses(told) == [[A, B, C, D]]
    else:
        assert told.of(AskWorkersToStop) == [AskWorkersToStop("other nodes")]


@pytest.mark.parametrize("terms", [HOROVOD, TORCHFT, ELASTIC], ids=["horovod", "torchft", "stock"])
def test_a_straggler_does_not_make_a_group_of_another_size(terms: Terms) -> None:
    told = training(replace(terms, sizes=TWO_OR_FOUR), A, B)
    told.hear(HostsListed((A, B, C, D)))
    c, d = (step.member for step in told.steps if isinstance(step, StartWarming))
    told.hear(Warmed(c), TimePassed())
    told.hear(TimePassed(), at_s=50.0)
    assert uses(told) == []
    told.hear(Warmed(d), TimePassed())
    assert uses(told) == [[A, B, C, D]]


@GROUPS
def test_without_a_legal_size_the_group_saves_and_ends(terms: Terms) -> None:
    told = training(terms, A, B)
    told.ended(B, -9)
    told.hear(TimePassed())
    if terms.is_elastic:
        assert told.of(AskWorkersToStop) == [AskWorkersToStop("1 node, but sizes is [2, 4]")]
        told.hear(GroupFormed((told.member(A).label,)))
    told.ended(A, 83)
    told.hear(GroupOver())
    assert told.state.outcome == DriverOutcome(Ending.STOPPED, "1 node, but sizes is [2, 4]")


@pytest.mark.parametrize("terms", [HOROVOD, TORCHFT, ELASTIC], ids=["horovod", "torchft", "stock"])
def test_an_exception_that_leaves_no_legal_size_is_a_failure_and_no_lack_of_nodes(
    terms: Terms,
) -> None:
    """Else a broken script would end driver after driver without a failure, one node each."""
    told = training(replace(terms, sizes=TWO_OR_FOUR), A, B)
    told.ended(B, 1, "ValueError: boom")
    told.hear(TimePassed())
    assert told.state.leaving is not None
    told.hear(GroupFormed((told.member(A).label,)))
    told.ended(A, 83)
    told.hear(GroupOver())
    assert told.state.outcome == DriverOutcome(Ending.FAILED, "status 1", 1, LOG)


def test_a_pool_uses_every_node_because_its_workers_need_no_others() -> None:
    told = training(POOL, A, B)
    told.hear(HostsListed((A, B, C)))
    assert [step.member.host for step in told.steps if isinstance(step, StartWarming)] == [C]


def test_a_member_that_was_excused_comes_back_where_no_group_may_form_without_it() -> None:
    told = training(replace(HOROVOD, sizes=LegalSizes(2)), A, B)
    told.hear(Excused(told.member(B)), TimePassed())
    (again,) = (step.member for step in told.steps if isinstance(step, StartWarming))
    told.hear(Warmed(again), TimePassed())
    assert uses(told) == [[A, B]]


@GROUPS
@given(story=HEARD)
def test_no_group_of_another_size_begins(terms: Terms, story: Sequence[tuple[str, int]]) -> None:
    told = Told(terms)
    hosts = (A, B, C, D)
    for now_s, (what, number) in enumerate(story):
        membership = told.state.membership
        members = [*membership.group, *membership.announced, *membership.warm, *membership.warming]
        member = members[number % len(members)] if members else Member("x", A)
        news: News = {
            "hosts": HostsListed(hosts[: 1 + number % 4]),
            "warm": Warmed(member),
            "join": Joined(member, LOG),
            "end": WorkerEnded(member, Exit(-9, False, LOG)),
            "form": GroupFormed(tuple(member.label for member in membership.announced)),
            "over": GroupOver(),
        }.get(what, TimePassed())
        told.hear(news, at_s=float(10 * now_s))
        for group in uses(told):
            is_in_use = len(group) in (2, 4)
            assert is_in_use or not terms.sizes.largest_within(len(group)), "or none can form"


PREEMPTED = frozenset({A.fragment})


@pytest.mark.parametrize("terms", [TORCHRUN, RESTART], ids=["torchrun", "restart"])
def test_a_preempted_node_lets_its_workers_save_at_once(terms: Terms) -> None:
    """All workers are asked, before those of the next group do their imports; its node is released
    once they have left.
    """
    told = training(terms, A, B)
    told.hear(HostsListed((B,), PREEMPTED), HostsListed((B,), PREEMPTED))
    assert told.of(AskWorkersToStop) == [AskWorkersToStop("a node is preempted")]
    assert told.reports(Withheld) == []
    told.ended(A, 0)  # a script that knows nothing of STOPPED_STATUS
    assert told.reports(Withheld) == [Withheld(A.node, A.fragment, "its node is preempted")]
    told.ended(B, 0)
    assert told.reports(Withheld) == []
    told.hear(GroupOver())
    assert told.state.outcome is None
    assert [[member.host for member in step.members] for step in told.of(Begin)] == [[B]]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "terms", [HOROVOD, TORCHRUN, RESTART, ELASTIC], ids=["horovod", "torchrun", "restart", "stock"]
)
def test_a_trainer_whose_only_node_is_preempted_saves_and_ends(terms: Terms) -> None:
    told = training(terms, A)
    told.hear(HostsListed((), PREEMPTED))
    assert len(told.of(AskWorkersToStop)) == 1
    told.hear(Reported(ProgressLine(1.0, Phase.CHECKPOINTED, 1, 1, 2, 64.0)))
    told.ended(A, 83)
    told.hear(GroupOver())
    assert told.state.outcome.ending is Ending.STOPPED
    assert told.state.checkpointed


def test_workers_of_an_elastic_group_are_dismissed_from_a_preempted_node() -> None:
    told = training(HOROVOD, A, B)
    told.hear(HostsListed((B,), PREEMPTED), TimePassed())
    assert told.of(AskWorkersToStop) == []
    assert [[member.host for member in step.members] for step in told.of(Announce)] == [[B]]  # type: ignore[attr-defined]
