"""``bftrainer solve``: JSON in, JSON out; every error names file and key."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import bftrainer, complaint

A: dict[str, Any] = {
    "id": "a", "min_nodes": 1, "max_nodes": 8, "scale_up_s": 20, "scale_down_s": 10, "nodes": 3,
    "curve": {"nodes": [1, 4, 8], "samples_per_s": [100, 380, 700]},
}  # fmt: skip
B: dict[str, Any] = {
    "id": "b", "min_nodes": 2, "max_nodes": 8, "scale_up_s": 20, "scale_down_s": 10,
    "curve": {"nodes": [2, 8], "samples_per_s": [90, 300]},
}  # fmt: skip


def problem(**changes: Any) -> dict[str, Any]:
    return {"pool": 11, "forward_s": 120, "objective": "throughput", "trainers": [A, B]} | changes


def solve(document: object, *options: str) -> dict[str, Any]:
    ended = bftrainer("solve", "-", *options, stdin=json.dumps(document))
    assert ended.status == 0, ended
    answer: dict[str, Any] = json.loads(ended.out)
    return answer


def refused(document: object) -> str:
    return complaint(bftrainer("solve", "-", stdin=document if isinstance(document, str) else json.dumps(document)))


@pytest.mark.parametrize("solver", ["exact", "highs", "gurobi", "auto"])
def test_one_object_on_stdout(solver: str, tmp_path: Path) -> None:
    path = tmp_path / "problem.json"
    path.write_text(json.dumps(problem()))
    ended = bftrainer("solve", path, "--solver", solver)
    answer = json.loads(ended.out)
    assert (ended.status, ended.err) == (0, "")
    assert answer["counts"] == {"a": 8, "b": 3}
    # 120 s * (700 + 90 + 35) - O(3) = 286 2/3 * 20 s
    assert answer["objective_value"] == pytest.approx(120 * 825 - 20 * (100 + 280 * 2 / 3))
    assert (answer["status"], answer["gap"], answer["fallbacks"]) == ("optimal", 0.0, [])
    assert answer["solver"] == ("gurobi" if solver == "auto" else solver)
    assert 0 < answer["solve_s"] < 60
    assert "nodes" not in answer


def test_names_in_names_out_nested_and_in_name_order() -> None:
    pool = [f"n{i}" for i in range(1, 12)]
    answer = solve(problem(pool=pool, trainers=[A | {"nodes": ["n2", "n10", "n9"]}, B]), "--solver", "exact")
    assert answer["nodes"]["a"] == ["n1", "n2", "n3", "n4", "n5", "n6", "n9", "n10"]
    assert answer["nodes"]["b"] == ["n7", "n8", "n11"]


def test_sizes_are_the_only_legal_counts() -> None:
    assert solve(problem(trainers=[A | {"sizes": [0, 2, 5]}, B]))["counts"] == {"a": 5, "b": 6}
    assert solve(problem(pool=4, trainers=[A | {"sizes": [2]}, B]))["counts"] == {"a": 2, "b": 2}


def test_defaults_are_relative_speed_and_two_minutes() -> None:
    document = problem()
    del document["objective"], document["forward_s"]
    assert solve(document)["counts"] == solve(problem(objective="relative-speed"))["counts"]


def test_a_falling_curve_is_noted_and_used() -> None:
    falling = A | {"curve": {"nodes": [1, 4, 8], "samples_per_s": [100, 90, 700]}}
    ended = bftrainer("solve", "-", stdin=json.dumps(problem(trainers=[falling])))
    assert ended.status == 0
    assert ended.err == "note: a: throughput decreases at 4 nodes; the curve is used as given\n"


def changed(**changes: Any) -> dict[str, Any]:
    return problem(trainers=[A | changes, B])


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("{", "standard input:1: not JSON"),
        ([], "standard input: expected a JSON object, got a JSON list"),
        (problem(pol=3), "standard input: unknown key 'pol', did you mean 'pool'"),
        ({"trainers": []}, "pool: is missing"),
        (problem(pool=-1), "pool: expected a number of nodes up to 1,000,000 or a list of node names, got -1"),
        (problem(pool=2.5), "pool: expected a number of nodes up to 1,000,000 or a list of node names, got 2.5"),
        (problem(pool=2), "the trainers hold 3 nodes, more than the pool's 2"),
        (problem(pool=["n1", "n1"]), "pool: node 'n1' is listed twice"),
        (
            problem(pool=["n1", 3]),
            "pool: expected a number of nodes up to 1,000,000 or a list of node names, got ['n1', 3]",
        ),
        (problem(forward_s="long"), "forward_s: input should be a valid number, got 'long'"),
        (problem(objective="fame"), "objective: unknown objective 'fame'"),
        (problem(trainers={}), "trainers: input should be a valid array, got {}"),
        (problem(trainers=[A, A]), "trainers.1.id: another trainer has the id 'a'"),
        (changed(max_nodes=0), "trainers.0: min_nodes 1 is larger than max_nodes 0"),
        (changed(max_nodes=9), "trainers.0: the curve covers 1 to 8 nodes"),
        (changed(curve={"nodes": [1, 1], "samples_per_s": [1, 2]}), "trainers.0: a curve's node counts must strictly"),
        (
            changed(curve={"nodes": [1, 8], "samples_per_s": [1, -2]}),
            "trainers.0.curve.samples_per_s.1: input should be greater than or equal to 0, got -2",
        ),
        (changed(curve={"nodes": [1, 8]}), "trainers.0.curve.samples_per_s: is missing"),
        (changed(curve={"nodes": [1, 8], "samples_per_s": [1]}), "one value per node count, got 2 counts and 1 values"),
        (changed(scale_up_s=None), "trainers.0.scale_up_s: input should be a valid number, got None"),
        (changed(scale_up=3), "trainers.0: unknown key 'scale_up', did you mean 'scale_up_s'"),
        (changed(nodes=9), "trainers.0: holds 9 nodes, expected 0 to max_nodes 8"),
        (changed(nodes=["n1"]), "trainers.0.nodes: names, but the pool is a number"),
        (changed(sizes=[16]), "trainers.0: sizes must be 0 or within [1, 8], got 16"),
        (problem(pool=["n1"], trainers=[A]), "trainers.0.nodes: a number, but the pool has names"),
        (
            problem(pool=["n1"], trainers=[A | {"nodes": ["n2"]}]),
            "n2 is not in the pool; the pool must include the nodes held now",
        ),
        (
            problem(pool=["n1"], trainers=[A | {"nodes": ["n1"]}, B | {"nodes": ["n1"]}]),
            "n1 is also held by another trainer",
        ),
        (problem(pool=4, trainers=[A | {"sizes": [8]}]), "smallest legal sizes add up to 8 nodes, but the pool has 4"),
        (problem(objective="progress"), "trainers.0: trainer a: the 'progress' objective requires samples_total"),
        ('{"pool": 3, "trainers": [], "forward_s": NaN}', "forward_s: input should be a finite number, got nan"),
    ],
)
def test_every_error_names_file_and_key(document: object, expected: str) -> None:
    assert expected in refused(document)


def test_unknown_solver_and_file() -> None:
    assert "'cplex' is not one of 'auto', 'exact', 'highs', 'gurobi'" in complaint(
        bftrainer("solve", "-", "--solver", "cplex")
    )
    assert "nowhere.json: cannot be read: No such file" in complaint(bftrainer("solve", "nowhere.json"))
    assert "expected a number above 0" in complaint(bftrainer("solve", "-", "--time-limit-s", "0"))


def test_a_users_own_objective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("def fair(trainer, n):\n    return n ** 0.5\n")
    monkeypatch.chdir(tmp_path)
    assert solve(problem(pool=8, trainers=[A | {"nodes": 0}, B], objective="mine:fair"))["counts"] == {"a": 4, "b": 4}
    found = refused(problem(pool=8, trainers=[A | {"nodes": 0}], objective="os:system"))
    assert "objective os:system: TypeError: system() takes" in found


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    import sys

    return lambda module: monkeypatch.setitem(sys.modules, module, None)  # type: ignore[arg-type]


def test_a_missing_solver_is_a_user_error_with_the_command_to_install_it(without: Callable[[str], None]) -> None:
    without("gurobipy")
    said = complaint(bftrainer("solve", "-", "--solver", "gurobi", stdin=json.dumps(problem())))
    assert said.startswith("gurobi: no package: ")
    assert "pip install 'bftrainer[gurobi]'" in said


def test_the_chain_says_why_it_fell_back(without: Callable[[str], None]) -> None:
    without("gurobipy")
    without("highspy")
    answer = solve(problem())
    assert answer["solver"] == "exact"
    assert [(f["solver"], f["reason"]) for f in answer["fallbacks"]] == [
        ("gurobi", "no package"),
        ("highs", "no package"),
    ]
