"""Trainer tables, curve files and the generators: what is read, what is refused and with which
words.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from bftrainer.errors import InputFileError, UnknownNameError
from bftrainer_replay.logs.event_log import parse_time
from bftrainer_replay.workload.curves import TABLE_2, find_curve, read_curves
from bftrainer_replay.workload.workload import (
    hpo,
    read_workload,
    submissions,
    trainers_of_many_users,
    write_workload,
)

HEADER = "job,Tcup,Tcdw,Jmin,Jmax,Pmax,Tsub"
ROW = "J0,18.0,12.0,1.0,64.0,130000000.0,2021-02-10 20:21:15"


def table(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "trainers.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_authors_table_is_read(tmp_path: Path) -> None:
    (arrival,) = read_workload(table(tmp_path, HEADER, ROW), TABLE_2, "ShuffleNet").arrivals
    trainer = arrival.trainer
    assert arrival.at_s == parse_time("2021-02-10T20:21:15")
    assert (trainer.id, trainer.min_nodes, trainer.max_nodes, trainer.samples_total) == (
        "J0",
        1,
        64,
        1.3e8,
    )
    assert (trainer.scale_up_s, trainer.scale_down_s, trainer.curve) == (
        18.0,
        12.0,
        TABLE_2["shufflenet"],
    )


@pytest.mark.parametrize(
    ("lines", "line", "complaint"),
    [
        (
            [HEADER, ROW.replace("1.0,64.0", "8.0,4.0")],
            ":2",
            "min_nodes 8 is larger than max_nodes 4",
        ),
        (
            [HEADER, ROW.replace("64.0", "65.0")],
            ":2",
            "covers 1 to 64 nodes, expected at least min_nodes 1 to max_nodes 65",
        ),
        ([HEADER, ROW.replace("18.0", "nan")], ":2", "Tcup is nan, expected a finite number"),
        (
            [HEADER, ROW.replace("18.0", "-3")],
            ":2",
            "Tcup is -3, expected a finite number of 0 or more",
        ),
        ([HEADER, ROW.replace("18.0", "fast")], ":2", "Tcup is 'fast', expected a number"),
        ([HEADER, ROW.replace("18.0", "")], ":2", "Tcup is missing"),
        ([HEADER, ROW.replace("1.0,64", "1.5,64")], ":2", "Jmin is 1.5, expected a whole number"),
        ([HEADER, ROW.replace("130000000.0", "0")], ":2", "samples_total must be above 0"),
        (
            [HEADER, ROW.replace("2021-02-10 20:21:15", "soon")],
            ":2",
            "Tsub is 'soon', expected a time",
        ),
        ([HEADER, ROW, ROW], ":3", "duplicate trainer J0, first at"),
        ([HEADER, ROW + ",7"], ":2", "has 8 fields, expected 7"),
        ([HEADER.replace("Tcup", "Tcap"), ROW], ":1", "unknown column 'Tcap', did you mean 'Tcup'"),
        ([HEADER.replace(",Tcup", ""), "x"], ":1", "column Tcup is missing"),
        ([HEADER + ",Tsub", ROW], ":1", "duplicate column 'Tsub'"),
        ([HEADER], "", "a header and no rows"),
    ],
)
def test_a_bad_table_is_refused_with_its_line(
    tmp_path: Path, lines: list[str], line: str, complaint: str
) -> None:
    path = table(tmp_path, *lines)
    with pytest.raises(InputFileError) as caught:
        read_workload(path, TABLE_2, "shufflenet")
    assert str(caught.value).startswith(f"{path}{line}: ")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_file_and_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    with pytest.raises(InputFileError, match="is empty, expected a header"):
        read_workload(tmp_path / "empty.csv", TABLE_2, "shufflenet")
    with pytest.raises(InputFileError, match="cannot be read: No such file"):
        read_workload(tmp_path / "none.csv", TABLE_2, "shufflenet")


def test_models_by_column_or_by_option(tmp_path: Path) -> None:
    path = table(tmp_path, "model," + HEADER, "vgg16," + ROW, "DenseNet," + ROW.replace("J0", "J1"))
    first, second = read_workload(path, TABLE_2).arrivals
    assert (first.trainer.curve, second.trainer.curve) == (TABLE_2["vgg16"], TABLE_2["densenet"])
    with pytest.raises(InputFileError, match=r":2: unknown model 'vgg61', did you mean 'vgg16'"):
        read_workload(table(tmp_path, "model," + HEADER, "vgg61," + ROW), TABLE_2)
    with pytest.raises(
        InputFileError, match="no column model; add one, or specify the model with --model"
    ):
        read_workload(table(tmp_path, HEADER, ROW), TABLE_2)


def test_the_papers_names_and_the_authors_find_the_same_curve() -> None:
    for paper, authors in (
        ("VGG-16", "vgg16"),
        ("MnasNet", "mnasnet1"),
        ("MobileNets", "mobilenet"),
        ("AlexNet", "alexnet"),
    ):
        assert find_curve(paper, TABLE_2) is find_curve(authors, TABLE_2)
    with pytest.raises(UnknownNameError, match="valid: alexnet, densenet"):
        find_curve("gpt", TABLE_2)


def test_a_curve_that_falls_is_taken_with_a_warning(tmp_path: Path) -> None:
    curves = tmp_path / "curves.csv"
    curves.write_text("model,nodes_0,nodes_1,nodes_2,nodes_64\nodd,0,10,9,70\n")
    found = read_workload(table(tmp_path, HEADER, ROW), read_curves(curves), "odd")
    assert found.warnings == ("the throughput of odd falls at 2 nodes; the curve is used as it is",)
    assert found.arrivals[0].trainer.curve.at(2) == 9


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("model,nodes_1,nodes_2\na,1,2\na,1,2\n", ":3: duplicate model 'a'"),
        ("model,nodes_2,nodes_1\na,1,2\n", ":2: a curve's node counts must strictly increase"),
        ("model,nodes_0,nodes_1\na,5,2\n", ":2: nodes_0 is 5, expected 0"),
        ("model,nodes_1,gpus_2\na,1,2\n", ":1: unknown column 'gpus_2'"),
        ("nodes_1,nodes_2\n1,2\n", ":1: columns are nodes_1,nodes_2, expected model"),
        ("model,nodes_1\na,inf\n", ":2: nodes_1 is inf, expected a finite number"),
    ],
)
def test_a_bad_curve_file_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "curves.csv"
    path.write_text(text)
    with pytest.raises(InputFileError) as caught:
        read_curves(path)
    assert complaint in str(caught.value)


def test_submissions_are_evenly_spaced_or_poisson() -> None:
    assert submissions(100.0, 3, 36.0) == (100.0, 136.0, 172.0)
    times = submissions(0.0, 4000, 36.0, poisson_seed=3)
    assert times == submissions(0.0, 4000, 36.0, poisson_seed=3)
    assert times != submissions(0.0, 4000, 36.0, poisson_seed=4)
    gaps = [b - a for a, b in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(36.0, rel=0.06)
    # Exponential gaps vary as much as their mean; a fixed or uniform spacing would not.
    assert (sum((g - mean) ** 2 for g in gaps) / len(gaps)) ** 0.5 == pytest.approx(mean, rel=0.1)
    assert times[0] == 0.0


def test_generated_tables_are_read_back_as_they_were(tmp_path: Path) -> None:
    times = submissions(parse_time("2021-02-10T20:21:15"), 20, 36.0, poisson_seed=1)
    for arrivals in (hpo("shufflenet", times), trainers_of_many_users(times, seed=5)):
        path = tmp_path / "out.csv"
        write_workload(path, arrivals)
        assert read_workload(path, TABLE_2).arrivals == arrivals


def test_diverse_trainers_take_the_models_in_turn_and_their_own_costs() -> None:
    arrivals = trainers_of_many_users(submissions(0.0, 14, 36.0), seed=2)
    assert [a.trainer.model for a in arrivals] == sorted(TABLE_2) * 2
    assert all(
        17 <= a.trainer.scale_up_s <= 19 and 11 <= a.trainer.scale_down_s <= 13 for a in arrivals
    )
    assert len({a.trainer.scale_up_s for a in arrivals}) == 14
    assert (
        arrivals
        == trainers_of_many_users(submissions(0.0, 14, 36.0), seed=2)
        != trainers_of_many_users(submissions(0.0, 14, 36.0), seed=3)
    )
