"""What a pilot would harvest at a site and which main jobs it would delay, in sentences."""

from __future__ import annotations

from bftrainer.counted import counted
from bftrainer_replay.main_queue.outcome import Delays, QueueOutcome, Waits, WayOutcome
from bftrainer_replay.main_queue.ways import FreeingWay
from bftrainer_replay.report.words import precise

_NONE = 5e-5
"""A share that two decimals of a percent show as nothing."""


def seconds_text(seconds: float) -> str:
    """Write a delay in seconds, minutes or hours, as far as a reader needs."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"


def share_of_jobs(share: float) -> str:
    """Write a share of the main jobs in percent, or "none" where it rounds to nothing."""
    return "none" if share < _NONE else f"{share:.2%}"


def sentence_of(way: WayOutcome) -> str:
    """Say what a pilot would harvest at this site under a way, and whom it would delay."""
    return (
        f"{condition_of(way)}: the pilot would hold {precise(way.harvest)} of the idle node-hours. "
        f"{delays_text(way.delays)}"
    )


def condition_of(way: WayOutcome) -> str:
    """Return a text on the case in which figures hold: how held nodes are freed for main jobs.

    It says what the scheduler does, and what the pilot does.
    """
    rules = way.rules
    match rules.way:
        case FreeingWay.SITE:
            return "The scheduler preempts held nodes at once"
        case FreeingWay.YIELD:
            return "The scheduler does not preempt, and the pilot yields"
        case FreeingWay.BLIND:
            return "The queue is hidden, and the pilot yields by the scheduler's counters"
        case FreeingWay.LIFE:
            life = seconds_text(rules.life_s)
            return f"The scheduler preempts held nodes after {life}, and the pilot does not yield"
        case FreeingWay.KEEP:
            limit = seconds_text(rules.worst_wait_s)
            return f"Nobody frees held nodes before their time limit of {limit}"
        case FreeingWay.WINDOWS:
            return "Nobody frees held nodes, which are held only where the plan leaves them idle"


def delays_text(delays: Delays) -> str:
    """Return a sentence on how much later main jobs would start because of held nodes."""
    if not delays.longest_s:
        return "No main job would wait for a held node, apart from the time that preemption takes."
    later = f"at most {seconds_text(delays.p99_s)} later" if delays.p99_s else "without a delay"
    return (
        f"99 of 100 main jobs would start {later}, "
        f"{late_text(delays)} (mean {seconds_text(delays.mean_s)}, weighted by node-hours "
        f"{seconds_text(delays.by_node_s)})."
    )


def late_text(delays: Delays) -> str:
    """Say which share of the main jobs starts more than a minute late, and more than ten."""
    late, very_late = share_of_jobs(delays.late), share_of_jobs(delays.very_late)
    if late == very_late == "none":
        return "none more than a minute late"
    return f"{late} of all more than a minute late and {very_late} more than ten minutes"


def site_sentence(outcome: QueueOutcome, site: str) -> str:
    """Return what a pilot would hold and delay at a site that frees held nodes in the way ``site``.

    After a guaranteed run time, a pilot yields by default, and the scheduler alone is the
    alternative: the sentence has both.
    """
    way = outcome.way(site)
    if way.rules.way is not FreeingWay.LIFE:
        return sentence_of(way)
    yielding = outcome.way(FreeingWay.YIELD.value)
    return (
        f"The scheduler guarantees held nodes {seconds_text(way.rules.life_s)}, so the pilot "
        f"yields: it would hold {precise(yielding.harvest)} of the idle node-hours. "
        f"{delays_text(yielding.delays)} If it left that to the scheduler (nodes.give_way = "
        f'"site"), it would hold {precise(way.harvest)}, with '
        f"{late_text(way.delays)}."
    )


def compared_with_chance(outcome: QueueOutcome, way: WayOutcome) -> str:
    """Return a sentence on how mean waits change if held nodes are freed in this way.

    It also says how far they change by chance: without a pilot, if each start comes a few seconds
    late at random.
    """
    low, high = outcome.random_range
    plain = outcome.plain
    if plain.mean_s <= 0:
        return "Without a pilot, no job waits."
    return (
        f"Mean wait {_change_text(way.waits.mean_s, plain.mean_s)}, weighted by node-hours "
        f"{_change_text(way.waits.by_node_s, plain.by_node_s)}"
        f"{_by_chance(outcome, low, high)}."
    )


def _by_chance(outcome: QueueOutcome, low: Waits, high: Waits) -> str:
    """Return the range of both changes by chance, in parentheses; empty without random schedules.

    ``low`` and ``high`` are the shortest and longest mean waits of these.
    """
    if not outcome.random_waits:
        return ""
    plain = outcome.plain
    mean = f"{_change_text(low.mean_s, plain.mean_s)} to {_change_text(high.mean_s, plain.mean_s)}"
    shortest = _change_text(low.by_node_s, plain.by_node_s)
    longest = _change_text(high.by_node_s, plain.by_node_s)
    by_node = f"{shortest} to {longest}"
    return f" (by chance {mean}, and {by_node})"


def _change_text(wait_s: float, plain_s: float) -> str:
    """Write the relative change of a wait."""
    return f"{wait_s / plain_s - 1:+.1%}"


def chance_text(outcome: QueueOutcome) -> str:
    """Return sentences on what "by chance" means; empty if there were no random schedules."""
    if not outcome.random_waits:
        return ""
    return (
        f"By chance: the range of {counted(len(outcome.random_waits), 'schedule')} without a "
        f"pilot in which each start comes 0 to {outcome.noise_s:g} s late at random. Backfill is "
        "chaotic: a second decides which job gets a slot."
    )


def what_was_simulated(outcome: QueueOutcome) -> str:
    """Return sentences on what the figures are based on, and what they leave out."""
    part = ""
    if outcome.jobs < outcome.jobs_in_log:
        part = f", the first of {outcome.jobs_in_log:,}"
    notes = "".join(f" Note: {note}." for note in outcome.notes)
    return (
        f"Simulated: {counted(outcome.jobs, 'main job')} of {outcome.days:,.0f} days{part}, on "
        f"{counted(outcome.machine_nodes, 'node')}, first come, first served, with "
        f"{outcome.backfill} backfill. Without a pilot, {outcome.idle_share:.1%} of the "
        f"node-hours stay idle, and the mean wait is {seconds_text(outcome.plain.mean_s)}. A delay "
        "counts from the moment at which the scheduler would have started a job if no node had "
        "been held. Not simulated: priorities, features of nodes, the scheduler's own intervals."
        f"{notes}"
    )
