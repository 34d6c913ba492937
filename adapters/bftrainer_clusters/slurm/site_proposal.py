"""The keys of a pilot's configuration that a Slurm site's answers decide, each with its reason.
Pure.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from bftrainer.cluster.site_advice import DecidedKey, SiteProposal, SiteWishes
from bftrainer.config.pilot import NodesConfig
from bftrainer.counted import counted
from bftrainer.errors import UndecidedError
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.site_choice import Place, SiteChoice, SiteView, Way
from bftrainer_clusters.slurm.site_limits import Holders
from bftrainer_clusters.slurm.text import hides_jobs

WORST_WAIT_S = 1800.0
"""Time limit of a holder whose node the pilot releases itself: a main job waits no longer, whatever
happens to the pilot.
"""
HIDDEN_WINDOW_S = 3600.0
"""Where pending jobs are hidden, no window is seen, and a node is not held for longer."""
_MAX_NODES_PER_HOLDER = 64
_COUNTS_JOBS = re.compile("Jobs|Submit")
_BY_OPTION = "given on the command line"


@dataclass(frozen=True, slots=True)
class Network:
    """How this host reaches the compute nodes. ``network`` is empty for the loopback;
    ``why_none``: what is in the way.
    """

    interface: str = ""
    network: str = ""
    node: str = ""
    why_none: str = ""


def proposal_of(
    view: SiteView,
    choice: SiteChoice,
    holders: Holders,
    network: Network,
    wishes: SiteWishes,
    cluster: str = "",
) -> SiteProposal:
    """Return the configuration keys for a chosen place, each with its reason; ``holders`` are the
    limits there.

    Raises ``UndecidedError`` where holders would be a chain of short jobs and the user has not said
    that the site's rules allow one.
    """
    place = choice.place
    if place.way is not Way.SITE and not wishes.chains_allowed:
        raise UndecidedError("--chains-allowed", _question_of_rules(place))
    keys = [
        *_place_keys(choice, cluster),
        *_way_keys(view, place, holders, wishes),
        *_size_keys(view, place, holders, wishes),
        *_network_keys(network, wishes),
    ]
    return SiteProposal(tuple(keys), tuple(_remarks_for_user(choice, network)))


def settings_of(proposal: SiteProposal) -> SlurmSettings:
    """Return the table [slurm] of a proposal."""
    values = {key.key: key.value for key in proposal.keys if key.table == "slurm"}
    return SlurmSettings.model_validate(values)


def folded(names: Iterable[str]) -> tuple[str, ...]:
    """Fold node names into host lists, one for each form of name: n01, n02, n03, login ->
    ``login``, ``n[01-03]``.
    """
    forms: dict[tuple[str, int], list[int]] = {}
    lists: list[str] = []
    for name in sorted(names):
        match = re.fullmatch(r"(.*?)(\d{1,9})", name)
        if match is None:
            lists.append(name)
        else:
            forms.setdefault((match[1], len(match[2])), []).append(int(match[2]))
    for (prefix, width), numbers in forms.items():
        spans = ",".join(_number_spans(sorted(numbers), width))
        is_single = len(numbers) == 1
        lists.append(f"{prefix}{spans}" if is_single else f"{prefix}[{spans}]")
    return tuple(lists)


def _number_spans(numbers: list[int], width: int) -> Iterator[str]:
    for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        span = [number for _, number in group]
        first, last = f"{span[0]:0{width}}", f"{span[-1]:0{width}}"
        yield first if first == last else f"{first}-{last}"


def _question_of_rules(place: Place) -> str:
    """Return the question whether the site's rules allow a chain of short holder jobs."""
    minutes = WORST_WAIT_S / 60
    return (
        f"Slurm does not end holders in {place.words} at once ({place.why}), so the pilot would "
        f"submit one job of {minutes:g} min after another there: do the site's rules allow that, "
        "and is a short job charged for no more than its own time"
    )


def _place_keys(choice: SiteChoice, cluster: str) -> Iterator[DecidedKey]:
    """Yield the keys that name the place: cluster, partition, QOS, account, and nodes to leave
    alone.
    """
    place = choice.place
    if cluster:
        yield DecidedKey("slurm", "cluster", cluster, "SLURM_CLUSTERS names it")
    yield DecidedKey("slurm", "partition", place.partition.name, f"{place.words}: {place.why}")
    if place.qos:
        factor = f"UsageFactor {place.usage_factor:g}"
        yield DecidedKey("slurm", "qos", place.qos, f"{factor}; your account has it")
    if choice.account:
        is_single = len(place.accounts) == 1
        reason = "your only account there" if is_single else "your default account"
        yield DecidedKey("slurm", "account", choice.account, reason)
    if place.exclude:
        reason = "main jobs of these nodes would wait for holders"
        yield DecidedKey("nodes", "exclude", folded(place.exclude), reason)


