"""What Slurm's node states and gres mean for the core."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bftrainer.cluster.model import Availability
from bftrainer.errors import UnknownStateError
from bftrainer_clusters.slurm.states import NodeFlag, availability_of, flags_of, node_view


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("IDLE", "FREE"),
        ("IDLE+PLANNED", "PLANNED"),
        ("idle-", "PLANNED"),
        ("IDLE+DYNAMIC_NORM", "FREE"),
        ("IDLE+CLOUD", "FREE"),
        ("IDLE+CLOUD+PLANNED", "PLANNED"),
        ("IDLE+DRAIN", "UNUSABLE"),
        ("IDLE+MAINTENANCE+RESERVED", "UNUSABLE"),
        ("ALLOCATED", "BUSY"),
        ("MIXED", "BUSY"),
        ("mixed-", "BUSY"),
        ("DOWN", "UNUSABLE"),
        ("IDLE+COMPLETING", "UNUSABLE"),
        ("IDLE+NOT_RESPONDING", "UNUSABLE"),
        ("idle*", "UNUSABLE"),
        ("IDLE+CLOUD+POWERED_DOWN", "ASLEEP"),
        ("idle~", "ASLEEP"),
        ("IDLE+POWERING_UP", "ASLEEP"),
        ("IDLE+POWERING_DOWN", "FALLING_ASLEEP"),
        ("idle!", "FALLING_ASLEEP"),
        ("DOWN+POWERED_DOWN", "UNUSABLE"),
        ("IDLE+DRAIN+POWERED_DOWN", "UNUSABLE"),
        ("ALLOCATED+POWERING_UP", "BUSY"),
        ("IDLE+POWERED_DOWN+PLANNED", "ASLEEP"),
        ("IDLE+REBOOT_REQUESTED", "UNUSABLE"),
    ],
)
def test_what_a_state_means(state: str, expected: str) -> None:
    assert availability_of(state) is Availability[expected]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("ALLOCATED", False),
        ("MIXED+PLANNED", False),
        ("ALLOCATED+POWERING_UP", False),
        ("ALLOCATED+COMPLETING", False),
        ("ALLOCATED+DRAIN", True),
        ("draining", True),
        ("MIXED+FAIL", True),
        ("ALLOCATED+REBOOT_REQUESTED", True),
        ("MIXED+POWER_DOWN", True),
        ("ALLOCATED+CLOUD+POWER_DRAIN", True),
        ("ALLOCATED+RESERVED", False),
    ],
)
def test_an_administrator_waits_for_the_jobs_of_a_node(state: str, expected: bool) -> None:
    assert node_view("n1", state, ("main",), "", 2).is_withdrawn is expected


@given(st.sets(st.sampled_from(NodeFlag), min_size=1, max_size=4))
def test_only_idle_nodes_are_ever_free(flags: set[NodeFlag]) -> None:
    found = availability_of("+".join(sorted(flag.name for flag in flags)))
    if found in (Availability.FREE, Availability.PLANNED):
        assert NodeFlag.IDLE in flags
        assert not flags & {
            NodeFlag.DOWN,
            NodeFlag.DRAIN,
            NodeFlag.ALLOCATED,
            NodeFlag.MIXED,
            NodeFlag.UNKNOWN,
        }
    assert (found is Availability.PLANNED) <= (NodeFlag.PLANNED in flags)


@pytest.mark.parametrize("state", ["", "IDLE+", "IDLE+SHINY", "sleepy", "IDLE IDLE", "*"])
def test_an_unknown_state_is_raised_with_its_text(state: str) -> None:
    for read in (flags_of, availability_of):
        with pytest.raises(UnknownStateError) as caught:
            read(state)
        assert repr(state) in str(caught.value)


def test_suffixes_and_short_words_are_flags_too() -> None:
    assert flags_of("idle*") == {NodeFlag.IDLE, NodeFlag.NOT_RESPONDING}
    assert flags_of("mixed-") == {NodeFlag.MIXED, NodeFlag.PLANNED}
    assert flags_of("idle~") == {NodeFlag.IDLE, NodeFlag.POWERED_DOWN}
    assert flags_of("drained$") == {NodeFlag.IDLE, NodeFlag.DRAIN, NodeFlag.MAINTENANCE}


def test_classes_of_nodes() -> None:
    def kind(gres: str) -> str:
        return node_view("n", "IDLE", (), gres, 32).node_class

    assert kind("gpu:a100:4(S:0-3,5),nsight:no_consume:1,gpfs:scratch:no_consume:1") == "4 a100"
    assert kind("gpu:2") == kind("gpu:no_consume:2") == "2 gpu"
    assert kind("gpu:model_a:2,gpu:model_b:2") == "2 model_a + 2 model_b"
    assert kind("gpu") == "1 gpu"
    assert kind("craynetwork:4") == kind("") == "32 cpus"
