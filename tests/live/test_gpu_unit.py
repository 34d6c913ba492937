"""The pilot where the unit is a GPU: idle nodes as parts with all of their GPUs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from support.live_house import House, configuration, house, spec

from bftrainer.cluster.model import Availability, Device, Idle, NodeView
from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.config.validation import check_table
from bftrainer.console.cli.submit import sizes_text
from bftrainer.console.client.gate import Draft, Gate
from bftrainer.decide.domain.state import State
from bftrainer.errors import InputFileError
from bftrainer.wires.hosts_file import format_hosts

GPU: dict[str, Any] = {"unit": "gpu", "holder": "slurm"}
NODES = tuple(f"n{i}" for i in range(1, 7))


def site(path: Path, gpus: int, **nodes: Any) -> House:
    home = house(path, nodes=nodes)
    for name in NODES:
        idle = Idle(gpus, 16, 64_000)
        home.cluster.hardware[name] = NodeView(
            name, Availability.FREE, ("main",), (Device("a100", gpus),), 16, idle=idle
        )
    return home


def by_gpu(name: str, most: int, least: int = 1, **keys: Any) -> TrainerSpec:
    made = spec(name, most, min_nodes=least, **keys)
    return made.model_copy(update={"min_gpus": least, "max_gpus": most})


def hosts(home: House, name: str) -> list[str]:
    return format_hosts(home.launcher.drivers[name].hosts).split()


def sizes(state: State) -> dict[str, int]:
    return {a.trainer.id: len(a.nodes) for a in state.active}


def test_trainers_get_gpus_of_idle_nodes_and_a_holder_leaves_with_all_of_them(
    tmp_path: Path,
) -> None:
    home = site(tmp_path / "s", 4, **GPU)
    home.cluster.give("n1", "n2")
    home.submit(by_gpu("a", 5), by_gpu("b", 3))
    seen: list[tuple[list[str], list[str]]] = []
    home.at(15, lambda: seen.append((hosts(home, "a"), hosts(home, "b"))))
    home.at(16, lambda: home.cluster.take("n1"))
    state = home.pilot(30)
    assert {(c.node, c.gpus, c.cpus, c.node_class) for c in home.cluster.claims} == {
        ("n1", 4, 0, "a100"),
        ("n2", 4, 0, "a100"),
    }
    every = sorted(
        line.split(":")[0] + gpu
        for line in [*seen[0][0], *seen[0][1]]
        for gpu in line.split(":")[3].split(",")
    )
    assert every == [f"n{node}{gpu}" for node in (1, 2) for gpu in range(4)], "each GPU once"
    assert sum(sizes(state).values()) == 4
    assert not home.launcher.overlaps
    assert home.differences() == []
    left = [e.event for e in home.entries() if any(getattr(c, "left", ()) for c in e.event.changes)]
    (change,) = [c for c in left[0].changes if getattr(c, "left", ())]
    assert {name.partition("#")[0] for name in change.left} == {"n1"}
    assert len(change.left) == 4


def test_a_worker_that_is_killed_takes_its_part_with_it_and_demand_counts_gpus(
    tmp_path: Path,
) -> None:
    home = site(tmp_path / "s", 4, **GPU)
    home.cluster.give(*NODES)
    home.submit(by_gpu("a", 6))
    home.pilot(20)
    assert len(home.cluster.acquired) == 2, "6 GPUs are on two nodes of 4"


def story(path: Path, seed: int, by: bool) -> list[tuple[float, tuple[frozenset[str], ...]]]:
    """What was decided, when, and on which nodes."""
    home = site(path, 1, **(GPU if by else {}))
    chance = random.Random(seed)
    for at_s in sorted(chance.uniform(0, 80) for _ in range(40)):
        node, joins = chance.choice(NODES), chance.random() < 0.6
        home.at(
            at_s,
            lambda node=node, joins=joins: (home.cluster.give if joins else home.cluster.take)(
                node
            ),
        )
    for number in range(4):
        one = (by_gpu if by else spec)(
            f"t{number}", chance.randint(1, 5), priority=chance.choice([1.0, 2.0])
        )
        home.at(chance.uniform(0, 40), lambda one=one: home.submit(one))
    home.pilot(90)
    return [
        (
            e.event.at_s,
            tuple(frozenset(n.partition(".")[0] for n in nodes) for nodes in e.plan.nodes),
        )
        for e in home.entries()
    ]


@pytest.mark.parametrize("seed", range(2))
def test_with_one_gpu_a_node_the_units_are_the_same(tmp_path: Path, seed: int) -> None:
    by_node, by_gpus = (story(tmp_path / unit, seed, unit == "gpu") for unit in ("node", "gpu"))
    assert len(by_node) > 10
    assert by_node == by_gpus


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"max_gpus": 4, "slots": 2}, "remove slots"),
        ({"max_gpus": 4, "max_nodes": 2}, "max_nodes: max_gpus counts GPUs"),
        ({"max_nodes": 2, "min_gpus": 2}, "min_gpus needs max_gpus"),
    ],
)
def test_counts_of_gpus_stand_alone(keys: dict[str, int], problem: str) -> None:
    with pytest.raises(InputFileError, match=problem):
        check_table({"name": "t", "command": ["true"], **keys}, TrainerSpec, "t.toml")


def test_a_trainer_file_by_gpu_is_read_again() -> None:
    table = {
        "name": "t",
        "command": ["true"],
        "max_gpus": 4,
        "curve": {"gpus": [1, 4], "samples_per_s": [1.0, 3.0]},
    }
    made = check_table(table, TrainerSpec, "t.toml")
    assert (made.min_nodes, made.max_nodes, made.trainer().curve.nodes) == (1, 4, (1, 4))
    assert TrainerSpec.model_validate_json(made.model_dump_json()) == made


@pytest.mark.parametrize(("unit", "key"), [("gpu", "max_nodes"), ("node", "max_gpus")])
def test_a_trainer_counts_as_its_pilot_does(tmp_path: Path, unit: str, key: str) -> None:
    config = f'[nodes]\nunit = "{unit}"\nholder = "slurm"\n[slurm]\npartition = "scavenge"\n'
    (tmp_path / "bftrainer.toml").write_text(config)
    draft = Draft({"name": "t", "command": ["true"], key: 2}, "t.toml", tmp_path)
    with pytest.raises(InputFileError, match=f'nodes[.]unit = "{unit}": expected .*, found {key}'):
        Gate(tmp_path, print).passed([draft])


@pytest.mark.parametrize(
    ("keys", "sizes"),
    [
        ({"max_gpus": 4}, "1 to 4 GPUs"),
        ({"max_gpus": 4, "sizes": [1, 2, 4]}, "1, 2 or 4 GPUs"),
        ({"max_nodes": 4, "sizes": [1, 2, 4]}, "1, 2 or 4 nodes"),
    ],
)
def test_sizes_are_said_in_what_they_count(keys: dict[str, Any], sizes: str) -> None:
    made = check_table({"name": "t", "command": ["true"], **keys}, TrainerSpec, "t.toml")
    assert sizes_text(made) == sizes


@pytest.mark.parametrize("nodes", [{"unit": "gpu"}, {**GPU, "slots": 4}])
def test_what_does_not_go_with_the_unit(nodes: dict[str, Any]) -> None:
    with pytest.raises(InputFileError, match=r'nodes[.]unit = "gpu"'):
        configuration({"nodes": nodes})
