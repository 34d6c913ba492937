"""The curves file that a rehearsal writes: what is measured, and that replays read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bftrainer.console.rehearsal.record import Record
from bftrainer.console.rehearsal.speed import add_curve, speeds, this_node
from bftrainer.errors import InputFileError
from bftrainer_replay.workload.curves import node_types, read_curves


def lines(incarnation: int, size: int, rate: float, start_s: float) -> list[dict[str, object]]:
    """Five steps of a second; the first takes ten."""
    at = [start_s, *(start_s + 10 + k for k in range(4))]
    samples = [0, *(round(rate * (1 + k)) for k in range(4))]
    return [
        {
            "phase": "running",
            "incarnation": incarnation,
            "world_size": size,
            "step": k,
            "time": t,
            "samples": s,
        }
        for k, (t, s) in enumerate(zip(at, samples, strict=True))
    ]


def test_the_speed_of_a_size_is_that_of_its_steps_after_the_first() -> None:
    told = [
        *lines(1, 2, 100.0, 0.0),
        *lines(2, 4, 180.0, 100.0),
        *lines(3, 2, 120.0, 200.0),
        *lines(4, 2, 90.0, 300.0),
    ]
    assert speeds(Record((), (), tuple(told), ()), slots=2) == {1: 100.0, 2: 180.0}
    silent = [{name: value for name, value in line.items() if name != "samples"} for line in told]
    assert speeds(Record((), (), tuple(silent), ()), slots=2) == {}


def test_a_replay_reads_the_rows_of_several_rehearsals(tmp_path: Path) -> None:
    path = tmp_path / "curves.csv"
    add_curve(path, "digits", "4 A100 GPUs", {1: 100.0, 2: 180.0})
    add_curve(path, "bert", this_node(), {1: 7.5, 4: 25.0})
    add_curve(path, "digits", "4 A100 GPUs", {1: 110.0, 2: 180.0})
    curves = read_curves(path)
    assert (curves["digits"].nodes, curves["digits"].per_s) == ((1, 2), (110.0, 180.0))
    assert (curves["bert"].nodes, curves["bert"].per_s) == ((1, 4), (7.5, 25.0))
    assert node_types(path) == ("4 A100 GPUs", this_node())
    assert path.read_text().splitlines()[0] == "model,node_type,nodes_1,nodes_2,nodes_4"


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "model,nodes_x\na,1\n", 'model,nodes_1\n"a'])
def test_a_file_that_is_no_curves_file_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes.csv"
    path.write_text(text)
    with pytest.raises(InputFileError, match="is no curves file"):
        add_curve(path, "digits", "here", {1: 1.0})
    assert path.read_text() == text
