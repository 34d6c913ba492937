"""Tasks of a pool: real drivers and workers on this host, killed in every way; each result is there
exactly once.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import resource
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.horovod_trainer import CHECKOUT, Trainer
from support.live_machine import eventually
from support.needs import need_package

from bftrainer.errors import UserError
from bftrainer.progress.tasks import tasks
from bftrainer.system.http_server import HttpAnswer, HttpRequest
from bftrainer.wires.hosts_file import HostSlots
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.replicas import Meeting
from bftrainer.wires.task_board import TaskBoard, TaskCounts
from bftrainer.wires.task_source import MOST_BYTES, TaskSource
from bftrainer.wires.typed_json import read_json
from bftrainer_drivers.common.event_writer import EventWriter
from bftrainer_drivers.common.membership import Member
from bftrainer_drivers.common.run_loop import Run
from bftrainer_drivers.pool.main import PoolBackend
from bftrainer_drivers.pool.task_server import TaskServer

Make = Callable[..., Trainer]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """A pool whose workers run this body for each task of this list."""
    made: list[Trainer] = []

    def make(
        body: str,
        source: str = "'list.txt'",
        lines: str | bytes = "a\nb\nc\nd\n",
        stop_s: float = 60,
    ) -> Trainer:
        folder = tmp_path / "pool"
        folder.mkdir(exist_ok=True)
        (folder / "list.txt").write_bytes(lines.encode() if isinstance(lines, str) else lines)
        (folder / "work.py").write_text(
            "import os, signal, sys, time\nfrom bftrainer.progress.tasks import tasks\n"
            f"for task in tasks({source}):\n    {body}\n"
        )
        made.append(Trainer(folder, [sys.executable, "work.py"], driver="pool", stop_s=stop_s))
        return made[-1]

    yield make
    for trainer in made:
        trainer.end()


def results(path: Path) -> dict[int | str, object]:
    """By task; each one once."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert max(Counter(line["task"] for line in lines).values(), default=1) == 1
    return {line["task"]: line["result"] for line in lines}


def counts(trainer: Trainer) -> TaskCounts:
    return read_json(TaskCounts, trainer.directory.tasks)


@pytest.mark.slow
def test_a_node_that_leaves_or_joins_restarts_no_other_worker(make: Make) -> None:
    trainer = make(
        "time.sleep(0.05); task.done(task.value.upper())",
        lines="".join(f"{n}\n" for n in range(400)),
    )
    trainer.start("a:2:1 b:1:2")
    trainer.event("running", fragments=["1", "2"])
    before = trainer.worker("1")
    trainer.hosts("a:2:1 c:1:3")
    trainer.event("running", fragments=["1", "3"])
    assert trainer.event("worker_exited", fragment="2")["status"] == 83, "between two tasks"
    assert trainer.wait() == 0
    assert trainer.worker("1") == before
    assert len(results(trainer.path / "list.results.jsonl")) == 400
    found = counts(trainer)
    assert (found.done, found.failed, found.running, found.repeated) == (400, 0, 0, 0)


def test_a_node_that_is_wanted_again_before_its_worker_has_left_gets_another_worker(
    make: Make,
) -> None:
    """It is announced again in the same stay: the core starts nothing."""
    directory = make("time.sleep(1)").directory
    directory.incarnation_logs(1).mkdir(parents=True)
    run = Run(directory, EventWriter(directory.events, 1), PoolBackend)
    backend, stays, other = (
        run.backend,
        Member("b.2.2", HostSlots("b", 1, "2")),
        Member("a.1.1", HostSlots("a", 1, "1")),
    )
    backend.open()
    try:
        backend.start(stays)
        (first,) = backend._workers_of(stays)
        for members in ((other, stays), (other,), (other, stays)):
            run.state.membership.announced = members
            backend.announce(members)

        def another() -> bool:
            while not run._news.empty():
                backend.note(run._news.get())
            backend.tick(time.monotonic())
            return backend._workers_of(stays) not in ([], [first])

        eventually(another)
        assert first.process.poll() is not None
    finally:
        run.starter.kill_all()
        backend.close()
        run.starter.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "why"),
    [
        ("raise ValueError('bad prompt')", "ValueError: bad prompt"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "its worker on a was killed"),
    ],
)
def test_a_task_that_ends_its_worker_three_times_is_put_aside(
    make: Make, way: str, why: str
) -> None:
    trainer = make(f"task.value == 'b' and exec(\"{way}\"); task.done(1)")
    trainer.start("a:1:1")
    assert trainer.wait() == 0
    assert results(trainer.path / "list.results.jsonl") == {1: 1, 3: 1, 4: 1}
    failures = [json.loads(line) for line in trainer.directory.failures.read_text().splitlines()]
    assert [line["task"] for line in failures] == [2, 2, 2]
    assert why in failures[-1]["error"]
    assert (counts(trainer).done, counts(trainer).failed) == (3, 1)


