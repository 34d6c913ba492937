"""Messages of the commands that users act on: refusals at submit, units, and what is true after the
pilot's end.
"""

from __future__ import annotations

import ast
import json
import re
import time
from contextlib import closing
from pathlib import Path

import pytest
from support.command_line import bftrainer, complaint
from support.live_house import House, house, spec

from bftrainer import trainer
from bftrainer.console.cli.pilot_log import print_fact
from bftrainer.console.cli.top.reader import Reader
from bftrainer.pilot.facts import NoteAdded
from bftrainer.pilot.persistence.registry_writer import RegistryWriter
from bftrainer.wires.gpu_use import GpuUse
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.reports import Ending
from bftrainer.wires.typed_json import write_json


def submitted(
    tmp_path: Path, launcher: str, *command: str, config: str = "", text: str = ""
) -> tuple[str, str]:
    """The submission of a trainer file: its complaint, or else the notes."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "bftrainer.toml").write_text(f"[decisions]\nsolver = 'exact'\n{config}")
    file = tmp_path / "a.toml"
    setup = 'setup = ["true"]\n'  # the command may come from a module
    table = f'name = "a"\nmax_nodes = 2\nlauncher = "{launcher}"\ncommand = {json.dumps(command)}\n'
    file.write_text(setup + table + text)
    ended = bftrainer("submit", file, "--state", state)
    return (complaint(ended) or "") if ended.status else "", ended.err


def trains(tmp_path: Path, *nodes: str, **keys: object) -> House:
    """A trainer ``a`` that may have all of these nodes."""
    home = house(tmp_path / "state")
    home.cluster.give(*nodes)
    home.submit(spec("a", max_nodes=len(nodes), **keys))
    return home


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        ((), "--name and --max-nodes"),
        (("--name", "a"), "--max-nodes"),
        (("--max-gpus", 2), "--name"),
    ],
)
def test_a_command_needs_a_name_and_a_size(
    tmp_path: Path, words: tuple[object, ...], missing: str
) -> None:
    told = complaint(bftrainer("submit", "--state", tmp_path, *words, "--", "python", "train.py"))
    assert told.startswith(
        f"submit: {missing} missing; expected for example: bftrainer submit --name mnist "
    )


@pytest.mark.parametrize(
    ("launcher", "command"),
    [
        ("torchrun", ("torchrun", "--nnodes=2", "train.py")),
        ("torchrun", ("/opt/venv/bin/torchrun", "train.py")),
        ("torchrun", ("python3.11", "-m", "torch.distributed.run", "train.py")),
        ("horovod", ("horovodrun", "-np", "2", "python", "train.py")),
        ("horovod", ("mpirun", "python", "train.py")),
    ],
)
def test_a_launcher_within_a_launcher_is_refused(
    tmp_path: Path, launcher: str, command: tuple[str, ...]
) -> None:
    ended = submitted(tmp_path, launcher, *command)[1]
    assert (
        f"a.toml: command: begins with {Path(command[0]).name if len(command[0]) < 25 else ''}"[:35]
        in ended
    )
    assert f"but launcher = '{launcher}' starts the workers itself" in ended


@pytest.mark.parametrize(("launcher", "program"), [("torchrun", "python"), ("restart", "torchrun")])
def test_the_command_of_a_worker_is_not_nor_what_restart_starts(
    tmp_path: Path, launcher: str, program: str
) -> None:
    assert submitted(tmp_path, launcher, program, "train.py")[0] == ""


def test_stock_horovodrun_is_refused_where_it_is_not_allowed(tmp_path: Path) -> None:
    refused = submitted(tmp_path, "horovodrun", "python", "train.py")[1]
    assert "a.toml: launcher: 'horovodrun' lets any user" in refused
    assert "set workers.allow_stock_horovodrun" in refused
    allowed = "[workers]\nallow_stock_horovodrun = true\n"
    (tmp_path / "other").mkdir()
    assert (
        "'horovodrun'"
        not in submitted(tmp_path / "other", "horovodrun", "python", "train.py", config=allowed)[1]
    )


@pytest.mark.parametrize(("value", "shown"), [("0.1", "0.1"), ("3", "3"), ("true", "true")])
def test_environment_variables_are_strings(tmp_path: Path, value: str, shown: str) -> None:
    refused = submitted(
        tmp_path, "restart", "python", "train.py", text=f"env = {{LR = {value}}}\n"
    )[1]
    assert f'a.toml: env: LR: expected a string, got {shown}; write LR = "{shown}"' in refused


def test_no_time_is_told_from_a_speed_that_nobody_knows(tmp_path: Path) -> None:
    home = trains(tmp_path, "n1", samples_total=72_000, samples_per_s=None)
    home.pilot(20)
    assert json.loads(bftrainer("list", "--json", "--state", home.path).out)["left_h"] is None
    assert not Reader(home.path, home.clock.now_s).read_snapshot().estimates, "nor by top"


def test_after_the_pilots_end_nobody_has_nodes(tmp_path: Path) -> None:
    home = trains(tmp_path, "n1", "n2", samples_total=72_000)
    home.pilot(20)
    state = ("--state", home.path)
    (row,) = map(json.loads, bftrainer("list", "--json", *state).out.splitlines())
    assert len(row["nodes"]) == 2, "while the pilot holds the lease"
    assert row["left_h"] == pytest.approx(1), "72,000 samples at 20 per second"
    assert " 1 h 00 " in bftrainer("list", *state).out
    for rank, at_s in ((0, time.time()), (1, 0.0)):
        write_json(
            TrainerDirectory.of(home.path, "a").gpu_use / f"{rank}.json",
            GpuUse(at_s, "n1", 34.1e9, 97.0),
        )
    (row,) = map(json.loads, bftrainer("show", "a", "--json", *state).out.splitlines())
    assert (row["gpu_memory_gb"], row["gpu_percent"]) == ({"n1:0": 34.1}, {"n1:0": 97.0}), (
        "not what is old"
    )
    first_sentence = bftrainer("explain", "a", *state).out.splitlines()[0]
    assert first_sentence.startswith("a has had 2 nodes since")
    assert f"\nwhy: {first_sentence}" in bftrainer("show", "a", *state).out
    with closing(home.store(writes=True)) as store:
        store.drop_lease()
    (row,) = map(json.loads, bftrainer("list", "--json", *state).out.splitlines())
    assert (row["nodes"], row["left_h"]) == ([], None)
    (row,) = map(json.loads, bftrainer("show", "a", "--json", *state).out.splitlines())
    assert row["nodes"] == []
    said = bftrainer("explain", "a", *state).out
    assert "a had 2 nodes from" in said
    assert "The pilot has ended; no training has nodes now." in said
    assert " 0/2 " in bftrainer("top", "--once", *state).out


def test_work_that_is_repeated_is_lost_and_said_so_everywhere(tmp_path: Path) -> None:
    """100 samples on two nodes, of which a checkpoint has 40, and 60 again: 60 of 160 samples were
    wasted.
    """
    home = trains(tmp_path, "n1", "n2")
    for at_s, samples in ((10, 50), (19.9, 100), (40, 40), (50, 100)):
        home.at(at_s, lambda samples=samples: home.launcher.progress("a", samples))
    home.at(20, lambda: [home.cluster.take(node) for node in ("n1", "n2")])
    home.at(30, lambda: home.cluster.give("n1", "n2"))
    home.pilot(52)
    state = ("--state", home.path)
    heading = bftrainer("usage", *state).out.splitlines()[0]
    assert all(
        f"{what} (node-hours)" in heading for what in ("held", "trained", "repeated", "stalled")
    )
    for of in (["usage"], ["show", "a"]):
        (row,) = map(json.loads, bftrainer(*of, "--json", *state).out.splitlines())
        assert row["repeated_node_h"] / (
            row["trained_node_h"] + row["repeated_node_h"]
        ) == pytest.approx(60 / 160)
        parts = row["trained_node_h"] + row["repeated_node_h"] + row["stalled_node_h"]
        assert row["held_node_h"] == pytest.approx(parts)
    assert (
        "lost 2 nodes: 60 samples are repeated, since the last checkpoint"
        in bftrainer("events", *state).out
    )
    for command in (["list"], ["results"]):
        assert (
            "38 % of its work was repeated: 60 samples since checkpoints"
            in bftrainer(*command, *state).out
        )
    home.at(60, lambda: home.launcher.progress("a", 0.0))
    home.pilot(10)
    assert '"repeated_samples": 60.0' in bftrainer("show", "a", "--json", *state).out, (
        "no restart: its counter starts again"
    )


@pytest.mark.parametrize(
    ("loss", "samples", "remark"),
    [
        (float("nan"), 1000, "the loss is NaN at step 7: training has diverged"),
        (float("-inf"), 1000, "the loss is -Infinity at step 7: training has diverged"),
        (
            0.5,
            0,
            "ended with status 0 after 0 of 1,000 samples; read its output (bftrainer logs), or "
            "correct samples_total",
        ),
        (0.5, 995, ""),
    ],
)
def test_a_remark_stays_after_the_end(
    tmp_path: Path, loss: float, samples: float, remark: str
) -> None:
    home = trains(tmp_path, "n1", samples_total=1000.0)
    home.at(10, lambda: home.launcher.progress("a", samples, step=7, loss=loss))
    home.at(20, lambda: home.launcher.finish("a"))
    home.pilot(30)
    state = ("--state", home.path)
    for command in ("list", "--all"), ("results",):
        said = bftrainer(*command, *state).out
        assert "done" in said
        assert remark in said
    assert (
        "ended more than a day ago: 1 done; `bftrainer list --all`" in bftrainer("list", *state).out
    )
    (row,) = map(json.loads, bftrainer("results", "--json", *state).out.splitlines())
    assert row["remark"] == trainer("a", state=home.path).view().reason == remark


# --- What others wrote reaches a terminal with its control characters as escapes, and JSON as it is

EVIL = "\x1b[2J\x1b]0;title\x07 \x9b31m \u202egpj.exe \u2028 a\rb"
UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]")
CLI = Path(__file__).parents[2] / "bftrainer/console/cli"


@pytest.fixture
def home(tmp_path: Path) -> House:
    """A trainer whose log ends with terminal escapes, and a note about a file with such a name."""
    home = trains(tmp_path, "n1")
    home.at(10, lambda: home.launcher._end("a", Ending.FAILED, EVIL, (EVIL,)))
    home.pilot(12)
    with closing(home.store(writes=True)) as store:
        RegistryWriter(store).note(home.clock.now_s(), "spool", EVIL, EVIL)
    directory = TrainerDirectory.of(home.path, "a")
    directory.incarnation_logs(1).mkdir(parents=True)
    directory.worker_log(1, "n1", "7", 0).write_text(f"tab\tis kept\n{EVIL}\n")
    return home


@pytest.mark.parametrize(
    "command",
    [("events",), ("show", "a"), ("list",), ("logs", "a"), ("top", "--once"), ("nodes", "--all")],
)
def test_no_control_character_is_printed(home: House, command: tuple[str, ...]) -> None:
    ended = bftrainer(*command, "--state", str(home.path))
    assert ended.status == 0, ended.err
    assert UNPRINTABLE.findall(ended.out) == []
    if command[0] != "nodes":
        assert "\\x1b[2J" in ended.out.replace("..", ""), "it is shown"
    if command[0] == "logs":
        assert ended.out.startswith("tab\tis kept\n")


def test_json_is_exact(home: House) -> None:
    ended = bftrainer("events", "--json", "--state", str(home.path))
    found = [json.loads(line)["text"] for line in ended.out.splitlines()]
    assert f"{EVIL}: {EVIL}" in found
    (shown,) = map(
        json.loads, bftrainer("show", "a", "--json", "--state", str(home.path)).out.splitlines()
    )
    assert EVIL in shown["reason"]


@pytest.mark.parametrize("format", ["text", "json"])
def test_the_pilots_own_lines(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    from bftrainer.console.cli import pilot_log

    pilot_log._line_printer.cache_clear()
    print_fact(NoteAdded(1.0, "failure", EVIL, EVIL), format)
    pilot_log._line_printer.cache_clear()
    (line,) = capsys.readouterr().out.splitlines()
    assert UNPRINTABLE.findall(line) == []
    assert format == "text" or json.loads(line)["text"] == EVIL


def test_an_error_shows_no_control_character() -> None:
    ended = bftrainer("show", EVIL, "--state", EVIL)
    assert ended.status == 2
    assert UNPRINTABLE.findall(ended.err) == []
    assert "\\x1b[2J" in ended.err


def test_one_module_prints() -> None:
    """All other modules of the command line print with its functions."""
    for path in CLI.rglob("*.py"):
        calls = [
            it.func for it in ast.walk(ast.parse(path.read_text())) if isinstance(it, ast.Call)
        ]
        echoes = [
            it for it in calls if isinstance(it, ast.Attribute) and it.attr in ("echo", "secho")
        ]
        prints = [it for it in calls if isinstance(it, ast.Name) and it.id == "print"]
        assert not (echoes or prints) or path.name == "output.py", path
