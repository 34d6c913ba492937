"""Which held nodes a pilot releases for main jobs that wait: cases, and what holds for every queue
and any number of pilots.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from bftrainer.cluster.model import Fragment, FragmentPhase
from bftrainer.decide.yielding.backfill_cycles import CYCLE_S
from bftrainer.decide.yielding.facts import ListedHolder, NodeWait, WaitingQueue, YieldRules
from bftrainer.decide.yielding.judging import OVERDUE_S
from bftrainer.decide.yielding.listed_holders import ListDecision, ListMemory
from bftrainer.decide.yielding.listed_holders import next_yield as next_listed
from bftrainer.decide.yielding.memory import YieldMemory
from bftrainer.decide.yielding.offers import LONGEST_REST_S, Offer, VoidOffer
from bftrainer.decide.yielding.pool import LEAVING_S
from bftrainer.decide.yielding.queue_changes import QueueChanges
from bftrainer.decide.yielding.user_trust import STRANGER_S
from bftrainer.fragment_names import fragment_name, id_in_job, job_of, node_of
from bftrainer.pilot.nodes.held_fragments import HeldFragment
from bftrainer.pilot.nodes.making_way import own_holders
from bftrainer.times import PilotS


def next_yield(
    queue: WaitingQueue,
    own: Sequence[HeldFragment],
    costs: Mapping[str, float],
    memory: ListMemory,
    rules: YieldRules,
) -> ListDecision:
    """The decision of a pilot with these fragments."""
    return next_listed(queue, own_holders(own, costs), memory, rules)


RULES = YieldRules(notice_s=5.0, poll_s=2.0, worst_wait_s=1800.0)
NODES = tuple(f"n{i}" for i in range(8))
ALL = frozenset(NODES)
SERVER_S = 1_000_000.0


def wait(job: int, size: int, priority: float = 1.0, **more: object) -> NodeWait:
    return NodeWait(str(job), size, priority, **({"nodes": ALL, "reason": "Resources"} | more))  # type: ignore[arg-type]


def fragment(node: str, job: int, phase: FragmentPhase = FragmentPhase.READY) -> HeldFragment:
    ready_s = PilotS(1.0) if phase is FragmentPhase.READY else None
    return HeldFragment(
        Fragment(fragment_name(node, str(job)), phase), node, PilotS(float(job)), "", ready_s
    )


@dataclass
class Site:
    """A cluster in which pilots look in turn. ``busy`` are nodes of main jobs, ``held`` nodes by
    node: (holder job, pilot).
    """

    held: dict[str, tuple[int, str]] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)
    jobs: list[NodeWait] = field(default_factory=list)
    now_s: float = 0.0
    planned_s: float | None = None
    kinds: tuple[frozenset[str], ...] = ()
    memories: dict[str, ListMemory] = field(default_factory=dict)
    released: list[str] = field(default_factory=list)
    starts: list[tuple[str, float]] = field(default_factory=list)
    served: list[tuple[str, float | None]] = field(default_factory=list)

    def queue(self) -> WaitingQueue:
        holders = tuple(
            ListedHolder(str(job), node, pilot=pilot) for node, (job, pilot) in self.held.items()
        )
        idle = ALL - self.held.keys() - self.busy
        return WaitingQueue(
            PilotS(self.now_s),
            SERVER_S + self.now_s,
            PilotS(self.now_s - 2.0),
            tuple(self.jobs),
            holders,
            frozenset(idle),
            frozenset(self.busy),
            tuple(self.starts),
            self.planned_s,
            self.kinds,
        )

    def own(self, pilot: str) -> list[HeldFragment]:
        return [fragment(node, job) for node, (job, of) in self.held.items() if of == pilot]

    def look(self, pilot: str = "a", queue: WaitingQueue | None = None) -> tuple[str, ...]:
        """The nodes that a pilot releases at once after a look."""
        memory = self.memories.get(pilot, ListMemory())
        seen = queue or self.queue()
        decision = next_yield(seen, self.own(pilot), {}, memory, RULES)
        self.memories[pilot] = decision.memory
        self.served += [(served.job, served.delay_s) for served in decision.made.served]
        names = [name for release in decision.made.releases for name in release.names]
        assert len(set(names)) == len(names)
        nodes = tuple(map(node_of, names))
        for name in names:
            job, _ = self.held.pop(node_of(name))
            assert str(job) == job_of(name), "its own"
        self.released += nodes
        return nodes

    def after(self, seconds: float) -> Site:
        self.now_s += seconds
        return self

    @property
    def blocks(self) -> bool:
        return self.memories["a"].offers.blocks

    @property
    def reserved(self) -> frozenset[str]:
        return frozenset(self.memories["a"].offers.reserved)


def holding(count: int = 8, **more: object) -> Site:
    """One pilot holds nodes, the rest is idle."""
    held = {node: (100 + i, "a") for i, node in enumerate(NODES[:count])}
    return Site(held=held, **more)  # type: ignore[arg-type]


def test_a_job_gets_as_many_nodes_as_it_needs_the_latest_ones() -> None:
    site = holding(jobs=[wait(1, 2)])
    assert site.look() == ("n6", "n7")
    assert site.blocks


def test_idle_nodes_count_and_are_left_to_it() -> None:
    site = holding(6, jobs=[wait(1, 3)])
    assert len(site.look()) == 1
    assert site.after(2.0).look() == ()
    assert site.blocks


def test_one_look_counts_once() -> None:
    site = holding(jobs=[wait(1, 2)])
    queue = site.queue()
    assert len(site.look(queue=queue)) == 2
    before = site.memories["a"]
    assert site.look(queue=queue) == ()
    assert site.memories["a"] is before


def test_what_is_released_and_still_listed_counts_as_leaving() -> None:
    site = holding(jobs=[wait(1, 2)])
    before = site.queue()
    assert len(site.look()) == 2
    assert site.look(queue=replace(before, at_s=PilotS(1.0))) == ()


def test_own_holders_that_are_known_no_more_count_as_leaving() -> None:
    """They were released after the look, for another reason."""
    site = holding(4, busy=set(NODES[4:]), jobs=[wait(1, 2)])
    queue = site.queue()
    rules = replace(RULES, own_pilot="a")
    decision = next_yield(queue, site.own("a")[:2], {}, ListMemory(), rules)
    assert decision.made.releases == ()
    assert decision.memory.offers.blocks


def test_a_fragment_that_is_leaving_for_another_reason_is_hastened() -> None:
    site = holding(3, busy=set(NODES[3:]), jobs=[wait(1, 2)])
    first, *others = site.own("a")
    leaving = replace(first, given_back_s=PilotS(0.0))
    decision = next_yield(site.queue(), [leaving, *others], {}, ListMemory(), RULES)
    assert decision.made.hasten == {leaving.name}
    assert [len(release.names) for release in decision.made.releases] == [1]


def test_cheapest_first() -> None:
    site = holding(3, busy=set(NODES[3:]), jobs=[wait(1, 2)])
    costs = {fragment_name("n2", "102"): 60.0, fragment_name("n0", "100"): 9.0}
    decision = next_yield(site.queue(), site.own("a"), costs, ListMemory(), RULES)
    assert [release.names for release in decision.made.releases] == [("n0#100", "n1#101")]


def shared(node: str, job: str, phase: FragmentPhase = FragmentPhase.READY) -> HeldFragment:
    """A fragment of a holder of several nodes."""
    it = fragment(node, 1, phase)
    name = fragment_name(node, id_in_job(job, node))
    return replace(it, fragment=replace(it.fragment, name=name))


def one_look(
    own: list[HeldFragment],
    *jobs: NodeWait,
    at_s: float = 10.0,
    costs: dict[str, float] | None = None,
) -> dict[str, tuple[str, ...]]:
    """The nodes that are released for each job, by a pilot that holds what nobody else has."""
    held_nodes = {h.node for h in own if h.is_ready}
    queue = WaitingQueue(
        PilotS(at_s), SERVER_S, PilotS(0.0), jobs, idle=ALL - held_nodes if own else ALL
    )
    releases = next_yield(queue, own, costs or {}, ListMemory(), RULES).made.releases
    return {release.job: tuple(map(node_of, release.names)) for release in releases}


def test_a_node_with_a_job_of_its_own_goes_before_one_whose_job_ends_with_others() -> None:
    own = [*(shared(node, "5") for node in NODES[:4]), *(fragment(n, 6) for n in NODES[4:])]
    assert one_look(own, wait(1, 1)) == {"1": ("n4",)}
    assert one_look(own, wait(1, 5)) == {"1": ("n0", "n4", "n5", "n6", "n7")}


def test_a_node_that_its_job_can_give_back_goes_before_one_that_ends_the_job() -> None:
    """It costs its own trainer only, and what is left of the job ends for no other."""
    first, *others = (shared(node, "1") for node in ("n1", "n2", "n3"))
    alone = [replace(h, fragment=replace(h.fragment, is_separable=True)) for h in others]
    costs = {alone[0].name: 9.0, fragment("n4", 2).name: 3.0}
    own = [first, *alone, fragment("n4", 2)]
    nodes = frozenset(held.node for held in own)
    assert one_look(own, wait(1, 1, nodes=nodes), costs=costs) == {"1": ("n3",)}
    jobs = (wait(1, 1, nodes=nodes), wait(2, 1, nodes=nodes))
    released = one_look(own, *jobs, costs=costs)
    assert released == {"1": ("n3",), "2": ("n4",)}


def test_jobs_of_one_look_share_the_nodes_of_a_holder_that_ends() -> None:
    own = [shared(node, "5" if i < 4 else "6") for i, node in enumerate(NODES)]
    costs = {h.name: 1.0 if i < 4 else 0.5 for i, h in enumerate(own)}
    released = one_look(own, wait(1, 1), wait(2, 2), wait(3, 1), costs=costs)
    assert released == {"1": ("n4",), "2": ("n5", "n6"), "3": ("n7",)}, "one holder ends, not two"


def test_a_renewal_waits_beside_the_main_job_until_the_next_look() -> None:
    """It is in the queue for nodes of a holder that is ending, and that the main job leaves."""
    renewal = replace(
        shared("n1", "7", FragmentPhase.PENDING), asked_s=PilotS(9.0), is_renewal=True
    )
    others = [fragment(node, 100 + i) for i, node in enumerate(NODES[2:])]
    own = [replace(others[0], given_back_s=PilotS(8.0)), *others[1:], renewal]
    assert "" not in one_look(own, wait(1, 1))
    assert one_look(own, wait(1, 1), at_s=11.0)[""] == ("n1",), "a look later it is in the way"
    assert one_look(own, wait(1, 2, nodes=frozenset({"n0", "n1"})))[""] == ("n1",), "its node"
    plain = replace(renewal, is_renewal=False)
    assert one_look([*own[:-1], plain], wait(1, 1))[""] == ("n1",)


def test_a_job_that_does_not_fit_takes_nothing_and_blocks_nothing() -> None:
    site = holding(4, busy=set(NODES[4:]), jobs=[wait(1, 5)])
    assert site.look() == ()
    assert not site.blocks
    site.jobs.append(wait(2, 1, 0.5))
    assert site.after(2.0).look() == ("n3",)


def test_by_priority() -> None:
    site = holding(4, busy=set(NODES[4:]), jobs=[wait(1, 3, 1.0), wait(2, 2, 9.0)])
    assert len(site.look()) == 2, "the first needs more than the second leaves"


def test_only_nodes_that_the_job_can_use() -> None:
    site = holding(jobs=[wait(1, 1, nodes=frozenset({"n3", "n4"}))])
    assert site.look() == ("n4",)
    site = holding(jobs=[wait(1, 2, required=frozenset({"n0"}))])
    assert site.look() == ("n0", "n7")
    site = holding(7, busy={"n7"}, jobs=[wait(1, 2, nodes=frozenset({"n3", "n7"}))])
    assert site.look() == ()
    assert not site.blocks, "one node of the two that have what it asks for is not enough"


def test_an_array_starts_with_the_tasks_that_fit() -> None:
    site = holding(3, busy=set(NODES[3:]), jobs=[wait(1, 10, task_size=2)])
    assert len(site.look()) == 2


def test_a_job_with_a_range_of_sizes_gets_what_there_is() -> None:
    """``-N2-4`` would start on three idle nodes, so it does on three that are held."""
    site = holding(3, busy=set(NODES[3:]), jobs=[wait(1, 4, fewest=2)])
    assert len(site.look()) == 3
    site.after(2.0).look()
    assert site.blocks
    site.after(2.0).look()
    site.planned_s = SERVER_S + site.now_s + 0.5
    site.after(2.0).look()
    assert not site.blocks, "it does not take them"
    site = holding(1, busy=set(NODES[1:]), jobs=[wait(1, 4, fewest=2)])
    assert site.look() == ()
    assert len(holding(jobs=[wait(1, 4, fewest=2)]).look()) == 4


def test_a_pending_holder_is_canceled() -> None:
    site = holding(2, busy=set(NODES[3:]), jobs=[wait(1, 1)])
    pending = fragment("n2", 200, FragmentPhase.PENDING)
    decision = next_yield(site.queue(), [*site.own("a"), pending], {}, ListMemory(), RULES)
    assert [release.names for release in decision.made.releases] == [("n2#200",)], "n2 is idle"


def test_a_holder_that_is_starting_counts_as_released_for_the_job() -> None:
    site = holding(2, busy=set(NODES[2:]), jobs=[wait(1, 2)])
    starting = [fragment(node, job, FragmentPhase.PENDING) for node, (job, _) in site.held.items()]
    decision = next_yield(site.queue(), starting, {}, ListMemory(), RULES)
    assert [release.names for release in decision.made.releases] == [("n0#100", "n1#101")]
    assert decision.memory.offers.offers[0].released == 2


def void(site: Site) -> None:
    """An offer that a whole backfill cycle does not take."""
    site.look()
    site.after(2.0).look()
    site.after(2.0).look()
    assert site.blocks, "no cycle yet"
    site.planned_s = SERVER_S + site.now_s + 0.5
    site.after(2.0).look()
    assert not site.blocks


def test_an_offer_that_is_not_taken_is_void_until_something_changes() -> None:
    site = holding(jobs=[wait(1, 2)])
    void(site)
    site.held |= {node: (200 + i, "a") for i, node in enumerate(ALL - site.held.keys())}
    for _ in range(500):
        assert site.after(2.0).look() == ()
    site.busy = {"n0"}
    del site.held["n0"]
    assert site.after(2.0).look() == (), "a main job has started: it leaves nothing"
    site.busy = set()
    site.held["n0"] = (300, "a")
    assert len(site.after(2.0).look()) == 2, "it has ended"


def test_one_backfill_cycle_judges_all_jobs_that_fit_on_what_is_idle() -> None:
    """The scheduler could have started each of them on the nodes that were idle for the first."""
    site = holding(6, busy={"n6", "n7"}, jobs=[wait(1, 6, 3.0), wait(2, 5, 2.0), wait(3, 1)])
    void(site)
    assert [offer.void is not None for offer in site.memories["a"].offers.offers] == [True] * 3


def test_nodes_that_were_taken_in_between_judge_no_job() -> None:
    """The first job starts in the backfill cycle, while the nodes of the second are not idle yet."""
    site = holding(2, busy=set(NODES[4:]), jobs=[wait(1, 2, 2.0), wait(2, 2)])
    assert site.look() == ("n0", "n1")
    site.jobs = [wait(2, 2)]
    site.busy |= {"n2", "n3"}
    site.planned_s = SERVER_S + site.now_s + 1.9
    for _ in range(5):
        assert site.after(2.0).look() == ()
        assert site.blocks, "no cycle has begun since its nodes are idle"
    site.planned_s = SERVER_S + site.now_s
    site.after(2.0).look()
    assert not site.blocks


def with_void_offer(*others: NodeWait) -> Site:
    """A site at which a job of one node has a void offer, beside others that do not fit."""
    site = holding(jobs=[wait(1, 1), *others])
    for node in ("n4", "n5", "n6"):
        del site.held[node]
        site.busy.add(node)
    void(site)
    site.held |= {node: (200 + i, "a") for i, node in enumerate(ALL - site.held.keys() - site.busy)}
    return site


def test_the_start_of_a_job_behind_it_makes_no_void_offer_again() -> None:
    site = with_void_offer(wait(2, 6, 0.5))
    site.jobs, site.busy, site.held = [wait(1, 1)], {*site.busy, "n0", "n1", "n2", "n3", "n7"}, {}
    site.after(20.0).look()
    assert not site.blocks


def test_the_departure_of_a_job_before_it_makes_a_void_offer_again() -> None:
    """Its reservation is gone."""
    site = with_void_offer(wait(2, 7, 9.0))
    assert site.after(20.0).look() == ()
    site.jobs = [wait(1, 1)]
    assert len(site.after(2.0).look()) == 1


def test_an_end_that_no_look_shows_is_inferred() -> None:
    """A job has ended, and one behind has its nodes: as many are busy as before."""
    site = with_void_offer(wait(2, 7, 0.5))
    site.jobs = [wait(1, 1)]
    assert len(site.after(20.0).look()) == 1


def test_a_void_offer_is_repeated_after_the_longest_wait_or_for_another_need() -> None:
    site = holding(jobs=[wait(1, 2)])
    void(site)
    site.held |= {node: (200 + i, "a") for i, node in enumerate(ALL - site.held.keys())}
    assert site.after(OVERDUE_S - 10.0).look() == ()
    assert len(site.after(20.0).look()) == 2
    site = holding(jobs=[wait(1, 2)])
    void(site)
    site.jobs = [wait(1, 3)]
    assert len(site.after(2.0).look()) == 1


def test_without_shown_cycles_an_offer_lasts_for_a_while() -> None:
    site = holding(jobs=[wait(1, 2)])
    site.look()
    while site.after(2.0).now_s < CYCLE_S:
        site.look()
        assert site.blocks
    site.after(8.0).look()
    assert not site.blocks


def moves_at_a_busy_site(site: Site, shows_cycles: bool = True) -> list[int]:
    """Count the looks at which a pilot releases nodes, in each of two hours. Main jobs come and go
    all the time, also on the nodes that are offered, and the pilot holds idle nodes again as soon
    as it may. ``shows_cycles``: the
    scheduler shows its backfill cycles.
    """
    moves = [0, 0]
    for second in range(0, 7200, 2):
        site.busy = {"n0"} if second % 4 else set()
        site.held.pop("n0", None)
        site.planned_s = SERVER_S + site.now_s + 1.0 if shows_cycles else None
        moves[second // 3600] += bool(site.after(2.0).look())
        if not site.blocks:
            idle = ALL - site.held.keys() - site.busy - {"n0"} - site.reserved
            site.held |= dict.fromkeys(idle, (1000 + second, "a"))
    return moves


def test_a_job_that_waits_its_turn_costs_few_moves_however_busy_the_site_is() -> None:
    first, second = moves_at_a_busy_site(holding(jobs=[wait(1, 2)]))
    assert 10 < first <= 2 * (3600 / LONGEST_REST_S + 8), "one node, and one for that taken"
    assert second <= 2 * (3600 / LONGEST_REST_S + 2)


def test_where_no_plan_is_shown_a_job_that_can_never_run_costs_forty_moves_an_hour() -> None:
    """As on LSF: an offer is void after two minutes, and is made again after one more at most."""
    first, second = moves_at_a_busy_site(holding(jobs=[wait(1, 2)]), shows_cycles=False)
    print(f"moves of trainers in each hour: {first}, {second}")
    assert second <= first <= 40


def test_a_job_that_can_never_run_costs_two_offers_an_hour() -> None:
    """The scheduler plans no start for it, although no holder lasts for more than ten minutes."""
    first, second = moves_at_a_busy_site(holding(jobs=[wait(1, 2, is_planned=False)]))
    assert 2 <= first <= 5, "three offers, of which two lose a node to a job that comes"
    assert second <= 4, "two offers"


def test_a_job_that_the_scheduler_plans_again_is_served_at_once() -> None:
    site = holding(jobs=[wait(1, 2, is_planned=False)])
    moves_at_a_busy_site(site)
    site.jobs = [wait(1, 2, is_planned=True)]
    site.after(60.0)
    site.held |= dict.fromkeys(ALL - site.held.keys() - {"n0"}, (9000, "a"))
    site.busy = {"n0"}
    assert site.look()


def test_a_job_that_the_pilot_misjudges_is_offered_nodes_every_twenty_minutes() -> None:
    """The pilot takes the job for one that waits for something else. Every holder ends after ten
    minutes, and is renewed.
    """
    site = holding(jobs=[wait(1, 3)], busy=set(NODES[6:]))
    for node in NODES[6:]:
        site.held.pop(node)
    void(site)
    site.released.clear()
    site.planned_s, number, begun_s = None, 1000, site.now_s
    ends_s = {node: site.now_s + 100.0 * i for i, node in enumerate(NODES[:6])}
    moves = list[float]()
    while site.now_s < begun_s + 3600.0:
        for node in [n for n in site.held if ends_s[n] <= site.now_s]:
            del site.held[node]
        if site.after(10.0).look():
            moves.append(site.now_s - begun_s)
        if not site.blocks:
            for node in sorted(ALL - site.held.keys() - site.busy):
                number += 1
                site.held[node], ends_s[node] = (number, "a"), site.now_s + 600.0
    first_s, second_s = moves
    assert 1100.0 < first_s <= OVERDUE_S
    assert OVERDUE_S <= second_s - first_s <= OVERDUE_S + CYCLE_S + 30.0


def test_many_jobs_with_void_offers_do_not_multiply_what_is_remembered() -> None:
    """A thousand jobs may lack a GPU while a thousand nodes without one are held."""
    nodes = [f"n{number}" for number in range(300)]
    jobs = tuple(wait(number, 1, nodes=frozenset(nodes)) for number in range(1, 301))
    holders = tuple(ListedHolder(str(1000 + i), node, False, "a") for i, node in enumerate(nodes))
    own = [fragment(node, 1000 + i) for i, node in enumerate(nodes)]
    void = VoidOffer(PilotS(0.0), 60.0, PilotS(0.0), PilotS(0.0))
    offers = tuple(Offer(job, PilotS(0.0), PilotS(0.0), void=void) for job in jobs)
    memory = ListMemory(YieldMemory(offers=offers))
    tracemalloc.start()
    try:
        for look in range(1, 4):
            at_s = PilotS(2.0 * look)
            queue = WaitingQueue(at_s, SERVER_S + at_s, PilotS(at_s - 2.0), jobs, holders)
            memory = next_yield(queue, own, {}, memory, RULES).memory
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(offer.void is not None for offer in memory.offers.offers)
    assert size < 2_000_000, "90,000 pairs of jobs and nodes would be more"


def test_served_jobs_are_told_with_the_latest_time_of_their_start() -> None:
    site = holding(jobs=[wait(1, 2, submitted_s=SERVER_S - 1.0), wait(2, 1)])
    site.look()
    site.jobs, site.starts = [], [("1", SERVER_S)]
    site.busy = {"n7", "n6"}
    site.after(2.0).look()
    assert site.served == [("1", 3.0), ("2", None)]


def test_two_pilots_release_together_what_is_needed() -> None:
    site = holding(jobs=[wait(1, 4)])
    site.held = {node: (100 + i, "ab"[i % 2]) for i, node in enumerate(NODES)}
    queue = site.queue()
    assert sorted(site.look("a", queue) + site.look("b", queue)) == ["n4", "n5", "n6", "n7"]
    site = holding(jobs=[wait(1, 4)])
    site.held = {node: (100 + i, "ab"[i % 2]) for i, node in enumerate(NODES)}
    site.look("a")
    site.after(1.0).look("b")
    assert sorted(site.released) == ["n4", "n5", "n6", "n7"], "one after the other as well"


def test_a_pilot_that_does_not_respond_is_left_out() -> None:
    site = holding(jobs=[wait(1, 4)])
    site.held = {node: (100 + i, "ab"[i % 2]) for i, node in enumerate(NODES)}
    assert len(site.look("a")) == 2
    looks = 0
    while len(site.released) < 4:
        site.after(2.0).look("a")
        looks += 1
    assert 2.0 * looks <= RULES.poll_s + STRANGER_S


def test_other_pilots_of_the_same_user_are_no_strangers() -> None:
    rules = replace(RULES, own_pilot="me/a")
    site, memory = holding(jobs=[wait(1, 2)]), ListMemory()
    released: list[str] = []
    site.held = {node: (100 + i, f"me/{'ab'[i % 2]}") for i, node in enumerate(NODES)}
    while not released or site.now_s < 8.0:
        decision = next_yield(site.after(2.0).queue(), site.own("me/a"), {}, memory, rules)
        memory = decision.memory
        for release in decision.made.releases:
            released += release.names
        site.held = {
            node: holder
            for node, holder in site.held.items()
            if f"{node}#{holder[0]}" not in released
        }
    assert released == ["n6#106"], "the other node is b's, whose trainer takes its time"


def test_the_trainers_of_a_pilot_that_has_responded_have_time_to_leave() -> None:
    """Its nodes take seven seconds. The first time, others release nodes in its place after four;
    from then on they wait for it.
    """
    extra = []
    site = holding()
    for number in range(3):
        site.held = {node: (100 * number + 100 + i, "ab"[i % 2]) for i, node in enumerate(NODES)}
        site.jobs, site.busy = [wait(number, 2)], set()
        site.released.clear()
        own = len(site.after(2.0).look("a"))
        due_s = site.now_s + 7.0
        assert own == 1, number
        while site.now_s < due_s:
            site.after(2.0).look("a")
        extra.append(len(site.released) - own)
        for node in [node for node, (_, pilot) in site.held.items() if pilot == "b"][-1:]:
            del site.held[node]
        site.after(2.0).look("a")
        site.jobs = []
        site.after(2.0).look("a")
    assert extra == [1, 0, 0]


def waits_s(site: Site, limit_s: float = 600.0) -> float:
    """How long pilot "a" looks until a node is idle for the first job in the queue."""
    begun_s, job = site.now_s, site.jobs[0]
    while len((ALL - site.held.keys() - site.busy) & job.nodes) < job.size:
        assert site.now_s - begun_s < limit_s, "the job waits for ever"
        site.after(2.0).look("a")
    return site.now_s - begun_s


UNRESPONSIVE_S = RULES.poll_s + STRANGER_S + 2.0
"""With the look before the first."""


def test_a_user_who_claims_many_pilots_is_waited_for_once() -> None:
    site = holding(4, jobs=[wait(1, 1)])
    site.held |= {node: (200 + i, f"liar/p{i}") for i, node in enumerate(NODES[4:])}
    assert waits_s(site) <= UNRESPONSIVE_S


def test_a_user_whose_holders_change_all_the_time_is_waited_for_once() -> None:
    """Each of them is the latest one when it comes, and is gone before it is late."""
    site, number = holding(4, jobs=[wait(1, 1)]), 200
    site.busy = set(NODES[5:])
    while not site.released:
        number += 1
        site.held["n4"] = (number, f"liar/p{number}")
        site.after(2.0).look("a")
        assert site.now_s <= UNRESPONSIVE_S
    site.held |= {"n4": (900, "liar/p"), site.released[0]: (901, "a")}
    assert site.after(2.0).look("a"), "for the next ones as well"


def test_a_node_that_does_not_become_idle_is_not_waited_for_for_long() -> None:
    """Its holder is ending, or was told to, and hangs."""
    site = holding(2, busy=set(NODES[3:]), jobs=[wait(1, 1)])
    for seconds in range(0, 60, 2):
        hanging = ListedHolder("300", "n2", is_leaving=True, pilot="b")
        queue = site.after(2.0).queue()
        idle = queue.idle - {"n2"}
        nodes = site.look(queue=replace(queue, idle=idle, holders=(*queue.holders, hanging)))
        if nodes:
            assert 10 < seconds <= RULES.notice_s + LEAVING_S + 4.0
            return
    raise AssertionError("the job waits for ever")


def test_idle_nodes_that_a_job_does_not_take_are_replaced_by_held_ones() -> None:
    """They may lack what it needs: a GPU, memory, a feature."""
    site = holding(4, jobs=[wait(1, 2)])
    assert site.look() == ()
    site.after(2.0).look()
    site.planned_s = SERVER_S + site.now_s + 5.0
    site.after(8.0)
    assert site.look() == ("n2", "n3")
    site.after(2.0).look()
    site.after(2.0).look()
    site.planned_s = SERVER_S + site.now_s + 5.0
    assert site.after(8.0).look() == ()
    assert not site.blocks, "these neither"


def test_nodes_of_a_kind_that_a_job_does_not_take_are_refused_together() -> None:
    """Two small nodes are idle, and were not enough for it; of the large ones two are held."""
    small, large = ALL - {"n2", "n3"}, frozenset({"n2", "n3"})
    for kinds, others in (((ALL,), ()), ((small, large), ("n2", "n3"))):
        site = holding(4, jobs=[wait(1, 2)], kinds=kinds)
        assert site.look() == ()
        site.after(2.0).look()
        site.planned_s = SERVER_S + site.now_s + 5.0
        assert site.after(8.0).look() == others
        assert site.blocks is bool(others)


def test_jobs_that_are_canceled_all_the_time_cost_few_moves() -> None:
    """Each one is new. The pilot holds idle nodes again as soon as it may."""
    site, moves = holding(), 0
    for number in range(1800):
        site.jobs = [wait(number, 8)] if number % 2 else []
        moves += bool(site.after(2.0).look())
        if not site.blocks:
            idle = ALL - site.held.keys() - site.busy
            site.held |= dict.fromkeys(idle, (10_000 + number, "a"))
    assert 10 < moves <= 3600 / LONGEST_REST_S + 8


jobs = st.lists(
    st.builds(
        wait,
        st.integers(1, 9),
        st.integers(1, 8),
        st.integers(0, 3).map(float),
        nodes=st.frozensets(st.sampled_from(NODES), min_size=1),
    ),
    max_size=5,
    unique_by=lambda job: job.job,
)
owners = st.lists(st.sampled_from(["", "main", "a", "b", "c"]), min_size=8, max_size=8)


@given(owners, jobs, st.lists(st.sampled_from("abc"), max_size=12))
def test_pilots_in_any_order_release_no_more_than_what_is_missing(
    who: list[str], queue: list[NodeWait], turns: list[str]
) -> None:
    """In any order of looks, at one queue: no node twice, only own ones, and never more than the
    jobs that fit need beyond idle nodes.
    """
    site = Site(jobs=queue)
    site.busy = {node for node, owner in zip(NODES, who, strict=True) if owner == "main"}
    site.held = {
        node: (100 + i, owner)
        for i, (node, owner) in enumerate(zip(NODES, who, strict=True))
        if owner in ("a", "b", "c")
    }
    usable = ALL - site.busy
    needed = sum(job.size for job in queue if len(usable & job.nodes) >= job.size)
    for pilot in turns:
        site.after(0.1).look(pilot)
    assert len(set(site.released)) == len(site.released)
    assert len(site.released) <= needed


@given(owners, jobs)
def test_the_first_job_that_fits_gets_its_nodes_from_all_pilots_at_one_look(
    who: list[str], queue: list[NodeWait]
) -> None:
    site = Site(jobs=queue)
    site.busy = {node for node, owner in zip(NODES, who, strict=True) if owner == "main"}
    site.held = {
        node: (100 + i, owner)
        for i, (node, owner) in enumerate(zip(NODES, who, strict=True))
        if owner in ("a", "b", "c")
    }
    seen = site.queue()
    for pilot in "abc":
        site.look(pilot, seen)
    usable = ALL - site.busy
    fitting = [job for job in queue if len(usable & job.nodes) >= job.size]
    if fitting:
        first = min(fitting, key=lambda job: (-job.priority, int(job.job)))
        idle = usable - site.held.keys()
        assert len(idle & first.nodes) >= first.size
    else:
        assert site.released == []


steps = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["idle", "idle", "idle", "main", "a"]), min_size=8, max_size=8),
        st.booleans(),
    ),
    min_size=4,
    max_size=12,
)


@given(jobs, steps)
def test_no_offer_is_void_before_a_cycle_has_seen_enough_idle_nodes(
    queue: list[NodeWait], looks: list[tuple[list[str], bool]]
) -> None:
    """Whatever happens to nodes: an offer turns void, or other nodes are offered in place of those
    that the job did not take, only if the same nodes, enough for the job, were idle at all looks
    since before the backfill cycle began. An offer of others is void as well once there are none.
    """
    site, history = Site(jobs=queue), list[tuple[float, frozenset[str]]]()
    was_judged: set[str] = set()
    for number, (owners, has_cycle) in enumerate(looks):
        site.busy = {node for node, who in zip(NODES, owners, strict=True) if who == "main"}
        site.held = {
            node: (100 * number + i, "a")
            for i, (node, who) in enumerate(zip(NODES, owners, strict=True))
            if who == "a"
        }
        if has_cycle:
            site.planned_s = SERVER_S + site.now_s + 1.5
        seen = site.after(2.0).queue()
        history.append((seen.server_s, seen.idle))
        site.look()
        offers = site.memories["a"].offers.offers
        is_judged = {o.job.job for o in offers if o.void is not None or o.refused}
        for job in queue:
            if job.job in is_judged - was_judged:
                before = [idle for at_s, idle in history if at_s < (site.planned_s or 0.0)]
                since = [idle for at_s, idle in history if at_s >= (site.planned_s or 0.0)]
                assert len(frozenset.intersection(*before[-1:], *since) & job.nodes) >= job.size
        was_judged = is_judged


@given(jobs, jobs, st.booleans())
def test_what_concerns_a_job_is_an_end_or_a_change_before_it(
    before: list[NodeWait], after: list[NodeWait], ends: bool
) -> None:
    """A job before it left the queue, is behind it now, or needs other nodes."""
    busy = frozenset({"n0"})
    now = {job.job: job for job in after}
    started = sum(job.size for job in before if job.job not in now)
    new = {f"x{number}" for number in range(started)}
    busy_now = frozenset(new if ends else {*new, "n0"})
    queue = WaitingQueue(PilotS(2.0), SERVER_S, PilotS(0.0), tuple(after), busy=busy_now)
    changes = QueueChanges.between(before, busy, queue)
    for was in before:
        if was.job in now:
            job = now[was.job]
            others = [other for other in before if other.priority >= was.priority]
            concerned = ends or any(
                other.job not in now
                or (now[other.job].size, now[other.job].nodes) != (other.size, other.nodes)
                or now[other.job].priority < job.priority
                for other in others
            )
            assert changes.concern(was, job) is concerned


def plays(
    site: Site, seconds: float, cycle_s: float = 30.0, keep_idle: frozenset[str] = frozenset()
) -> list[float]:
    """Let pilot "a" look every two seconds, and hold again what is idle as soon as it may. A
    backfill cycle begins every ``cycle_s``. Returns the times at which it released nodes. Nodes of
    ``keep_idle`` are never held.
    """
    moves, end_s = list[float](), site.now_s + seconds
    while site.now_s < end_s:
        site.after(2.0)
        site.planned_s = SERVER_S + site.now_s // cycle_s * cycle_s
        if site.look():
            moves.append(site.now_s)
        if not site.blocks:
            idle = ALL - site.held.keys() - site.busy - site.reserved - keep_idle
            site.held |= dict.fromkeys(sorted(idle), (1000 + int(site.now_s), "a"))
    return moves


def test_idle_nodes_that_a_job_cannot_use_do_not_put_its_offers_off_for_ever() -> None:
    """A node without GPUs is idle all the time, and each backfill cycle judges the job by it."""
    site = holding(7, jobs=[wait(1, 1)])
    useless = frozenset({"n7"})
    for _ in range(8):
        site.busy = {"n0"}
        site.held.pop("n0", None)
        plays(site, 150.0, keep_idle=useless)
        site.busy = set()
        plays(site, 150.0, keep_idle=useless)
    assert len(plays(site, 1900.0, keep_idle=useless)) >= 1
    site.busy = {"n0"}
    site.held.pop("n0", None)
    plays(site, 10.0, keep_idle=useless)
    site.busy = set()
    assert plays(site, 130.0, keep_idle=useless), "a job has ended"


def test_a_job_that_overtakes_one_before_it_gets_its_offer_again() -> None:
    site = with_void_offer(wait(2, 7, 9.0))
    assert site.after(20.0).look() == ()
    site.jobs = [wait(1, 1, 10.0), wait(2, 7, 9.0)]
    assert len(site.after(2.0).look()) == 1


def test_a_job_behind_one_that_loses_its_priority_gets_its_offer_again() -> None:
    site = with_void_offer(wait(2, 7, 9.0))
    assert site.after(20.0).look() == ()
    site.jobs = [wait(1, 1), wait(2, 7, 0.5)]
    assert len(site.after(2.0).look()) == 1


def test_a_job_before_it_that_needs_less_now_makes_a_void_offer_again() -> None:
    """Its reservation is another one now."""
    site = with_void_offer(wait(2, 7, 9.0))
    assert site.after(20.0).look() == ()
    site.jobs = [wait(1, 1), wait(2, 6, 9.0)]
    assert len(site.after(2.0).look()) == 1


def test_the_end_of_a_job_after_the_cycle_began_is_not_judged_by_it() -> None:
    site = holding(7, busy={"n7"}, jobs=[wait(1, 2)])
    site.look()
    site.after(2.0).look()
    site.after(2.0).look()
    site.planned_s = SERVER_S + site.now_s + 1.5
    site.busy, site.held["n7"] = set(), (900, "a")
    site.after(2.0).look()
    site.held |= dict.fromkeys(ALL - site.held.keys(), (901, "a"))
    assert not site.blocks
    assert site.after(10.0).look(), "it may start now that n7 is no longer busy"


def test_the_tasks_of_an_array_that_start_elsewhere_keep_no_offer_open() -> None:
    """Tasks that need a GPU start one after another where there are some, and never on held
    nodes.
    """
    site = holding(6, busy={"n6", "n7"})
    moves, idle_s = 0, 0.0
    for left in range(400, 100, -1):
        site.jobs = [wait(1, left, task_size=1)]
        moves += bool(plays(site, 2.0))
        idle_s += 2.0 * len(ALL - site.held.keys() - site.busy)
    assert idle_s <= 0.3 * 600.0 * 6
    assert moves <= 4


def test_a_user_who_changes_what_a_job_needs_all_the_time_costs_few_moves() -> None:
    site, moves = holding(jobs=[wait(1, 7)]), list[float]()
    for _ in range(1800):
        moves += plays(site, 2.0, cycle_s=5.0)
        if not site.blocks:
            site.jobs = [wait(1, 15 - site.jobs[0].size)]
    late = [at_s for at_s in moves if at_s > 1800.0]
    assert len(late) <= 3 * (1800.0 / LONGEST_REST_S + 1)


def test_short_jobs_on_the_last_node_that_a_job_needs_cost_few_moves() -> None:
    """The job fits whenever one of them ends, and no longer when the next one starts."""
    site, moves = holding(jobs=[wait(1, 8)]), list[float]()
    for number in range(1800):
        site.busy = {"n0"} if number % 2 else set()
        site.held.pop("n0", None)
        moves += plays(site, 2.0, keep_idle=frozenset({"n0"}))
    assert 10 < len(moves) <= 3600 / LONGEST_REST_S + 8
    site.busy = set()
    assert waits_s(site) <= 2.0


def test_a_node_that_a_job_did_not_take_once_is_offered_again_where_no_other_is_left() -> None:
    """The job waited for a reservation then. Main jobs have all other nodes since, and the pilot
    has that one.
    """
    site = holding(3, busy=set(NODES[3:7]), jobs=[wait(1, 1), wait(2, 8, 9.0)])
    while not site.released:
        plays(site, 2.0, keep_idle=frozenset({"n7"}))
        assert site.now_s < 60.0
    site.held, site.busy = {"n7": (900, "a")}, set(NODES[:7])
    assert site.after(2.0).look() == ()
    site.jobs = [wait(1, 1)]
    assert plays(site, 20.0), "the job waits for ever"


def test_a_job_that_waits_for_days_has_thousands_of_void_offers() -> None:
    site = holding(jobs=[wait(1, 2)])
    site.look()
    memory = site.memories["a"]
    (offer,) = memory.offers.offers
    offers = replace(memory.offers, offers=(replace(offer, void_count=5000),))
    site.memories["a"] = replace(memory, offers=offers)
    site.after(2.0).look()
    site.after(2.0).look()
    site.planned_s = SERVER_S + site.now_s + 0.5
    site.after(2.0).look()
    assert not site.blocks


def test_a_step_of_the_schedulers_clock_makes_no_offer_void() -> None:
    for step_s in (3600.0, -3600.0):
        site = holding(jobs=[wait(1, 2)])
        site.planned_s = SERVER_S - 10.0
        site.look()
        site.after(2.0).look()
        for _ in range(10):
            queue = site.after(2.0).queue()
            site.look(queue=replace(queue, server_s=queue.server_s + step_s))
            assert site.blocks, "no cycle has begun"
        queue = site.after(2.0).queue()
        planned_s = queue.server_s + step_s - 1.0
        for _ in range(3):
            queue = site.after(2.0).queue()
            site.look(queue=replace(queue, server_s=queue.server_s + step_s, planned_s=planned_s))
        assert not site.blocks


def test_a_job_that_starts_between_two_calls_is_no_reason_to_release_another_node() -> None:
    """The list of jobs is read before the nodes: it still waits, and has its nodes already."""
    site = holding(6, busy={"n6", "n7"}, jobs=[wait(1, 2)])
    released = site.look()
    assert len(released) == 2
    site.busy |= set(released)
    assert site.after(2.0).look() == ()
    assert site.blocks
    assert len(site.after(2.0).look()) == 2, "these were another job's"


def test_nodes_that_only_look_alike_keep_no_job_waiting() -> None:
    """Two idle nodes of the only kind do not suit a job, and held ones do: they are neighbors."""
    site = holding(6, jobs=[wait(1, 2)], kinds=(ALL,))
    begun_s, number = site.now_s, 0
    while not site.released:
        number += 1
        if number % 60 == 0:  # a main job comes and goes: the plan may have changed
            site.busy = {"n0"}
            site.held.pop("n0", None)
        elif number % 60 == 10:
            site.busy = set()
        plays(site, 2.0, keep_idle=frozenset({"n6", "n7"}))
        assert site.now_s - begun_s <= 2 * OVERDUE_S, "the job waits for ever"