@pytest.mark.slow
def test_a_script_that_fails_at_every_task_fails_the_pool(make: Make) -> None:
    trainer = make("raise KeyError('answer')")
    trainer.start("a:1:1")
    assert trainer.wait() == 1
    assert trainer.event("failed")["reason"] == (
        "3 workers in succession failed, and no task was finished; the last one ended with "
        "status 1: KeyError: 'answer'"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "lines", "problem"),
    [
        ("'list.txt'", b"", "list.txt: no tasks: expected a line for each"),
        ("'list.txt'", b"good\n\xff\xfe\n", "list.txt:2: not UTF-8"),
        ("'list.txt', 'list.txt/x'", b"a\n", "list.txt/x: cannot be written: Not a directory"),
        (
            "'list.txt', 'locked/x.jsonl'",
            b"a\n",
            "locked/x.jsonl: cannot be written: Permission denied",
        ),
        ("'none.txt'", b"a\n", "none.txt: No such file or directory"),
    ],
)
def test_a_list_that_cannot_be_used_fails_the_pool_with_one_line(
    make: Make, source: str, lines: bytes, problem: str
) -> None:
    trainer = make("pass", source, lines)
    (trainer.path / "locked").mkdir(mode=0o500)
    trainer.start("a:1:1")
    assert trainer.wait() == 1
    reason = trainer.event("failed")["reason"]
    assert problem in reason
    assert "\n" not in reason


