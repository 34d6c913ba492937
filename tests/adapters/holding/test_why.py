"""Why a holder ended, in the audit's words."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from live_house import house

from bftrainer.domain.cluster import Fragment, FragmentPhase
from bftrainer.persistence.registry import Registry
from bftrainer.persistence.registry_writer import RegistryWriter
from bftrainer_adapters.holding.holder_fragment import HolderFragment, why_left
from bftrainer_adapters.holding.holder_jobs import JobPhase


@dataclass
class Listed:
    state: str
    id: str = "7"
    node: str = "n1"
    phase: JobPhase = JobPhase.OVER
    reason: str = "None"
    ends_s: float | None = None


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ("1700000000.123456 SIGTERM killed=3 took_s=0.021000", "preempted; 3 processes ended in 0.02 s"),
        ("1700000000.123456 notice killed=1 took_s=1.500000", "preempted; 1 process ended in 1.50 s"),
        ("1700000000.123456 SIGTERM killed=0 took_s=0.000010", "preempted"),
        ("1700000000.123456 released killed=0 took_s=0.000010", "released"),
        ("1700000000.123456 lease lapsed killed=2 took_s=0.1", "lease lapsed; 2 processes ended in 0.10 s"),
        ("cut off", "cut off"),
    ],
)
def test_the_mark_of_a_payload_is_words_without_a_raw_time(mark: str, words: str) -> None:
    assert why_left(mark) == words


@pytest.mark.parametrize(
    ("state", "why"), [("PREEMPTED", "preempted; 3 processes"), ("CANCELLED", "canceled; 3 processes")]
)
def test_who_sent_sigterm_is_known_when_the_job_is_over(state: str, why: str) -> None:
    held = HolderFragment(Fragment("n1#7", FragmentPhase.READY), 0.0)
    held = held.become(FragmentPhase.LEAVING, 1.0, "preempted; 3 processes").listed_as(Listed(state), 2.0)
    assert (held.phase, held.fragment.why) == (FragmentPhase.GONE, why)


def test_the_audit_takes_the_better_word_over(tmp_path: Path) -> None:
    ends = {
        "n1#1": ("preempted", "canceled"), "n1#2": ("preempted; x", "PREEMPTED"), "n1#3": ("unused", "canceled"),
        "n1#4": ("", "x"),
    }  # fmt: skip
    with closing(house(tmp_path / "state").store(writes=True)) as store:
        registry, writer = Registry(store), RegistryWriter(store)
        for name, (first, last) in ends.items():
            writer.fragment_asked(name, "n1", 0.0)
            writer.fragment_asked_back(name, 1.0, first)
            writer.fragment_released(name, 2.0, last)
        found = [(f.reason, f.asked_back_s, f.released_s) for f in registry.fragments()]
    assert found == [("canceled", 1.0, 2.0), ("preempted; x", 1.0, 2.0), ("unused", 1.0, 2.0), ("x", 1.0, 2.0)]
