"""``bftrainer solve``: a problem in, who gets how many nodes out; every error names file and key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.command_line import bftrainer, complaint

A: dict[str, Any] = {
    "id": "a",
    "min_nodes": 1,
    "max_nodes": 8,
    "scale_up_s": 20,
    "scale_down_s": 10,
    "nodes": 3,
    "curve": {"nodes": [1, 4, 8], "samples_per_s": [100, 380, 700]},
}
B: dict[str, Any] = {
    "id": "b",
    "min_nodes": 2,
    "max_nodes": 8,
    "scale_up_s": 20,
    "scale_down_s": 10,
    "curve": {"nodes": [2, 8], "samples_per_s": [90, 300]},
}
LARGE = {"nodes": [1, 1_000_000], "samples_per_s": [1, 1e6]}


def problem(**changes: Any) -> dict[str, Any]:
    return {"pool": 11, "objective": "throughput", "trainers": [A, B]} | changes


def changed(**changes: Any) -> dict[str, Any]:
    return problem(trainers=[A | changes, B])


@pytest.mark.parametrize("solver", ["exact", "highs", "gurobi", "milp", "auto"])
def test_every_solver_gives_the_same_counts(solver: str, tmp_path: Path) -> None:
    path = tmp_path / "problem.json"
    path.write_text(json.dumps(problem()))
    ended = bftrainer("solve", path, "--solver", solver, "--json")
    answer = json.loads(ended.out)
    assert (ended.status, ended.err) == (0, "")
    assert answer["counts"] == {"a": 8, "b": 3}
    # 120 s * (700 + 90 + 35) - O(3) = 286 2/3 * 20 s
    assert answer["objective_value"] == pytest.approx(120 * 825 - 20 * (100 + 280 * 2 / 3))
    assert (answer["status"], answer["gap"], answer["fallbacks"]) == ("optimal", 0.0, [])
    assert answer["solver"] == {"auto": "exact", "milp": "gurobi"}.get(solver, solver)


def test_the_text_says_who_gets_how_many_nodes() -> None:
    ended = bftrainer("solve", "-", stdin=json.dumps(problem(pool=12)))
    assert ended.status == 0, ended
    lines = [line.split() for line in ended.out.splitlines()]
    assert [lines[0], *lines[2:4]] == [
        ["TRAINER", "NOW", "NODES", "CHANGE"],
        ["a", "3", "8", "+5"],
        ["b", "0", "4", "+4"],
    ]
    assert lines[4][:4] == ["12", "of", "12", "nodes;"]
    assert "(exact, optimal, " in ended.out


def test_a_value_and_a_weight_are_used_as_they_stand() -> None:
    rows = [
        {name: item for name, item in row.items() if name != "curve"}
        | {"value": {"nodes": [1, 8], "per_s": [1.0, 8.0]}, "nodes": 0, "min_nodes": 1}
        for row in (A, B)
    ]
    heavy = [rows[0], rows[1] | {"weight": 2.0}]
    ended = bftrainer("solve", "-", "--json", stdin=json.dumps({"pool": 8, "trainers": heavy}))
    assert json.loads(ended.out)["counts"] == {"a": 0, "b": 8}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("{", "standard input:1: is not JSON"),
        ([], "standard input: expected a JSON object, got a JSON list"),
        (problem(pol=3), "standard input: unknown key 'pol', did you mean 'pool'"),
        ({"trainers": []}, "pool: is missing"),
        (
            problem(
                pool=1_000_000,
                trainers=[
                    A | {"id": str(i), "max_nodes": 600_000, "curve": LARGE} for i in range(20)
                ],
            ),
            "20 trainers of up to 600,000 nodes, expected a product of at most 10,000,000",
        ),
        (problem(pool=2), "the trainers hold 3 nodes, more than the pool's 2"),
        (problem(objective="fame"), "objective: unknown objective 'fame'"),
        (problem(objective="math:hypot"), "objective: unknown objective 'math:hypot'"),
        (problem(trainers=[A, A]), "trainers.1.id: another trainer has the id 'a'"),
        (changed(max_nodes=9), "trainers.0: the curve covers 1 to 8 nodes"),
        (changed(nodes=9), "trainers.0: holds 9 nodes, expected 0 to max_nodes 8"),
        (changed(curve=None), "trainers.0: 'a' has to have either a curve or a value"),
        (changed(scale_up=3), "trainers.0: unknown key 'scale_up', did you mean 'scale_up_s'"),
        (
            problem(pool=4, trainers=[A | {"sizes": [8]}]),
            "smallest legal sizes add up to 8 nodes, but the pool has 4",
        ),
        ('{"pool": 3, "trainers": [], "forward_s": NaN}', "forward_s: input should be a finite"),
    ],
)
def test_every_error_names_file_and_key(document: object, expected: str) -> None:
    text = document if isinstance(document, str) else json.dumps(document)
    assert expected in complaint(bftrainer("solve", "-", stdin=text))