@pytest.mark.slow
def test_a_stranger_gets_nothing_from_the_port(make: Make) -> None:
    trainer = make("time.sleep(600)")
    trainer.start("a:1:1")
    trainer.until("it has a task", lambda: trainer.directory.tasks.exists())
    assert trainer.directory.meeting.stat().st_mode & 0o777 == 0o600
    meeting = read_json(Meeting, trainer.directory.meeting)
    worker = {
        "worker": "1.1",
        "source": str(trainer.path / "list.txt"),
        "results": str(trainer.path / "list.results.jsonl"),
    }
    for token, name, status in (
        ("", "1.1", 401),
        ("0" * 64, "1.1", 401),
        (meeting.key, "9.9", 410),
    ):
        connection = http.client.HTTPConnection(meeting.host, meeting.port, timeout=60)
        body = json.dumps({**worker, "worker": name, "verb": "done", "task": 2, "result": "forged"})
        connection.request("POST", "/tasks", body, {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (status, b"")
        connection.close()
    assert results(trainer.path / "list.results.jsonl") == {}


def test_a_result_that_finds_no_room_is_refused_and_its_task_stays_open(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("a\n")
    server = TaskServer(TrainerDirectory(tmp_path), pytest.fail, lambda _: None)
    server.workers.add("1.1")

    def ask(verb: str, **more: object) -> HttpAnswer:
        paths = {"source": str(tmp_path / "list.txt"), "results": str(tmp_path / "out.jsonl")}
        body = json.dumps({"worker": "1.1", "verb": verb, **paths, **more}).encode()
        return server.answer(HttpRequest("POST", "/tasks", {}, body))

    assert ask("take").status == 200
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        refused = ask("done", task=1, result="x" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert refused.status == 507
    assert b"out.jsonl: cannot be written: " in refused.body
    assert results(tmp_path / "out.jsonl") == {}
    assert ask("done", task=1, result="x" * 100).status == 200
    assert results(tmp_path / "out.jsonl") == {1: "x" * 100}


def test_a_line_of_a_gigabyte_is_refused_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        file.write(b"1\n")
        file.truncate(1 << 30)
    with pytest.raises(
        UserError, match=r"long.jsonl:2: longer than 1 MiB; put long inputs into files of a folder"
    ):
        TaskSource(path)
    path.write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(UserError, match=r"long.jsonl:2: not JSON"):
        TaskSource(path)


@pytest.mark.parametrize("source", ["lines", "folder", "iterable"])
def test_a_script_by_itself_does_all_tasks_and_goes_on_where_it_ended(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for name in "abc":
        (tmp_path / "in" / name).write_text(name)
    (tmp_path / "in.jsonl").write_text('"a"\n\n"b"\n"c"\n')
    given = {"lines": "in.jsonl", "folder": "in", "iterable": ["a", "b", "c"]}[source]
    done = []
    for task in tasks(given, "out.jsonl", {}):
        done.append(task.id)
        task.done(Path(task.value).name)
        if len(done) == 2:
            break
    ids = {"lines": [1, 3, 4], "folder": ["a", "b", "c"], "iterable": [1, 2, 3]}[source]
    with (tmp_path / "out.jsonl").open("a") as log:
        log.write(
            json.dumps({"task": ids[2], "result": "cut"})[:-9]
        )  # as a crash of the host may leave it
    done += [task.id for task in tasks(given, "out.jsonl", {})]
    assert done == ids
    assert results(tmp_path / "out.jsonl") == dict(zip(ids, ("a", "b", None), strict=True))


def test_a_result_that_cannot_be_kept_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    (task,) = tasks(tmp_path / "in.txt", environment={})
    with pytest.raises(UserError, match="the result of task 1 is no JSON value"):
        task.done({1, 2})
    with pytest.raises(
        UserError,
        match="the result of task 1 is longer than 1 MiB: write a file, and give its path",
    ):
        task.done("x" * MOST_BYTES)


def test_other_results_are_not_taken_for_those_of_this_list(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    (tmp_path / "out.jsonl").write_text('{"task": 2, "result": 1}\n')
    with pytest.raises(
        UserError, match=r"out.jsonl:1: expected results of the tasks in .*in.txt, found"
    ):
        TaskBoard(
            TaskSource(tmp_path / "in.txt"), tmp_path / "out.jsonl", tmp_path / "failures.jsonl"
        )


def board_of(folder: Path, results: str = "out.jsonl") -> TaskBoard:
    return TaskBoard(TaskSource(folder / "in.txt"), folder / results, folder / "failures.jsonl")


def test_failures_are_private_and_results_have_the_umask_of_their_user(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    before = os.umask(0o002)
    try:
        board_of(tmp_path).close()
    finally:
        os.umask(before)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.glob("*.jsonl")}
    assert modes == {"out.jsonl": "0o664", "failures.jsonl": "0o600"}


@pytest.mark.parametrize(
    "content",
    [
        "model: resnet\nseed: 7",
        "no line end",
        '{"task": 9, "result": 1}\n{"task": 1, "resu',
        '{"task": 1, "result": 1}\nnot a result at all',
        '{"task": 1, "prompt": "of somebody',
        '{"task": 9, "result": "of another li',
        '{"task": "name", "resu\n',
        "x" * 3_000_000,
        "\n\n",
    ],
)
def test_nothing_is_cut_from_a_file_that_is_not_of_this_pool(content: str, tmp_path: Path) -> None:
    """A user may give the wrong file."""
    (tmp_path / "in.txt").write_text("a\nb\n")
    (tmp_path / "out.jsonl").write_text(content)
    with pytest.raises(
        UserError, match=r"out.jsonl:[12]: expected results of the tasks in .*; give another file"
    ):
        board_of(tmp_path)
    assert (tmp_path / "out.jsonl").read_text() == content
    assert not (tmp_path / ".out.jsonl.lock").exists()


@pytest.mark.parametrize("name", ["numbers", "names"])
def test_whatever_a_crash_leaves_of_a_line_is_cut_and_no_more(name: str, tmp_path: Path) -> None:
    first, last = (1, 2) if name == "numbers" else ("a b", "b\u00e9")
    source = tmp_path / "in"
    if name == "names":
        source.mkdir()
        for file in (first, last):
            (source / str(file)).touch()
    else:
        source.write_text("a\nb\n")
    whole = json.dumps({"task": first, "result": [1]}).encode() + b"\n"
    line = json.dumps({"task": last, "result": {"task": 3, "x": "}"}}).encode()
    for end in range(len(line) + 1):
        for zeros in (b"", b"\0" * 9):
            if end == len(line) and zeros:
                continue
            (tmp_path / "out.jsonl").write_bytes(whole + line[:end] + zeros)
            board = TaskBoard(
                TaskSource(source), tmp_path / "out.jsonl", tmp_path / "failures.jsonl"
            )
            board.close()
            is_whole = end == len(line)
            assert (tmp_path / "out.jsonl").read_bytes() == whole + is_whole * (line + b"\n")
            assert board.done_count == 1 + is_whole


def test_whoever_may_only_read_the_results_can_not_lock_them(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    (tmp_path / "out.jsonl").touch(0o644)
    with (tmp_path / "out.jsonl").open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_EX)
        board = board_of(tmp_path)
        assert stat.S_IMODE((tmp_path / ".out.jsonl.lock").stat().st_mode) == 0o600
        with pytest.raises(
            UserError, match=r"out.jsonl: in use by another pool; give another file for the results"
        ):
            board_of(tmp_path)
        (tmp_path / "link.jsonl").symlink_to("out.jsonl")
        with pytest.raises(UserError, match="in use by another pool"):
            board_of(tmp_path, "link.jsonl")
        board.close()
        board_of(tmp_path).close()
    assert not (tmp_path / ".out.jsonl.lock").exists()


def test_a_lock_that_cannot_be_made_does_not_keep_a_pool_from_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    (tmp_path / ".out.jsonl.lock").mkdir()
    board_of(tmp_path).close()
    assert ".out.jsonl.lock: cannot be opened" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_a_list_and_results_are_regular_files(kind: str, tmp_path: Path) -> None:
    """A pipe would hold the driver until somebody writes into it."""
    (tmp_path / "in.txt").write_text("a\n")
    place = tmp_path / "place"
    match kind:
        case "pipe":
            os.mkfifo(place)
        case "device":
            place.symlink_to("/dev/zero")
        case "folder":
            place.mkdir()
    with pytest.raises(
        UserError, match=r"place: is not a regular file; expected a file for the results"
    ):
        board_of(tmp_path, "place")
    if kind != "folder":
        with pytest.raises(
            UserError, match=r"place: is not a regular file; expected a file of lines, or a folder"
        ):
            TaskSource(place)
    else:
        (place / "a").touch()
        source = TaskSource(place)
        assert source.value(0) == str(place / "a")


def test_a_list_that_becomes_a_pipe_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    source = TaskSource(tmp_path / "in.txt")
    (tmp_path / "in.txt").unlink()
    os.mkfifo(tmp_path / "in.txt")
    with pytest.raises(UserError, match=r"in\.txt: is not a regular file"):
        source.value(0)


def test_deep_lines_are_errors_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    deep = "[" * 100_000 + "]" * 100_000
    (tmp_path / "out.jsonl").write_text(f'{{"task": 1, "result": {deep}}}\n')
    with pytest.raises(
        UserError, match=r"out.jsonl:1: is nested in more than 200 levels, expected results"
    ) as refused:
        board_of(tmp_path)
    assert "\n" not in str(refused.value)
    (tmp_path / "deep.jsonl").write_text(f'"{deep}"\n{deep}\n')
    with pytest.raises(UserError, match=r"deep.jsonl:2: is nested in more than 200 levels"):
        TaskSource(tmp_path / "deep.jsonl")
    (tmp_path / "out.jsonl").unlink()
    (task,) = tasks(tmp_path / "in.txt", tmp_path / "out.jsonl", environment={})
    value: list[object] = []
    for levels in range(1, 2000):
        value = [value]
        if levels in (500, 1999):
            with pytest.raises(
                UserError, match="the result of task 1 is nested in more than 200 levels"
            ):
                task.done(value)
    server = TaskServer(TrainerDirectory(tmp_path), pytest.fail, lambda _: None)
    assert server.answer(HttpRequest("POST", "/tasks", {}, deep.encode())).status == 400


@pytest.mark.slow
def test_the_example_of_batch_inference_gives_the_same_answers_on_any_nodes(tmp_path: Path) -> None:
    need_package("transformers")
    for name in ("alone", "pool"):
        (tmp_path / name).mkdir()
        lines = "".join(json.dumps({"prompt": f"question {n}"}) + "\n" for n in range(40))
        (tmp_path / name / "prompts.jsonl").write_text(lines)
    command = [sys.executable, str(CHECKOUT / "docs/examples/pool_generate.py")]
    subprocess.run(
        command, cwd=tmp_path / "alone", check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    with Trainer(tmp_path / "pool", command, driver="pool") as trainer:
        trainer.start("a:1:1 b:1:2")
        trainer.until("it has begun", lambda: trainer.directory.tasks.exists())
        trainer.hosts("b:1:2")
        assert trainer.wait() == 0
    alone, pool = (results(tmp_path / name / "answers.jsonl") for name in ("alone", "pool"))
    assert len(alone) == 40
    assert pool == alone


@pytest.mark.slow
def test_the_example_of_optuna_tells_each_trial_once_while_a_node_goes(tmp_path: Path) -> None:
    need_package("optuna")
    command = [sys.executable, str(CHECKOUT / "docs/examples/pool_optuna.py")]
    with Trainer(tmp_path / "pool", command, driver="pool") as trainer:
        trainer.start("a:1:1 b:1:2")
        trainer.until(
            "a trial is done",
            lambda: counts(trainer).done if trainer.directory.tasks.exists() else 0,
        )
        trainer.kill("1")
        trainer.hosts("b:1:2")
        assert trainer.wait() == 0
        found = results(trainer.path / "trials.jsonl")
    assert sorted(found) == list(range(1, 101))
    assert len({value["trial"] for value in found.values() if isinstance(value, dict)}) == 100


def test_a_driver_does_not_wait_while_the_list_is_read(tmp_path: Path) -> None:
    """It hears of ends of workers in its one loop."""
    reading, goes_on = threading.Event(), threading.Event()

    class SlowDirectory(TrainerDirectory):
        """Its ``tasks.json`` is read at last, as after a long list."""

        @property
        def tasks(self) -> Path:
            reading.set()
            assert goes_on.wait(60)
            return self.path / "tasks.json"

    (tmp_path / "list.txt").write_text("a\n")
    directory = SlowDirectory(tmp_path)
    server = TaskServer(directory, pytest.fail, lambda _: None)
    server.workers |= {"reader", "other"}
    source, results = str(tmp_path / "list.txt"), str(tmp_path / "out.jsonl")
    request = {"source": source, "results": results, "verb": "take", "worker": "reader"}
    reads = threading.Thread(target=server._answer_request, args=(request,))
    reads.start()
    assert reading.wait(60)
    ends = threading.Thread(target=server.ended, args=("other",))
    ends.start()
    ends.join(20)
    is_held_up = ends.is_alive()
    goes_on.set()
    reads.join()
    ends.join()
    assert not is_held_up


class GrowingSource(TaskSource):
    """A list to which somebody appends as fast as it is read."""

    def _parsed_task(self, line: bytes, number: int) -> object:
        assert number < 100, "the list is read for as long as somebody appends to it"
        with self.path.open("ab") as file:
            file.write(b"another\n")
        return super()._parsed_task(line, number)


def test_a_list_is_as_long_as_it_was_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\nb\n")
    assert len(GrowingSource(tmp_path / "in.txt")) == 2


def test_a_worker_that_ends_while_the_list_is_read_gets_no_task(tmp_path: Path) -> None:
    """Its task would be with it for ever."""
    (tmp_path / "list.txt").write_text("a\n")
    server = TaskServer(TrainerDirectory(tmp_path), lambda _: None, lambda _: None)
    server.workers |= {"first", "next"}
    ask = {
        "source": str(tmp_path / "list.txt"),
        "results": str(tmp_path / "out.jsonl"),
        "verb": "take",
    }
    with server._opening:  # somebody's request reads the list
        asks = threading.Thread(target=server._answer_request, args=({**ask, "worker": "first"},))
        ends = threading.Thread(target=server.ended, args=("first",))
        asks.start()
        time.sleep(0.2)
        ends.start()
        ends.join(0.2)
    asks.join()
    ends.join()
    found = server._answer_request({**ask, "worker": "next"})
    assert found is not None
    assert "task" in found
