"""Lists of nodes in Slurm's answers: what they stand for, and how much of it one answer may
contain.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from hypothesis import given, settings
from hypothesis import strategies as st
from support.recorded_slurm import MARK

from bftrainer.config.host_lists import MOST_NODES
from bftrainer.errors import SchedulerError
from bftrainer_clusters.slurm import setup, text
from bftrainer_clusters.slurm.hostlists import MOST_LISTED, HostLists, parse_hostlist


def test_no_nodes() -> None:
    assert parse_hostlist("(null)") == parse_hostlist("") == frozenset()


@pytest.mark.parametrize(
    "listed",
    [
        "node[1-",
        "node[3-1]",
        "n1!n2",
        "@all",
        "None assigned",
        "n[1-3]&n2",
        "x y",
        "gpu*",
        "n[1-100/2]",
        "n[[1-9]]",
        "n[1-200001]",
        "n[1-199999],m[1-2]",
        "n" * 300 + "[1-100000]",
        "a" * 1_000_001,
    ],
    ids=lambda listed: listed[:24],
)
def test_what_is_no_list_is_refused_with_its_text(listed: str) -> None:
    with pytest.raises(SchedulerError, match="not a list of nodes") as error:
        parse_hostlist(listed)
    assert "\n" not in str(error.value)


@st.composite
def _lists(draw: st.DrawFn) -> str:
    """As Slurm writes them: the ranges of a pair of brackets have one width."""

    def brackets() -> str:
        width = draw(st.integers(1, 4))
        ends = st.tuples(st.integers(0, 60), st.integers(0, 12))
        pieces = draw(st.lists(ends, min_size=1, max_size=4))
        ranges = [f"{a:0{width}d}-{a + n:0{width}d}" if n else f"{a:0{width}d}" for a, n in pieces]
        return f"[{','.join(ranges)}]"

    prefixes = draw(
        st.lists(st.sampled_from(["n", "node", "cpn-f13-", "a.b-", "gpu_"]), min_size=1, max_size=3)
    )
    return ",".join(
        prefix
        + draw(st.sampled_from(["", brackets(), brackets() + "x" + brackets(), brackets() + "s"]))
        for prefix in prefixes
    )


@settings(deadline=None)
@given(_lists())
def test_clustershell_reads_the_same(listed: str) -> None:
    assert parse_hostlist(listed) == frozenset(NodeSet(listed, resolver=RESOLVER_NOGROUP))


def _reserved(lists: list[str]) -> str:
    return "".join(
        f"ReservationName=r{n} StartTime=1 EndTime=2 Nodes={each}\n" for n, each in enumerate(lists)
    )


def _planned(lists: list[str]) -> str:
    rows = "".join(f"{n}|eve|main|5|{each}|1|Priority|{MARK}\n" for n, each in enumerate(lists))
    return f"JOBID|USER|PARTITION|START_TIME|SCHEDNODES|NODES|REASON|{MARK}\n{rows}"


def _partitions(lists: list[str]) -> str:
    more = "PriorityTier=1 PreemptMode=OFF GraceTime=0 MaxTime=UNLIMITED State=UP RootOnly=NO"
    return "".join(f"PartitionName=p{n} Nodes={each} {more}\n" for n, each in enumerate(lists))


ANSWERS: dict[str, Callable[[list[str]], object]] = {
    "pending": lambda lists: [job.nodes for job in text.parse_pending(_planned(lists), MARK)],
    "reservations": lambda lists: [
        each.nodes for each in text.parse_reservations(_reserved(lists))
    ],
    "partitions": lambda lists: [
        each.nodes for each in setup.parse_partitions(_partitions(lists)).values()
    ],
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_lists_of_one_answer_are_bounded_in_sum(answer: str) -> None:
    """Each of these lists is fine by itself."""
    with pytest.raises(SchedulerError, match="names more than 200,000 nodes"):
        ANSWERS[answer]([f"{chr(97 + n)}[1-20000]" for n in range(11)])


def test_lists_of_the_same_nodes_are_bounded_in_sum() -> None:
    lists = HostLists(most_listed=2_000)
    with pytest.raises(SchedulerError, match="lists more than 2,000 nodes in sum"):
        [lists.read(f"n[1-100],m{n}") for n in range(21)]


@pytest.mark.parametrize("answer", ANSWERS)
def test_equal_lists_cost_as_much_as_one(answer: str) -> None:
    """So 5,000 jobs planned on all of the cluster do not stop a pilot."""
    read = ANSWERS[answer](["n[1-9408]"] * 5000)
    assert len(read) == 5000
    assert len({id(nodes) for nodes in read}) == 1


def test_the_largest_clusters_fit() -> None:
    lists = HostLists()
    for left_out in (1, 2):
        assert len(lists.read(f"c[1-{left_out}],c[{left_out + 2}-158976]")) == 158975
    assert MOST_LISTED > 12 * 158975
    assert len(parse_hostlist(f"n[1-{MOST_NODES}]")) == MOST_NODES
