"""Reading only the new lines of squeue's list of holders gives what reading all of it gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recorded_slurm import MARK

from bftrainer.errors import BFTrainerError
from bftrainer_clusters.slurm import jobs as slurm_jobs
from bftrainer_clusters.slurm.hold import Listing
from bftrainer_clusters.slurm.jobs import HolderJob
from bftrainer_clusters.slurm.peers import claim_words

SAID = slurm_jobs.comment("main", "me")
HEADER = f"JOBID|STATE|REQ_NODES|END_TIME|REASON|COMMENT|{MARK}\n"
ROWS = st.tuples(
    st.sampled_from(["PENDING", "RUNNING", "RUNNING", "COMPLETING", "PREEMPTED", "SOMETHING_NEW"]),
    st.sampled_from(["N/A", "1790000000", "1790000060", "soon"]),
    st.sampled_from(
        [SAID, f"{SAID}{claim_words((), 8)}", slurm_jobs.comment("other", "me"), "(null)"]
    ),
)
ANSWERS = st.builds(
    lambda rows, header, cut: (
        header
        + "".join(
            f"{i}|{state}|n{i}|{ends}|None|{said}|{MARK}\n"
            for i, (state, ends, said) in rows.items()
        )
    )[: -cut or None],
    st.dictionaries(st.integers(1, 5), ROWS, max_size=5),
    st.sampled_from([HEADER, HEADER, HEADER, "", "garbled\n"]),
    st.sampled_from([0, 0, 0, 1, 30]),
)


def answer(read: Callable[[], dict[str, HolderJob]]) -> object:
    try:
        return read()
    except BFTrainerError as error:
        return type(error)


@pytest.mark.parametrize("hosts", [(), ("n[1-3]", "gpu*")])
@pytest.mark.parametrize("wants", [None, 0, 12])
def test_a_holder_with_claims_in_its_comment_is_the_pilots(
    hosts: tuple[str, ...], wants: int | None
) -> None:
    """A successor that did not find it would leave it to its lease."""
    said = SAID + claim_words(hosts, wants)
    assert slurm_jobs.parse_holder(f"1|RUNNING|n1|1790000000|None|{said}", SAID) is not None
    assert (
        slurm_jobs.parse_holder(
            f"1|RUNNING|n1|1790000000|None|{said}", slurm_jobs.comment("ma", "me")
        )
        is None
    )


@given(st.lists(ANSWERS, max_size=6))
def test_one_answer_after_the_other_is_read_as_each_by_itself(texts: list[str]) -> None:
    listing = Listing(SAID)
    for text in texts:
        assert answer(partial(listing.read, text, MARK)) == answer(
            partial(Listing(SAID).read, text, MARK)
        )


def test_a_line_that_has_not_changed_is_the_very_same_job() -> None:
    listing = Listing(SAID)
    first, second = (
        f"1|RUNNING|n1|1790000000|None|{SAID}|{MARK}\n",
        f"2|PENDING|n2|N/A|None|{SAID}|{MARK}\n",
    )
    before = listing.read(HEADER + first + second, MARK)
    # Every call has another mark.
    again = (HEADER + first + second.replace("PENDING|n2|N/A", "RUNNING|n2|1790000000")).replace(
        MARK, "f" * 16
    )
    after = listing.read(again, "f" * 16)
    assert after["1"] is before["1"]
    assert (before["2"].state, after["2"].state) == ("PENDING", "RUNNING")
