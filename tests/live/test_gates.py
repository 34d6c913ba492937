"""Bad input at submit and config: one line, status 2, nothing queued. Common mistakes:
cli/test_mistakes.py.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
from support.command_line import bftrainer, complaint
from support.patience import PATIENCE

from bftrainer.config.config_text import commented_default
from bftrainer.config.pilot import (
    PilotConfig,
    TimesConfig,
    WorkersConfig,
    is_quiet,
    read_config,
)
from bftrainer.config.trainer_file import read_trainer_file
from bftrainer.config.validation import check_table, parse_toml
from bftrainer.errors import InputFileError
from bftrainer.pilot.persistence.registry import Registry, Submission, TrainerStatus
from bftrainer.pilot.persistence.registry_writer import RegistryWriter, TrainerChange
from bftrainer.pilot.persistence.spool import Spool
from bftrainer.pilot.persistence.store import open_store
from bftrainer.system.processes import identify
from bftrainer_replay.playback.trace_site import TraceConfig

GOOD = """
name = "a"
command = ["true"]
max_nodes = 4
samples_per_s = 10.0
"""
CASES = {
    "misspelt key in a table": (
        GOOD.replace("samples_per_s = 10.0", "[curve]\nnode = [1, 4]\nsamples_per_s = [1.0, 2.0]"),
        "curve: unknown key 'node', did you mean 'nodes'? valid: nodes, samples_per_s",
    ),
    "an empty list": (
        GOOD.replace('["true"]', "[]"),
        'command: expected a list like ["python", "train.py"], got []',
    ),
    "missing": (GOOD.replace("max_nodes = 4", ""), "max_nodes: is missing"),
    "size out of bounds": (GOOD + "sizes = [2, 8]\n", "sizes must be 0 or within [1, 4], got 8"),
    "short curve": (
        GOOD.replace("samples_per_s = 10.0", "[curve]\nnodes = [1, 3]\nsamples_per_s = [1.0, 2.0]"),
        "the curve covers 1 to 3 nodes",
    ),
    "both curve and rate": (
        GOOD + "[curve]\nnodes = [1, 2]\nsamples_per_s = [1.0, 2.0]",
        "expected a [curve], or samples_per_s (on one node), or neither; got both",
    ),
    "bad name": (GOOD.replace('"a"', '"../a"'), "name: expected up to 64 letters"),
    "bad signal": (GOOD + 'stop_signal = "SIGKILL"\n', "stop_signal: expected a signal's name"),
    "no file": (
        GOOD.replace('"true"', '"./no-such-file"'),
        "command: './no-such-file' does not exist",
    ),
    "no directory": (GOOD + 'cwd = "nowhere"\n', "nowhere is not a directory"),
    "nan": (GOOD.replace("10.0", "nan"), "samples_per_s"),
}
NO_PILOT = "note: {} waits for a pilot, and none runs here (bftrainer pilot)\n"


@pytest.mark.parametrize("case", CASES)
def test_a_bad_trainer_file_queues_nothing(case: str, tmp_path: Path) -> None:
    text, expected = CASES[case]
    file = tmp_path / "t.toml"
    file.write_text(text)
    line = complaint(bftrainer("submit", file, "--state", tmp_path / "state"))
    assert expected in line
    assert str(file) in line
    assert not list(tmp_path.glob("state/spool/*"))


def test_submit_queues_what_is_good_and_refuses_its_name_a_second_time(tmp_path: Path) -> None:
    file, state = tmp_path / "t.toml", tmp_path / "state"
    file.write_text(GOOD)
    assert bftrainer("submit", file, "--state", state).status == 0
    assert "name: 'a' is taken" in complaint(bftrainer("submit", file, "--state", state))
    assert len(list(state.glob("spool/*.json"))) == 1
    ended = bftrainer(
        "submit", file, "--name", "b", "--max-nodes", 2, "--state", state, "--", "sleep", "1"
    )
    assert ended.out == "submitted b: 1 to 2 nodes, launcher restart\n"
    listed = bftrainer("list", "--state", state, "--json")
    assert '"name": "b"' in listed.out


def test_a_node_class_that_nobody_configured_gets_a_note(tmp_path: Path) -> None:
    file, state = tmp_path / "t.toml", tmp_path / "s"
    state.mkdir(mode=0o700)
    (state / "bftrainer.toml").write_text(
        '[classes.gpu]\ngpu = "a100"\n[classes.thin]\npartitions = ["thin"]\n'
    )
    file.write_text(GOOD + 'node_class = "gpus"\n')
    ended = bftrainer("submit", file, "--state", state)
    assert ended.err == (
        f"note: {file}: node_class: 'gpus' is not a class of the pilot's configuration (gpu, "
        "thin); "
        f"the training waits for a node with that hardware\n{NO_PILOT.format('a')}"
    )
    assert ended.status == 0
    ended = bftrainer(
        "submit", file, "--name", "c", "--set", 'node_class = "gpu"', "--state", state
    )
    assert ended.err == NO_PILOT.format("c")


def test_logs_before_anything_was_written(tmp_path: Path) -> None:
    state, file = tmp_path / "s", tmp_path / "t.toml"
    file.write_text(GOOD)
    assert bftrainer("submit", file, "--name", "b", "--state", state).status == 0
    assert "'b' is submitted, but no pilot has read it yet" in complaint(
        bftrainer("logs", "b", "--state", state)
    )
    took = threading.Thread(target=_taken, args=(state,))  # a pilot comes while somebody waits
    took.start()
    ended = bftrainer("logs", "-f", "b", "--state", state)
    took.join()
    assert ended.status == 0
    assert [line.rpartition("; ")[2] for line in ended.err.splitlines()] == ["waiting", "waiting"]
    assert ended.out == "trained\n"


def _taken(state: Path) -> None:
    """What a pilot does, each when the one who waits has said so: it knows the trainer, which
    writes its log, and ends.
    """
    _until_said(1)
    (received,) = Spool(state).pending()
    assert received.request is not None
    assert received.request.spec is not None
    with closing(open_store(state, create=True)) as store:
        store.take_lease(identify(os.getpid()), "", time.time(), 60.0, lambda job: None)
        writer = RegistryWriter(store)
        writer.add_all([Submission(received.request.spec, "me", received.name)], 1.0)
        Spool(state).remove(received.name)
        logs = state / "trainers" / "b" / "logs"
        logs.mkdir(parents=True)
        _until_said(2)  # a folder for logs, and no log in it
        (logs / "1").mkdir()
        (logs / "1" / "n1.0.log").write_text("trained\n")
        writer.change(
            Registry(store).trainer("b"),
            TrainerChange(status=TrainerStatus.DONE, finished=True),
            2.0,
        )


def _until_said(count: int) -> None:
    """Until ``logs -f`` has said so often that it waits; after a while without, for then the test
    is to fail, not to hang.
    """
    end = time.monotonic() + 20 * PATIENCE
    while (
        getattr(sys.stderr, "getvalue", str)().count("; waiting") < count and time.monotonic() < end
    ):
        time.sleep(0.01)


def test_commands_for_trainers_that_are_not_there(tmp_path: Path) -> None:
    bftrainer("init", "--state", tmp_path / "s")
    assert "no training named 'x'" in complaint(bftrainer("cancel", "x", "--state", tmp_path / "s"))
    assert "no pilot has run here" in complaint(bftrainer("show", "x", "--state", tmp_path / "s"))
    assert "does not exist" in complaint(bftrainer("list", "--state", tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[time]\n", "unknown key 'time', did you mean 'times'?"),
        ("[times]\npol_s = 3\n", "times: unknown key 'pol_s', did you mean 'poll_s'?"),
        (
            "[times]\npoll_s = -1\n",
            "times.poll_s: input should be greater than 0 (at least 1e-09), got -1",
        ),
        ("[times]\npoll_s = 0.1\n", "times.file_poll_s 0.2 is larger than times.poll_s 0.1"),
        (
            '[nodes]\nquiet_hours = ["8-18"]\n',
            'nodes.quiet_hours: expected a span like "08:00-18:00"',
        ),
    ],
)
def test_a_bad_configuration_starts_no_pilot(text: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(text)
    line = complaint(bftrainer("pilot", "--config", file, "--state", tmp_path / "s"))
    assert line.startswith(str(file))
    assert expected in line


def test_init_writes_every_key_with_its_default_on_request(tmp_path: Path) -> None:
    state = tmp_path / "s"
    assert bftrainer("init", "--all-keys", "--holder", "trace", "--state", state).status == 0
    text = (state / "bftrainer.toml").read_text()
    expected = PilotConfig(
        times=TimesConfig(poll_s=1.0), workers=WorkersConfig(notice_s=5.0), trace={}
    )
    assert read_config(state / "bftrainer.toml") == expected
    lines = [
        line for line in text.splitlines() if not line.startswith("# ") and not line.endswith("...")
    ]
    shown = "\n".join(line.removeprefix("#") for line in lines)
    defaults = parse_toml(shown, "x")
    assert check_table(defaults.pop("trace"), TraceConfig, "x") == TraceConfig()
    assert check_table({**defaults, "trace": {}}, PilotConfig, "x") == expected, (
        "what is commented out is the default"
    )
    assert "already exists" in complaint(bftrainer("init", "--state", state))
    chosen = {"nodes_holder": "trace", "times_poll_s": 1.0, "workers_notice_s": 5.0}
    reasons = dict.fromkeys(chosen, "the value for holder trace")
    reasons["nodes_holder"] = "as --holder says"
    assert text == commented_default({"trace": TraceConfig}, reasons, **chosen)


def test_quiet_hours() -> None:
    noon, night = datetime(2024, 1, 1, 12, 0), datetime(2024, 1, 6, 1, 0)  # a Monday; a Saturday
    assert is_quiet(("08:00-18:00",), noon)
    assert not is_quiet(("08:00-12:00",), noon)
    assert is_quiet(("mon-fri 08:00-18:00",), noon)
    assert not is_quiet(("sat-sun 08:00-18:00",), noon)
    assert is_quiet(("mon-fri 22:00-06:00",), night), "Friday's night lasts into Saturday"
    assert not is_quiet(("sat-sun 22:00-06:00",), night)
    assert is_quiet(("fri-mon 22:00-06:00",), night)


def test_an_examples_trainer_file_is_good() -> None:
    for path in sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*.toml")):
        read_trainer_file(path)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputFileError, match="is not text in UTF-8"):
        read_trainer_file(tmp_path / "x.toml")