def _way_keys(
    view: SiteView, place: Place, holders: Holders, wishes: SiteWishes
) -> Iterator[DecidedKey]:
    """Yield the keys that decide who frees nodes for main jobs, and how long a holder lasts."""
    assert place.way is not None, "choose() has refused"
    if "give_way" in NodesConfig.model_fields:
        yield DecidedKey("nodes", "give_way", place.way.value, _way_words(place))
    has_own_limit = "worst_wait_s" in NodesConfig.model_fields
    longest_s, why = holders.longest
    default_s = SlurmSettings.model_fields["longest_s"].default
    if wishes.longest_s is not None:
        yield DecidedKey("slurm", "longest_s", wishes.longest_s, _BY_OPTION)
    elif place.way is not Way.SITE and not has_own_limit:
        reason = "a main job waits no longer for a holder, whatever happens to the pilot"
        yield DecidedKey("slurm", "longest_s", min(WORST_WAIT_S, longest_s), reason)
    elif longest_s < default_s:
        yield DecidedKey("slurm", "longest_s", longest_s, f"{why} {longest_s:g} s")
    if hides_jobs(view.facts.config_text, view.user):
        window_s = HIDDEN_WINDOW_S if place.way is Way.SITE else WORST_WAIT_S
        reason = "PrivateData hides pending jobs, so no end of a window is seen"
        yield DecidedKey("slurm", "assume_window_s", window_s, reason)


def _size_keys(
    view: SiteView, place: Place, holders: Holders, wishes: SiteWishes
) -> Iterator[DecidedKey]:
    """Yield the keys for the workers per node, and for the nodes per holder."""
    sizes = Counter(
        view.gpus[node] for node in place.partition.nodes - place.exclude if view.gpus.get(node, 0)
    )
    if wishes.slots is not None:
        yield DecidedKey("nodes", "slots", wishes.slots, _BY_OPTION)
    elif sizes:
        yield DecidedKey("nodes", "slots", min(sizes), _gpu_words(sizes))
    per_holder, cap, why = _nodes_per_holder(place, holders)
    if wishes.nodes_per_holder is not None:
        yield DecidedKey("slurm", "nodes_per_holder", wishes.nodes_per_holder, _BY_OPTION)
    elif per_holder > 1:
        reason = f"{why}: {cap} jobs for {counted(place.nodes, 'node')}"
        yield DecidedKey("slurm", "nodes_per_holder", per_holder, reason)


def _gpu_words(sizes: Counter[int]) -> str:
    """Return the reason for ``nodes.slots``: one worker for each GPU, of the smallest node if nodes
    differ.
    """
    if len(sizes) == 1:
        return "one worker for each GPU of a node"
    kinds = ", ".join(
        f"{counted(nodes, 'node')} with {size}" for size, nodes in sorted(sizes.items())
    )
    return f"one worker for each GPU of the smallest node ({kinds}); [classes] can tell them apart"


def _nodes_per_holder(place: Place, holders: Holders) -> tuple[int, int, str]:
    """Return how many nodes a holder needs for all nodes to be held within the limits on jobs; the
    strictest such limit, and what sets it (1, 0 and empty without one).
    """
    caps = [
        (int(value), f"{source.name} has {key} {value}")
        for source in holders.sources
        for key, value in source.caps.items()
        if _COUNTS_JOBS.search(key) and value.isdecimal() and int(value)
    ]
    if not caps:
        return 1, 0, ""
    cap, why = min(caps, key=itemgetter(0))
    return min(math.ceil(place.nodes / cap), _MAX_NODES_PER_HOLDER), cap, why


def _network_keys(network: Network, wishes: SiteWishes) -> Iterator[DecidedKey]:
    """Yield the keys by which workers on the nodes reach the pilot's host."""
    if wishes.interface:
        yield DecidedKey("workers", "interface", wishes.interface, _BY_OPTION)
    elif network.interface:
        reason = f"the route to node {network.node}"
        yield DecidedKey("workers", "interface", network.interface, reason)
    if network.network:
        reason = "the network of that interface, with all nodes that were looked up"
        yield DecidedKey("workers", "allow_from", (network.network,), reason)


def _remarks_for_user(choice: SiteChoice, network: Network) -> Iterator[str]:
    """Yield remarks for the user: who frees nodes, the second-best place, and what is left
    undecided.
    """
    yield _way_words(choice.place)
    if choice.second is not None:
        second = choice.second
        assert second.way is not None, "only such places are second"
        yield f"Second best: {second.words}, mode {second.way.value} ({second.why})."
    else:
        yield "There is no second partition for holders."
    if network.why_none:
        yield f"workers.interface is not decided ({network.why_none}): set it."


def _way_words(place: Place) -> str:
    """Say in a sentence who frees nodes for main jobs."""
    match place.way:
        case Way.SITE:
            return f"Mode site: Slurm ends holders for main jobs ({place.why})."
        case Way.BLIND:
            how = "the pilot releases nodes when Slurm's counters say that a job waits"
        case _:
            how = "the pilot watches the queue and releases nodes for main jobs"
    return f"Mode {place.way.value if place.way else 'none'}: {how} ({place.why})."
