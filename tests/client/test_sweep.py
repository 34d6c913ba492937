"""Sweeps: grids, CSV files, placeholders, names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.client.gate import Draft
from bftrainer.client.sweep import combined, drafts_of, grid_trials, parse_grid, read_trials
from bftrainer.config.parameters import filled
from bftrainer.config.trainer_file import TrainerSpec, fill
from bftrainer.config.validation import check_table
from bftrainer.errors import UserError

BASE = {"name": "t", "command": ["train", "{lr}"], "max_nodes": 1}


def drafts(trials: list[dict[str, str]], **keys: object) -> list[dict[str, object]]:
    return [dict(one.table) for one in drafts_of(Draft(BASE | keys, "t.toml", Path()), trials)]


def spec(**keys: object) -> TrainerSpec:
    return check_table(BASE | keys, TrainerSpec, "t.toml")


def test_a_grid_is_every_combination_and_the_last_parameter_changes_fastest() -> None:
    grid = parse_grid(["lr=0.1,1e-2", "seed=8..10"])
    assert grid == {"lr": ("0.1", "1e-2"), "seed": ("8", "9", "10")}
    trials = grid_trials(grid)
    assert len(trials) == 6
    assert trials[:2] == ({"lr": "0.1", "seed": "8"}, {"lr": "0.1", "seed": "9"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lr", "expected NAME=VALUE"),
        ("lr=", "expected NAME=VALUE"),
        ("lr=1,,2", "empty value"),
        ("seed=3..1", "the smaller first"),
        ("seed=0..99999", "at most 20,000"),
        ("l r=1", "expected NAME=VALUE"),
    ],
)
def test_a_grid_that_cannot_be_read(text: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        parse_grid([text])


def test_a_grid_is_bounded_before_it_is_made() -> None:
    with pytest.raises(UserError, match="gives 1,000,000 trials, expected at most 20,000"):
        grid_trials(parse_grid([f"{name}=1..100" for name in "abc"]))


def test_rows_of_a_file_with_names_and_a_grid(tmp_path: Path) -> None:
    path = tmp_path / "trials.csv"
    path.write_text('name,lr,note\na,0.1,"with, comma"\n\nb,0.2,{x}\n')
    rows = read_trials(path)
    assert rows == ({"name": "a", "lr": "0.1", "note": "with, comma"}, {"name": "b", "lr": "0.2", "note": "{x}"})
    assert len(combined(rows, grid_trials({"seed": ("1", "2")}))) == 4
    with pytest.raises(UserError, match="'lr' is given twice"):
        combined(rows, grid_trials({"lr": ("1",)}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ":1: expected the names of parameters"),
        ("lr,lr\n1,2\n", ":1: expected the names of parameters, each once"),
        ("lr,s p\n1,2\n", ":1: 's p' cannot be the name of a parameter"),
        ("lr,seed\n1\n", ":2: has 1 values, expected 2"),
        ('lr\n"1\n', ":2: is not CSV"),
        ("lr\n", "has no trials"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "trials.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=expected):
        read_trials(path)


def test_names_say_the_parameters_and_are_the_same_each_time() -> None:
    trials = [{"lr": "0.1", "opt": "sgd"}, {"lr": "0.1", "opt": "a/b"}, {"lr": "0.2", "opt": "x" * 80}]
    first = drafts(trials)
    assert first[0]["name"] == "t-lr0.1-optsgd"
    assert first == drafts(trials)
    names = [str(one["name"]) for one in first]
    assert len(set(names)) == 3
    assert all(len(name) <= 64 for name in names)
    assert {one["group"] for one in first} == {"t"}


def test_a_name_with_placeholders_and_a_name_of_the_file() -> None:
    found = drafts([{"lr": "1"}, {"lr": "2", "name": "mine"}], name="run_{lr}_x", group="g")
    assert [one["name"] for one in found] == ["run_1_x", "mine"]
    assert {one["group"] for one in found} == {"g"}
    with pytest.raises(UserError, match="trials 1 and 2 are both 'same'"):
        drafts([{"lr": "1"}, {"lr": "2"}], name="same{x}", parameters={"x": ""})


def test_placeholders_in_command_and_env_and_braces() -> None:
    one = fill(spec(command=["t", "{{{lr}}}", "{name}"], env={"A": "{seed}"}, parameters={"lr": 0.1, "seed": 3}), "x")
    assert one.command == ("t", "{0.1}", "t")
    assert one.env == {"A": "3"}


def test_without_parameters_braces_are_braces() -> None:
    assert fill(spec(command=["t", "{lr}", "{", "{{"]), "x").command == ("t", "{lr}", "{", "{{")


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"command": ["t", "{lrr}"]}, r"t.toml: command.1: unknown placeholder \{lrr\}, did you mean \{lr\}\?"),
        ({"command": ["t", "{lr}", "{"]}, r"command.2: has a single \{"),
        ({"env": {"A": "{}"}}, r"env.A: unknown placeholder \{\}"),
        ({"parameters": {"lr": 1, "seed": 2}}, r"'seed' is not used: expected \{seed\} in command or env"),
    ],
)
def test_a_placeholder_that_cannot_be_filled(keys: dict[str, object], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        fill(spec(**{"parameters": {"lr": 1}, **keys}), "t.toml")


@settings(max_examples=50)
@given(st.text(max_size=40), st.text(alphabet="{}ab", max_size=12))
def test_a_value_is_never_read_as_a_placeholder(value: str, around: str) -> None:
    quoted = around.replace("{", "{{").replace("}", "}}")
    assert filled(f"{quoted}{{p}}{quoted}", {"p": value}, "x") == f"{around}{value}{around}"
