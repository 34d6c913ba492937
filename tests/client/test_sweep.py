"""Sweeps: grids, CSV files, placeholders, names."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.command_line import bftrainer, complaint

import bftrainer as api
from bftrainer.config.parameters import filled
from bftrainer.config.trainer_file import TrainerSpec, fill
from bftrainer.config.validation import check_table
from bftrainer.console.client.gate import Draft
from bftrainer.console.client.submission import LOCK
from bftrainer.console.client.sweep import combined, drafts_of, grid_trials, parse_grid, read_trials
from bftrainer.errors import BFTrainerError, UserError
from bftrainer.pilot.persistence.spool import MAX_FILES_AT_ONCE, Spool

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
    assert rows == (
        {"name": "a", "lr": "0.1", "note": "with, comma"},
        {"name": "b", "lr": "0.2", "note": "{x}"},
    )
    assert len(combined(rows, grid_trials({"seed": ("1", "2")}))) == 4
    with pytest.raises(UserError, match="'lr' is given twice"):
        combined(rows, grid_trials({"lr": ("1",)}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ":1: expected the names of parameters"),
        ("lr,lr\n1,2\n", ":1: expected the names of parameters, each once"),
        ("lr,s p\n1,2\n", ":1: 's p' cannot be the name of a parameter"),
        ("lr,seed\n1\n", ":2: has 1 value, expected 2"),
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
    trials = [
        {"lr": "0.1", "opt": "sgd"},
        {"lr": "0.1", "opt": "a/b"},
        {"lr": "0.2", "opt": "x" * 80},
    ]
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
    one = fill(
        spec(
            command=["t", "{{{lr}}}", "{name}"],
            env={"A": "{seed}"},
            parameters={"lr": 0.1, "seed": 3},
        ),
        "x",
    )
    assert one.command == ("t", "{0.1}", "t")
    assert one.env == {"A": "3"}


def test_without_parameters_braces_are_braces() -> None:
    assert fill(spec(command=["t", "{lr}", "{", "{{"]), "x").command == ("t", "{lr}", "{", "{{")


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (
            {"command": ["t", "{lrr}"]},
            r"t.toml: command.1: unknown placeholder \{lrr\}, did you mean \{lr\}\?",
        ),
        ({"command": ["t", "{lr}", "{"]}, r"command.2: has a single \{"),
        ({"env": {"A": "{}"}}, r"env.A: unknown placeholder \{\}"),
        (
            {"parameters": {"lr": 1, "seed": 2}},
            r"'seed' is not used: expected \{seed\} in command or env",
        ),
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


# --- The gate and the spool, from the command line and from Python: one validation, whole sweeps,
# reruns without doubles

FILE = """
name = "t"
command = ["python3", "-c", "pass", "{lr}", "{seed}"]
max_nodes = 2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "t.toml").write_text(FILE)
    return tmp_path / "t.toml"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir(mode=0o700)
    return tmp_path / "state"


def spooled(state: Path) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in sorted((state / "spool").glob("*.json"))]


def test_the_same_submission_from_both_sides(file: Path, tmp_path: Path) -> None:
    states = [tmp_path / name for name in ("a", "b")]
    assert (
        bftrainer(
            "submit", file, "--grid", "lr=0.1,0.2", "--grid", "seed=0..1", "--state", states[0]
        ).status
        == 0
    )
    handles = api.sweep(str(file), grid={"lr": [0.1, 0.2], "seed": range(2)}, state=states[1])
    first, second = map(spooled, states)
    assert first == second
    assert [one["trainer"] for one in second] == [handle.name for handle in handles]
    assert os.stat(states[1]).st_mode & 0o777 == 0o700  # noqa: PTH116


def test_the_same_error_from_both_sides(file: Path, state: Path) -> None:
    text = complaint(bftrainer("submit", file, "--set", "max_nodes=0", "--state", state))
    with pytest.raises(UserError) as raised:
        api.submit(file, max_nodes=0, state=state)
    assert str(raised.value) == text


def test_a_sweep_is_submitted_whole_or_not_at_all(file: Path, state: Path) -> None:
    bad = ["submit", file, "--grid", "lr=1,2", "--array", file.with_name("t.csv"), "--state", state]
    file.with_name("t.csv").write_text("seed,x\n1,\n")
    assert "'x' is not used" in complaint(bftrainer(*bad))
    assert spooled(state) == []


