"""What users write into names and comments forges no record, no field and no end of an answer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.recorded_slurm import MARK, recorded

from bftrainer.errors import SchedulerError
from bftrainer_clusters.slurm import job_list, jobs
from bftrainer_clusters.slurm import text as slurm_text
from bftrainer_clusters.slurm.peers import parse_peers
from bftrainer_clusters.slurm.records import fields_of, new_mark, parse_records

HEADER = "JOBID|USER|TEXT"
HOSTILE = st.text(
    alphabet=st.sampled_from("a1|\n\r\f\v\x1c\x85\u2028\u2029\x00 =[]-,;"), max_size=40
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10**9), HOSTILE), max_size=5))
def test_whatever_the_texts_are_there_are_as_many_records_with_their_ids(
    jobs: list[tuple[int, str]],
) -> None:
    answer = "".join(
        f"{line}|{MARK}\n" for line in (HEADER, *(f"{job}|ann|{text}" for job, text in jobs))
    )
    found = [fields_of(record, 3) for record in parse_records(answer, MARK, HEADER, "jobs")]
    assert found == [[str(job), "ann", text] for job, text in jobs]


@settings(deadline=None)
@given(st.lists(HOSTILE, max_size=3), st.data())
def test_an_answer_that_ends_early_is_truncated_wherever_it_ends(
    texts: list[str], data: st.DataObject
) -> None:
    answer = "".join(f"{line}|{MARK}\n" for line in (HEADER, *(f"7|ann|{text}" for text in texts)))
    whole = {i for i in range(len(answer)) if answer[:i].endswith(f"|{MARK}\n")}
    cut = data.draw(st.integers(0, len(answer) - 1).filter(lambda i: i not in whole))
    with pytest.raises(SchedulerError):
        parse_records(answer[:cut], MARK, HEADER, "jobs")


def test_a_mark_that_was_seen_in_another_call_ends_nothing() -> None:
    old = new_mark()
    answer = f"{HEADER}|{MARK}\n7|ann|x|{old}\n8|root|forged|{MARK}\n"
    assert parse_records(answer, MARK, HEADER, "jobs") == [f"7|ann|x|{old}\n8|root|forged"]
    assert len({new_mark() for _ in range(100)}) == 100


def test_what_a_pilot_wants_is_in_its_own_job_and_else_in_its_holders() -> None:
    def wants(*rows: str) -> list[tuple[str, int | None, bool, int]]:
        head = "JOBID|USER|STATE|NAME|REASON|NODES|COMMENT"
        text = "".join(f"{line}|{MARK}\n" for line in (head, *rows))
        return [
            (one.user, one.wants, one.is_short, one.held)
            for one in parse_peers(text, MARK, "mine", "me")
        ]

    holder = (
        "{}|eve|RUNNING|bftrainer-holder|None|4|bftrainer: idle node held by pilot p of "
        "eve; released at once{}"
    )
    own = (
        "9|eve|RUNNING|bftrainer-pilot|None|1|bftrainer: pilot p of eve; wants 12 short; "
        "hosts n[1-2]"
    )
    assert wants(holder.format(1, "; wants 3"), holder.format(2, "; wants 5 short")) == [
        ("eve", 3, False, 8)
    ]
    assert (
        wants(holder.format(1, "; wants 3"), own)
        == wants(own, holder.format(1, "; wants 3"))
        == [("eve", 12, True, 4)]
    )
    assert wants(holder.format(1, "")) == [("eve", None, False, 4)], "a pilot with share = false"
    for lie in ("; wants -1", "; wants 99999999", "; wants x", "; wants 1; wants 2"):
        assert wants(holder.format(1, lie))[0][3] == 4, "it counts"


def test_claims_count_once_their_job_runs_and_as_far_as_a_user_may_write() -> None:
    def answer(state: str, reason: str, name: str, *hosts: str) -> str:
        rows = (
            f"{i}|eve|{state}|{name}|{reason}|1|bftrainer: pilot p{i} of eve; hosts {h}"
            for i, h in enumerate(hosts, 1)
        )
        return "".join(
            f"{line}|{MARK}\n" for line in ("JOBID|USER|STATE|NAME|REASON|NODES|COMMENT", *rows)
        )

    def hosts_of(text: str) -> list[tuple[str, ...]]:
        return [one.hosts for one in parse_peers(text, MARK, "mine", "me")]

    pilot, holder = "bftrainer-pilot", "bftrainer-holder"
    assert hosts_of(answer("RUNNING", "None", pilot, "n[1-2]")) == [("n[1-2]",)]
    assert hosts_of(answer("PENDING", "Resources", pilot, "n[1-2]")) == []
    assert hosts_of(answer("PENDING", "Resources", holder, "n[1-2]")) == [()], (
        "it counts, its claim does not yet"
    )
    assert hosts_of(answer("PENDING", "JobHeldUser", holder, "n[1-2]")) == []
    many = hosts_of(answer("RUNNING", "None", holder, *(f"x{i}" + "y" * 690 for i in range(50))))
    assert 15 <= sum(bool(hosts) for hosts in many) <= 20


def test_words_of_administrators_are_no_fields_of_a_node() -> None:
    text = recorded("empty.nodes.txt").replace(
        "ExtSensorsTemp=n/s\n", "ExtSensorsTemp=n/s Comment=a\r\n\u2028State=DOWN\n"
    )
    assert {node.state for node in slurm_text.parse_nodes(text)} == {"IDLE"}


def test_the_mark_is_in_the_environment_of_squeue_and_in_no_argument() -> None:
    """Every user of a host reads the arguments of all processes there."""
    queries = (
        job_list.query(),
        job_list.query(ended=True),
        jobs.list_query("me"),
        jobs.known_query(["1"]),
        jobs.nodes_query(["1"]),
    )
    assert len({query.mark for query in queries}) == len(queries), "each call has its own"
    for query in queries:
        assert query.mark not in " ".join(query.argv)
        assert not {"-o", "-O", "--format", "--Format"} & {*query.argv}, (
            "they would come before the environment"
        )
        assert query.variables == {"SQUEUE_FORMAT": f"{query.columns}|{query.mark}"}
