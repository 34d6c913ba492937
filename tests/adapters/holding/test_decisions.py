"""Facts in, steps out: what a holder decides, by cases and for every history."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fakes_jobs import Job

from bftrainer.cluster.model import Fragment, FragmentPhase, NodeRequest
from bftrainer.fragment_names import fragment_name, id_in_job
from bftrainer_clusters.holding import decisions
from bftrainer_clusters.holding.batches import alike_together, next_batch
from bftrainer_clusters.holding.decisions import HoldingSteps, ListAnswer
from bftrainer_clusters.holding.holder_fragment import HolderFragment, Marks, OwnSubmission
from bftrainer_clusters.holding.holder_jobs import HolderRules, JobPhase, SchedulerTraits
from bftrainer_clusters.holding.list_times import ListTimes
from bftrainer_clusters.holding.submission_history import (
    HolderEnded,
    HolderFailed,
    HolderStarted,
    SubmissionHistory,
)
from bftrainer_clusters.slurm.config import SlurmSettings

PENDING, READY, LEAVING, GONE = FragmentPhase
SETTINGS = SlurmSettings(
    partition="p", start_within_s=30.0, ready_within_s=30.0, max_pending=3, submissions_per_hour=6
)
RULES = HolderRules(
    SETTINGS,
    SchedulerTraits(
        "Fake", "fake", "fsub", min_interval_s=1.0, failures_in_a_row=2, polls_at_rest=3
    ),
    turn_s=lambda reason: 60.0 if reason == "Priority" else 0.0,
    is_limit=lambda reason: "limit" in reason,
)
RELEASED_MARK, NOTICE_MARK = (
    f"1700000000.0 {why} killed=0 took_s=0.01" for why in ("released", "notice")
)


def held(
    name: str,
    phase: FragmentPhase = READY,
    since_s: float = 0.0,
    ends_s: float | None = 9e9,
    **more: object,
) -> HolderFragment:
    fragment = Fragment(name, phase, None if phase is PENDING else ends_s)
    return replace(HolderFragment(fragment, since_s, runs=phase is not PENDING), **more)  # type: ignore[arg-type]


def of(*fragments: HolderFragment) -> dict[str, HolderFragment]:
    return {it.name: it for it in fragments}


def listed(
    *jobs: Job, unknown: frozenset[str] = frozenset(), at_s: float = 50.0, **marks: Marks
) -> ListAnswer:
    found = {f"{name}#{name[1:]}": it for name, it in marks.items()}
    return ListAnswer({job.id: job for job in jobs}, unknown, found, at_s)


def test_nothing_new_is_no_step() -> None:
    at_rest = of(held("n1#1"), held("n2#2"))
    jobs = (
        Job("1", "n1", JobPhase.RUNS, 9e9),
        Job("2", "n2", JobPhase.RUNS, 9e9 + 1),
    )  # rounded differently
    assert decisions.after_list(at_rest, listed(*jobs), RULES, 50.0) == HoldingSteps()
    assert decisions.after_marks(at_rest, {"n1#1": Marks()}, 50.0) == HoldingSteps()


def test_a_payload_that_is_ready() -> None:
    steps = decisions.after_marks(
        of(held("n1#1", PENDING, submission=OwnSubmission(2.0, 60.0, "a"))),
        {"n1#1": Marks(ready="1.0")},
        5.0,
    )
    assert [it.phase for it in steps.changed.values()] == [READY]
    assert steps.outcomes == (HolderStarted("n1", "a", 3.0),)


@pytest.mark.parametrize(
    ("phase", "why"),
    [(JobPhase.WAITS, "preempted and requeued"), (JobPhase.SUSPENDED, "suspended (SUSPENDED)")],
)
def test_one_that_must_not_go_on_is_released_and_ended_in_the_same_step(
    phase: JobPhase, why: str
) -> None:
    steps = decisions.after_list(of(held("n1#1")), listed(Job("1", "n1", phase)), RULES, 50.0)
    assert (steps.mark_released, steps.end) == (("n1#1",), ("1",))
    assert [(it.phase, it.fragment.why) for it in steps.changed.values()] == [(LEAVING, why)]


def test_a_broker_s_list_that_is_older_than_a_start_ends_no_holder() -> None:
    """It shows the job as pending."""
    starts = of(held("n1#1", since_s=49.0), held("n2#2", PENDING, since_s=19.0))
    jobs = Job("1", "n1"), Job("2", "n2")
    steps = decisions.after_list(starts, listed(*jobs, at_s=48.5), RULES, 50.0)
    assert (steps.mark_released, steps.end) == ((), ())
    steps = decisions.after_list(starts, listed(*jobs, at_s=50.0), RULES, 50.0)
    assert (steps.mark_released, steps.end) == (("n1#1", "n2#2"), ("1", "2"))


def test_a_payload_that_runs_is_told_to_leave_and_its_job_ends_if_it_does_not() -> None:
    three = of(held("n1#1"), held("n2#2", PENDING), held("n3#3"))
    three |= decisions.after_marks(three, {"n3#3": Marks(leaving=NOTICE_MARK)}, 49.0).changed
    steps = decisions.released(three, {*three}, 50.0)
    assert (steps.leave, steps.end) == (("1",), ("2",)), "the third is preempted"
    jobs = [Job(id_, f"n{id_}", JobPhase.RUNS, 9e9) for id_ in "13"]
    for now_s, ended in ((54.0, ("2",)), (56.0, ("1", "2", "3"))):
        later = decisions.after_list(three | dict(steps.changed), listed(*jobs), RULES, now_s)
        assert (later.leave, later.end) == ((), ended)


def test_a_late_one_is_given_up_and_one_whose_turn_may_come_is_not() -> None:
    waiting = of(held("n1#1", PENDING), held("n2#2", PENDING))
    jobs = Job("1", "n1", reason="Priority"), Job("2", "n2", reason="limit")
    steps = decisions.after_list(waiting, listed(*jobs), RULES, 40.0)
    assert (steps.mark_released, steps.end) == (("n2#2",), ("2",))
    assert steps.outcomes == (HolderFailed("n2", "limit"),)
    assert "not running within 30 s (limit)" in steps.changed["n2#2"].fragment.why


def test_during_a_prolog_a_holder_is_not_late_for_its_payload() -> None:
    waiting = of(held("n1#1", PENDING, runs=True, has_begun=False))
    for marks, phase_since_s in ((Marks(), 0.0), (Marks(log="+ srun"), 100.0)):
        answer = listed(Job("1", "n1", JobPhase.RUNS, 9e9), n1=marks)
        found = waiting | dict(decisions.after_list(waiting, answer, RULES, 100.0).changed)
        assert (found["n1#1"].since_s, found["n1#1"].is_released) == (phase_since_s, False)


def test_the_end_of_a_job_tells_what_went_wrong_and_how_long_it_took() -> None:
    fragments = of(held("n1#1", PENDING, runs=True), held("n2#2", LEAVING, 80.0, is_released=True))
    jobs = Job("1", "n1", JobPhase.OVER), Job("2", "n2", JobPhase.OVER)
    steps = decisions.after_list(fragments, listed(*jobs, n1=Marks(log="no python3")), RULES, 91.0)
    assert steps.outcomes == (HolderFailed("n1", ""), HolderEnded("", 11.0))
    assert steps.changed["n1#1"].fragment.why == "OVER: no python3"
    assert steps.end == ()


def test_a_job_that_is_missing_is_gone_only_when_its_id_is_unknown_as_well() -> None:
    once = decisions.after_list(
        of(held("n1#1")), listed(unknown=frozenset("1")), RULES, 50.0
    ).changed
    assert (once["n1#1"].phase, decisions.to_ask_for(once, {})) == (READY, ["1"])
    assert decisions.after_list(once, listed(), RULES, 60.0).changed == {}, "no answer"
    (gone,) = decisions.after_list(
        once, listed(unknown=frozenset("1")), RULES, 60.0
    ).changed.values()
    assert (gone.phase, gone.fragment.why) == (GONE, "unknown to Fake")


def test_several_nodes_leave_together() -> None:
    names = [fragment_name(node, id_in_job("7", node)) for node in ("n1", "n2", "n3")]
    three = of(*map(held, names))
    preempted = decisions.after_marks(three, {names[1]: Marks(leaving=NOTICE_MARK)}, 5.0).changed
    assert {it.phase for it in preempted.values()} == {LEAVING}
    assert preempted[names[0]].fragment.why == "preempted, with n2 of the same job"
    steps = decisions.released(three, {names[2]}, 5.0)
    assert (sorted(steps.mark_released), steps.leave, steps.end) == (names, ("7",), ())
    assert steps.changed[names[0]].fragment.why == "released with n3 of the same job"
    now = three | dict(steps.changed)
    left = now | dict(
        decisions.after_marks(now, {names[2]: Marks(leaving=RELEASED_MARK)}, 6.0).changed
    )
    assert decisions.settled(left, 20.0) == HoldingSteps(), "the list shows whether it has ended"
    stuck = three | dict(preempted)
    assert decisions.settled(stuck, 11.0).end == ("7",)


def test_lists_are_rare_at_rest() -> None:
    times = ListTimes(0.0).answered(10.0, 0.0)

    def due_s(times: ListTimes, *fragments: HolderFragment) -> int:
        return next(s for s in range(1, 100) if times.is_due(fragments, RULES, float(s)))

    assert due_s(times) == 30
    assert due_s(replace(times, suspects=True)) == 10
    assert due_s(times, held("n1#1", PENDING)) == 10
    assert due_s(times, held("n1#1", LEAVING)) == 1
    assert (
        due_s(times.failed("no answer", 10.0, 30.0, 40.0).failed("no answer", 10.0, 40.0, 50.0))
        == 60
    )


NODES = [f"n{i}" for i in range(6)]
REQUESTS = st.lists(st.sampled_from(NODES), max_size=8)


@dataclass
class World:
    """A holder's fragments and history, and the scheduler's jobs, without a clock or a file."""

    nodes_per_job: int
    now_s: float = 0.0
    fragments: dict[str, HolderFragment] = field(default_factory=dict)
    history: SubmissionHistory = field(default_factory=SubmissionHistory)
    jobs: dict[str, Job] = field(default_factory=dict)
    sent_s: list[float] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)

    def submit(self, nodes: list[str]) -> None:
        rules = replace(RULES, nodes_per_job=self.nodes_per_job)
        rest = alike_together(map(NodeRequest, nodes), self.history, rules)
        taken = frozenset(it.node for it in self.fragments.values())
        pending = len({it.job for it in self.fragments.values() if it.is_pending})
        batch = next_batch(rest, 4, taken, pending, self.history, rules, self.now_s)
        asked = [request.node for job in batch.jobs for request in job]
        assert len(set(asked)) == len(asked), "no node twice"
        assert not set(asked) & taken, "no node that is held"
        assert pending + len(batch.jobs) <= max(SETTINGS.max_pending, pending)
        assert all(len(job) <= self.nodes_per_job for job in batch.jobs)
        assert len(asked) + len(batch.refusals) + len(batch.rest) == len(nodes), (
            "each request is answered"
        )
        for job in batch.jobs:
            id_ = str(len(self.sent_s) + 1)
            first, *others = (request.node for request in job)
            self.jobs[id_] = Job(id_, first, beside=tuple(others), is_for_several=bool(others))
            self.sent_s.append(self.now_s)
            self.history = self.history.sent(1, self.now_s)
            for name in self.jobs[id_].fragments:
                pending_one = held(
                    name, PENDING, self.now_s, submission=OwnSubmission(self.now_s, 3600.0, "")
                )
                self.fragments[name] = pending_one
        cap = SETTINGS.submissions_per_hour
        assert cap is None or sum(self.now_s - at_s < 3600.0 for at_s in self.sent_s) <= cap

    def take(self, steps: HoldingSteps) -> None:
        before = dict(self.fragments)
        self.fragments |= steps.changed
        told = {before[name].job if name in before else "" for name in steps.mark_released}
        assert not self.gone & (set(steps.end) | told), "a job that is gone is left alone"
        for name in steps.mark_released:
            assert self.fragments[name].is_released or self.fragments[name].is_gone
        for id_ in steps.end:
            assert all(
                it.is_released for it in self.fragments.values() if it.job == id_ and not it.is_gone
            )
        for outcome in steps.outcomes:
            self.history = self.history.after(outcome, RULES, self.now_s)
        for name in [name for name, it in self.fragments.items() if it.is_gone]:
            job_id = self.fragments.pop(name).job
            if all(it.job != job_id for it in self.fragments.values()):
                self.gone.add(job_id)

    def list(self, data: st.DataObject) -> None:
        for job in self.jobs.values():
            if job.phase is not JobPhase.OVER and job.id not in self.gone:
                job.phase = data.draw(st.sampled_from(JobPhase), label=f"job {job.id}")
        shown = {
            id_: job
            for id_, job in self.jobs.items()
            if data.draw(st.integers(0, 9)) or id_ in self.gone
        }
        over = frozenset(id_ for id_, job in self.jobs.items() if job.phase is JobPhase.OVER)
        asked = decisions.to_ask_for(self.fragments, shown)
        assert not self.gone & set(asked), "is not asked for again"
        before = dict(self.fragments)
        answer = ListAnswer(shown, over & set(asked), {}, self.now_s)
        steps = decisions.after_list(self.fragments, answer, RULES, self.now_s)
        for name, it in before.items():
            job = shown.get(it.job)
            requeued = job is not None and job.phase is JobPhase.WAITS and it.has_run
            if requeued or (job is not None and job.phase is JobPhase.SUSPENDED):
                assert name in steps.mark_released, (
                    "what the scheduler wants back is released in the same step"
                )
                assert it.job in steps.end or any(
                    not other.is_released and other.job == it.job
                    for other in {**before, **steps.changed}.values()
                )
        self.take(steps)


@settings(deadline=None, max_examples=150)
@given(st.data(), st.integers(1, 3))
def test_for_every_history(data: st.DataObject, nodes_per_job: int) -> None:
    world = World(nodes_per_job)
    for _ in range(data.draw(st.integers(1, 25))):
        world.now_s += data.draw(st.sampled_from((0.2, 6.0, 40.0, 1000.0)))
        names = sorted(world.fragments)
        match data.draw(st.sampled_from(("submit", "list", "marks", "release", "fail"))):
            case "submit":
                world.submit(data.draw(REQUESTS))
            case "list":
                world.list(data)
            case "marks" if names:
                found = data.draw(
                    st.sampled_from(
                        (Marks("1.0"), Marks(leaving=NOTICE_MARK), Marks(leaving=RELEASED_MARK))
                    )
                )
                name = data.draw(st.sampled_from(names))
                steps = decisions.after_marks(world.fragments, {name: found}, world.now_s)
                after = {**world.fragments, **steps.changed}
                if found.leaving:
                    mates = [it for it in after.values() if it.job == after[name].job]
                    assert all(it.phase in (LEAVING, PENDING) for it in mates), (
                        "a preempted job leaves as a whole"
                    )
                world.take(steps)
            case "release" if names:
                chosen = data.draw(st.sets(st.sampled_from(names), min_size=1))
                steps = decisions.released(world.fragments, chosen, world.now_s)
                jobs = {world.fragments[name].job for name in chosen}
                assert chosen <= set(steps.mark_released)
                after = {**world.fragments, **steps.changed}
                assert all(it.is_released for it in after.values() if it.job in jobs)
                world.take(steps)
            case "fail":
                failed = HolderFailed(
                    data.draw(st.sampled_from(NODES)), data.draw(st.sampled_from(("", "limit")))
                )
                world.history = world.history.after(failed, RULES, world.now_s)
        world.take(decisions.settled(world.fragments, world.now_s))


def test_a_node_that_another_job_has_did_not_fail() -> None:
    history = SubmissionHistory()
    for node in ("n1", "n2"):
        history = history.after(HolderFailed(node, ""), RULES, 0.0)
    history = history.observed(frozenset({"n2", "n3"}))
    refused = {
        node: history.why_not(NodeRequest(node), RULES.settings, 0.0) for node in ("n1", "n2")
    }
    assert [node for node, refusal in refused.items() if refusal] == ["n2"]


def test_a_job_whose_payload_has_left_is_ended_once_more_where_that_helps() -> None:
    """By the first look that shows its mark, and by no later one."""
    three = of(held("n1#1"), held("n2#2"), held("n3#3"))
    marks = {"n2#2": Marks(leaving=NOTICE_MARK)}
    assert decisions.after_marks(three, marks, 50.0).end == ()
    steps = decisions.after_marks(three, marks, 50.0, cancels_ended=True)
    assert steps.end == ("2",)
    later = {**three, **steps.changed}
    assert decisions.after_marks(later, marks, 51.0, cancels_ended=True).end == ()
    released = decisions.released(three, {"n3#3"}, 50.0)
    assert (released.leave, released.end) == (("3",), ())
    left = decisions.after_marks(
        {**three, **released.changed},
        {"n3#3": Marks(leaving=RELEASED_MARK)},
        51.0,
        cancels_ended=True,
    )
    assert left.end == ("3",)


def test_a_job_of_several_nodes_is_ended_once_more_when_its_last_payload_has_left() -> None:
    before = of(held("n1#1.n1"), held("n2#1.n2"))
    first = {"n2#1.n2": Marks(leaving=NOTICE_MARK)}
    steps = decisions.after_marks(before, first, 50.0, cancels_ended=True)
    assert steps.end == ()
    last = {"n1#1.n1": Marks(leaving=NOTICE_MARK), **first}
    steps = decisions.after_marks({**before, **steps.changed}, last, 51.0, cancels_ended=True)
    assert steps.end == ("1",)