def test_a_sweep_that_is_submitted_again_continues(file: Path, state: Path) -> None:
    grid = ["--grid", "lr=0.1", "--grid"]
    assert (
        "submitted 2 trainings of group t"
        in bftrainer("submit", file, *grid, "seed=0..1", "--state", state).out
    )
    again = bftrainer("submit", file, *grid, "seed=0..3", "--state", state)
    assert (
        again.out
        == "submitted 2 trainings of group t: t-lr0.1-seed2 to t-lr0.1-seed3; 2 were submitted "
        "before\n"
    )
    assert len(spooled(state)) == 4
    again = bftrainer("submit", file, *grid, "seed=3", "--state", state)
    assert again.out == "submitted 0 trainings of group t; 1 was submitted before\n"
    assert "to train them again, submit the sweep with another --name" in again.err
    rows = bftrainer(
        "submit", file, *grid, "seed=3..4", "--state", state, "--json"
    ).out.splitlines()
    assert [json.loads(row)["spool"] is None for row in rows] == [True, False]
    text = complaint(
        bftrainer("submit", file, *grid, "seed=0..9", "--max-nodes", "5", "--state", state)
    )
    assert "'t-lr0.1-seed0' is taken by a training with another max_nodes" in text
    assert len(spooled(state)) == 5


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    return "train.py"


def submitted(*arguments: object) -> list[str]:
    """Submits with these arguments; the names of all trainers."""
    assert bftrainer("submit", *arguments).status == 0
    state = Path(str(arguments[arguments.index("--state") + 1]))
    return sorted(str(one["trainer"]) for one in spooled(state))


def test_a_script_that_is_submitted_again_is_numbered(script: str, state: Path) -> None:
    submit = [script, "--max-nodes", "1", "--state", state]
    assert submitted(*submit) == ["train"]
    assert submitted(*submit) == ["train", "train-2"]
    assert submitted(*submit, "--name", "train-3") == ["train", "train-2", "train-3"]
    assert bftrainer("submit", *submit).out.startswith(
        "submitted train-4 ('train' is taken): 1 node, launcher restart"
    )
    for explicit in (["--name", "train"], ["--set", "name = 'train'"]):
        refused = bftrainer("submit", *submit, *explicit)
        assert (refused.status, "'train' is taken; expected a name" in refused.err) == (2, True)


def test_a_sweep_of_a_script_that_was_changed_is_numbered_as_a_whole(
    script: str, state: Path
) -> None:
    submit = [script, "--grid", "seed=0..1", "--state", state, "--max-nodes"]
    first, again = ["train-seed0", "train-seed1"], ["train-2-seed0", "train-2-seed1"]
    assert submitted(*submit, "1", "--", "{seed}") == first
    assert submitted(*submit, "1", "--", "{seed}") == first, "the same sweep goes on"
    other = bftrainer("submit", *submit, "2", "--", "{seed}").out
    assert (
        other == "submitted 2 trainings of group train-2 ('train' is taken): train-2-seed0 to "
        "train-2-seed1\n"
    )
    assert submitted(*submit, "2", "--", "{seed}") == sorted(first + again), (
        "and the second sweep goes on as well"
    )
    assert bftrainer("submit", *submit, "3", "--name", "train", "--", "{seed}").status == 2


def test_names_of_a_table_are_explicit_and_a_long_name_has_room_for_its_number(
    script: str, state: Path
) -> None:
    Path("table.csv").write_text("name,seed\na,1\n")
    submit = [script, "--array", "table.csv", "--state", state, "--max-nodes"]
    assert submitted(*submit, "1", "--", "{seed}") == ["a"]
    refused = bftrainer("submit", *submit, "2", "--", "{seed}")
    assert (refused.status, "'a' is taken by a training with another max_nodes" in refused.err) == (
        2,
        True,
    )
    long = f"{'x' * 80}.py"
    Path(long).write_text("")
    assert submitted(long, "--max-nodes", "1", "--state", state) == ["a", "x" * 64]
    assert submitted(long, "--max-nodes", "1", "--state", state) == ["a", "x" * 62 + "-2", "x" * 64]
    sweep = [long, "--grid", "seed=1", "--state", state, "--max-nodes"]
    assert len(submitted(*sweep, "1", "--", "{seed}")) == 4
    assert len(submitted(*sweep, "2", "--", "{seed}")) == 5


