"""Tables on a terminal of 80 columns: numbers, names and states are whole, remarks have lines of
their own.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command_line import bftrainer
from support.live_house import House, house, spec
from support.patience import PATIENCE

from bftrainer.console.cli.tables import (
    TableColumn,
    hanging_indent,
    name_column,
    number_column,
    remark_column,
    show_table,
    table_text,
    text_column,
)
from bftrainer.wires.reports import Ending
from bftrainer_papers.cli.reproduce import show
from bftrainer_papers.reproduction import PaperResult, Reproduction

WIDTH = 80
LONG = "imagenet-resnet152-lr0.0125-momentum0.95-seed-00017"
SENTENCE = (
    "failed 2 times, will be retried: status 1, node nid004711, slot 0: RuntimeError: "
    "the mask does not match the tensor"
)
COLUMNS = (
    name_column("name"),
    name_column("status"),
    number_column("nodes"),
    name_column("min-max", 2),
    number_column("samples", 1),
    number_column("left"),
    number_column("node-hours", 3),
    name_column("submitted", 4),
    remark_column("remark"),
)
ROWS = [
    (
        LONG,
        "cancelled",
        "128",
        "8-1024",
        "1,234,567 of 9,876,543",
        "12 d 03 h",
        "12,345.67",
        "11-28 19:02:17",
        SENTENCE,
    ),
    ("w1", "running", "4", "1-4", "12 of 100", "3 h 05", "0.25", "11-28 19:02:17", ""),
]


def lines_of(columns: tuple[TableColumn, ...], rows: list[Any], width: int | None) -> list[str]:
    return list(table_text(columns, rows, width).lines)


def test_a_pipe_gets_all_columns_and_a_line_per_row() -> None:
    table = table_text(COLUMNS, ROWS, None)
    assert table.left_out == ()
    assert len(table.lines) == 2 + len(ROWS)
    for line, row in zip(table.lines[2:], ROWS, strict=True):
        assert re.split(r" {2,}", line) == [cell for cell in row if cell]


def test_a_table_that_fits_is_not_changed() -> None:
    short = ROWS[1:]
    assert lines_of(COLUMNS, short, 100) == lines_of(COLUMNS, short, None)


def test_eighty_columns_keep_what_matters_whole() -> None:
    table = table_text(COLUMNS, ROWS, WIDTH)
    assert table.left_out == ("submitted",)
    assert max(map(len, table.lines)) <= WIDTH
    head, rule, name, values, *remark, second = table.lines
    assert head.split() == ["name", "status", "nodes", "min-max", "samples", "left", "node-hours"]
    assert set(rule) == {"-", " "}
    assert name == LONG, "a long name has its own line"
    assert re.split(" {2,}", values)[-3:] == ["1,234,567 of 9,876,543", "12 d 03 h", "12,345.67"]
    assert "cancelled" in values
    assert " ".join(map(str.strip, remark)) == SENTENCE
    assert all(line.startswith("    ") for line in remark)
    assert second.split()[:3] == ["w1", "running", "4"]
    assert second.index("running") == head.index("status")


def test_forty_columns_overflow_rather_than_break_a_name() -> None:
    table = table_text(COLUMNS, ROWS, 40)
    assert LONG in table.lines
    assert table.left_out == ("min-max", "samples", "node-hours", "submitted")


def test_text_wraps_at_words_and_paths_stay_whole() -> None:
    path = "/lustre/project/very/long/" + "directory/" * 8 + "checkpoint.pt"
    found = lines_of(
        (name_column(""), text_column("")), [("checkpoint", path), ("reason", SENTENCE)], WIDTH
    )
    assert any(path in line for line in found)
    assert " ".join(line[12:] for line in found if path not in line).split() == SENTENCE.split()


def test_cells_with_markup_escapes_and_wide_characters_are_aligned() -> None:
    rows = [("[red]x[/red]", "1"), ("日本語", "22"), ("a\x1b[2Jb", "333")]
    found = lines_of((name_column("name"), number_column("n")), rows, WIDTH)
    assert found[2] == "[red]x[/red]    1"
    assert found[3] == "日本語         22"
    assert found[4] == "a\\x1b[2Jb     333"


CELL = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30)


@given(
    st.lists(st.tuples(CELL, CELL, CELL, CELL, st.lists(CELL, max_size=12)), max_size=5),
    st.integers(40, 160),
)
def test_no_cell_is_ever_broken_and_nothing_is_left_out_in_silence(
    rows: list[Any], width: int
) -> None:
    columns = (
        name_column("name"),
        number_column("n"),
        number_column("m", 1),
        name_column("k", 2),
        remark_column("remark"),
    )
    table = table_text(columns, [(*row[:4], " ".join(row[4])) for row in rows], width)
    text = "\n".join(table.lines)
    shown = [place for place, column in enumerate(columns) if column.head not in table.left_out]
    assert {0, 1, 4} <= set(shown), "columns of rank 0 stay"
    for row in rows:
        for place in shown[:-1]:
            assert row[place] in text
        for word in row[4]:
            assert word in text


def test_what_is_left_out_is_told_with_the_way_to_see_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show_table(COLUMNS, ROWS, wide=False)
    assert capsys.readouterr().err == (
        "note: not shown at 80 columns: submitted (--wide shows all columns)\n"
    )
    show_table(COLUMNS, ROWS)
    assert "(a wider terminal shows all columns)" in capsys.readouterr().err
    show_table(COLUMNS, ROWS, wide=True)
    out, err = capsys.readouterr()
    assert "submitted" in out
    assert err == ""
    assert hanging_indent("ok  ", "a " * 60).splitlines()[1].startswith("    a a")
    monkeypatch.delenv("COLUMNS")
    assert hanging_indent("ok  ", "a " * 60) == "ok  " + "a " * 60


# --- every command that prints a table


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> House:
    """A pilot that has run: long names, large numbers, a failure, released nodes, metrics."""
    home = house(tmp_path_factory.mktemp("tables") / "state")
    home.cluster.give(*(f"nid00471{n}" for n in range(4)))
    more = {
        "group": "imagenet",
        "parameters": {"learning-rate": "0.0125", "momentum": "0.95", "batch-size": "1024"},
    }
    home.submit(
        spec(LONG, max_nodes=2, samples_total=9_876_543_210, **more),
        spec("w1", max_nodes=1, samples_total=1000.0),
        spec("imagenet-fails-each-time", max_nodes=1),
    )
    home.launcher.behaviour["imagenet-fails-each-time"] = "fails"
    metrics = {"validation_accuracy": 0.923456, "validation_loss": 1.2345678}
    for at_s in (6, 12, 18):
        home.at(
            at_s,
            lambda at_s=at_s: home.launcher.progress(
                LONG, at_s * 1e7, step=int(at_s), loss=0.123, **metrics
            ),
        )
        home.at(at_s, lambda at_s=at_s: home.launcher.progress("w1", at_s * 10.0, step=int(at_s)))
    home.at(20, lambda: home.cluster.take("nid004710"))
    home.at(24, lambda: home.launcher.finish("w1"))
    home.pilot(40)
    return home


def looked(home: House, *arguments: str, width: int | None = WIDTH) -> str:
    env = {} if width is None else {"COLUMNS": str(width)}
    ended = bftrainer(*arguments, "--state", home.path, env=env)
    assert ended.status == 0, ended
    return ended.out


def is_narrow(out: str, width: int = WIDTH) -> None:
    """Only a line of one word, which cannot be wrapped, may be longer than the terminal."""
    for line in out.splitlines():
        assert len(line) <= width or len(line.split()) <= 2, line


COMMANDS = [
    ("list", "--all"),
    ("list",),
    ("show", LONG),
    ("show", "imagenet-fails-each-time"),
    ("events", "-n", "100"),
    ("nodes",),
    ("nodes", "--all"),
    ("nodes", "--all", "--timeline"),
    ("results",),
    ("results", "--maximize", "validation_accuracy"),
    ("usage",),
    ("usage", "--by", "user"),
    ("explain", LONG),
    ("explain", "w1"),
    ("replay", "journal"),
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_every_table_of_a_pilot_fits_eighty_columns(
    home: House, arguments: tuple[str, ...]
) -> None:
    if arguments[0] == "replay":
        ended = bftrainer(*arguments, home.path, env={"COLUMNS": "80"})
        assert ended.status == 0, ended
        is_narrow(ended.out)
        return
    is_narrow(looked(home, *arguments))


def test_list_at_eighty_columns_takes_a_line_for_a_trainer_and_one_for_its_remark(
    home: House,
) -> None:
    out = looked(home, "list", "--all")
    assert [line for line in out.splitlines() if line.startswith(("w1 ", "imagenet-fails"))] != []
    w1 = next(line for line in out.splitlines() if line.startswith("w1 "))
    assert re.fullmatch(r"w1 +done +0 +1-1 +180 of 1,000( +[\d.]+)?", w1)
    assert f"\n{LONG}\n" in out
    assert " 180M of 9.88G" in out
    whole = looked(home, "list", "--all", width=None)
    for row in map(json.loads, looked(home, "list", "--all", "--json").splitlines()):
        (line,) = (it for it in whole.splitlines() if it.startswith(f"{row['name']} "))
        assert row["remark"] in line, "in a pipe, all of a trainer is on its line"
    assert looked(home, "list", "--all", "--wide") == whole


def test_tables_of_the_replay_fit_eighty_columns(tmp_path: Path) -> None:
    log, trainers, out = tmp_path / "log.csv.gz", tmp_path / "trainers.csv", tmp_path / "out"

    def run(*arguments: object) -> str:
        ended = bftrainer("replay", *arguments, env={"COLUMNS": "80"})
        assert ended.status == 0, ended
        is_narrow("\n".join(line for line in ended.out.splitlines() if str(tmp_path) not in line))
        return ended.out

    run("generate", "--nodes", 48, "--days", 0.5, "--seed", 3, "--out", log)
    run("workload", "diverse", "--count", 12, "--seed", 3, "--out", trainers)
    given_files = (log, "--trainers", trainers, "--max-parallel", 10)
    assert "idle share" in run("characterize", log)
    assert "work per idle node-hour" in run("run", *given_files, "--out", out)
    ranked = run("compare", *given_files, "--policies", "bftrainer,equal-share,plain")
    head = next(line.split() for line in ranked.splitlines() if line.startswith("policy "))
    assert {"work", "done", "h"} <= set(head)


def test_the_other_tables_fit_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    what = (
        "share of the node-hours that trainers of the diverse workload get beyond what "
        "equal share gives them"
    )
    row = PaperResult(
        what,
        12.5,
        12_345.678,
        tolerance=5.0,
        why="the authors' log has no waiting jobs, so that " * 3,
    )
    show(
        Reproduction(
            "paper", "A paper", ("a model of the workload with seeds 1, 2 and 3 " * 3,), (row,)
        ),
        as_json=False,
    )
    out = capsys.readouterr().out
    is_narrow(out)
    assert "12,346 %" in out
    for arguments in (("policy", "list"), ("doctor",)):
        ended = bftrainer(*arguments, env={"COLUMNS": "80"})
        is_narrow(ended.out)
        assert ended.out


def test_a_terminal_is_as_wide_as_it_is_and_a_pipe_has_no_width(home: House) -> None:
    """Without COLUMNS, as a shell leaves it."""
    command = [sys.executable, "-m", "bftrainer", "list", "--all", "--state", str(home.path)]
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    piped = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=60 * PATIENCE, check=True
    )
    assert piped.stderr == ""
    assert "submitted" in piped.stdout.splitlines()[0]
    reader, writer = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    child = subprocess.Popen(
        command, env=env, stdin=writer, stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    shown = b""
    while select.select([reader], [], [], 60 * PATIENCE)[0]:
        try:
            data = os.read(reader, 65536)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        shown += data
    assert child.wait(60 * PATIENCE) == 0
    assert child.stderr is not None
    assert "--wide shows all columns" in child.stderr.read()
    child.stderr.close()
    os.close(reader)
    is_narrow(re.sub(r"\x1b\[\d*m", "", shown.decode()))


def test_the_end_of_a_trainer_is_named(home: House) -> None:
    assert Ending.DONE.value in looked(home, "list", "--all")