def test_submissions_at_once_get_a_name_each(script: str, state: Path) -> None:
    argv = [
        sys.executable,
        "-m",
        "bftrainer",
        "submit",
        script,
        "--max-nodes",
        "1",
        "--state",
        state,
    ]
    together = [
        subprocess.Popen([str(word) for word in argv], stderr=subprocess.DEVNULL) for _ in range(4)
    ]
    assert [process.wait() for process in together] == [0] * 4
    assert sorted(str(one["trainer"]) for one in spooled(state)) == [
        "train",
        "train-2",
        "train-3",
        "train-4",
    ]


def test_a_submission_waits_for_another_one(script: str, state: Path) -> None:
    """The name is looked up and taken under one lock."""
    state.joinpath(LOCK).touch()
    with state.joinpath(LOCK).open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        argv = [
            sys.executable,
            "-m",
            "bftrainer",
            "submit",
            script,
            "--max-nodes",
            "1",
            "--state",
            str(state),
        ]
        waiting = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(2.0)
        assert spooled(state) == []
    assert waiting.wait() == 0
    assert len(spooled(state)) == 1


def test_more_submissions_than_a_listing_has_are_all_known(file: Path, state: Path) -> None:
    """Before, only the first 200 pending submissions were: a name could be taken twice, and the
    rest not be canceled.
    """
    many = MAX_FILES_AT_ONCE + 10
    argv = ["submit", file, "--grid", "lr=1", "--grid", f"seed=1..{many}", "--state", state]
    assert bftrainer(*argv).status == 0
    last = f"t-lr1-seed{many}"
    taken = bftrainer("submit", "--name", last, "--max-nodes", "1", "--state", state, "--", "true")
    assert "is taken" in complaint(taken)
    assert "0 trainings" in bftrainer(*argv).out
    assert bftrainer("cancel", last, "--state", state).out == f"cancel {last}: requested\n"


def test_patterns_and_groups(file: Path, state: Path) -> None:
    bftrainer("submit", file, "--grid", "lr=1,2", "--grid", "seed=0..1", "--state", state)
    bftrainer("submit", "--name", "t-other", "--max-nodes", "1", "--state", state, "--", "true")
    asked = complaint(bftrainer("cancel", "t-lr1-*", "--state", state))
    assert (
        asked
        == "2 trainings would be canceled (t-lr1-seed0, t-lr1-seed1); add --yes to cancel them"
    )
    assert bftrainer("cancel", "t-lr1-*", "--yes", "--state", state).out.count("requested") == 2
    assert bftrainer("pause", "t-*", "--group", "t", "--state", state).out.count("requested") == 4
    assert "no training of group 't' named 't-other'" in complaint(
        bftrainer("cancel", "t-other", "--group", "t", "--state", state)
    )
    assert "matches 'x*'" in complaint(bftrainer("cancel", "x*", "--yes", "--state", state))
    assert "no training is named" in complaint(bftrainer("cancel", "--state", state))
    some = bftrainer("cancel", "t-lr2-seed0", "typo", "t-lr2-seed1", "--state", state)
    assert (some.status, some.out.count("requested")) == (2, 2)
    assert "no training named 'typo'" in some.err
    rows = bftrainer("list", "--group", "t", "--state", state, "--json").out.splitlines()
    assert len(rows) == 4


def test_an_error_of_the_disk_leaves_nothing(
    file: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (state / "spool").mkdir(mode=0o700)
    synced: list[int] = []

    def fails(handle: int) -> None:
        synced.append(handle)
        if len(synced) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(
        BFTrainerError, match=r"4 requests cannot be written: No space .*; nothing has changed"
    ) as told:
        api.sweep(file, grid={"lr": [1], "seed": range(4)}, state=state)
    assert (told.value.exit_status, str(told.value).count("\n")) == (1, 0)
    assert list((state / "spool").iterdir()) == []
    assert Spool(state).names() == frozenset()
