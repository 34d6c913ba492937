"""Handles over a pilot of fakes: status, waiting, results; in threads and in an event loop."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from support.live_house import House, house, spec

import bftrainer as api
from bftrainer.console.client.gate import Draft
from bftrainer.console.client.handle import TrainerHandle
from bftrainer.console.client.results import Goal, as_csv, best_first, result_rows
from bftrainer.console.client.submission import submit_one
from bftrainer.errors import TrainerFailedError, UserError, WaitTimeoutError
from bftrainer.pilot.persistence.spool import Request, RequestKind
from bftrainer.wires.paths import TrainerDirectory
from bftrainer.wires.progress_line import Phase, ProgressLine, format_progress


@pytest.fixture
def home(tmp_path: Path) -> House:
    it = house(tmp_path / "state", decisions={"max_parallel": 4})
    it.cluster.give("n1", "n2", "n3", "n4")
    return it


def submitted(home: House, name: str, **keys: object) -> TrainerHandle:
    one = spec(name, 1, **keys)
    return TrainerHandle(
        home.path, name, home.spool.put(Request(kind=RequestKind.SUBMIT, trainer=name, spec=one))
    )


def test_a_trainer_from_its_submission_to_its_result(home: House) -> None:
    handle = submitted(home, "a", parameters={"lr": "0.1"}, cwd=home.path)
    assert handle.status() is api.SubmissionStatus.SUBMITTED
    with pytest.raises(WaitTimeoutError, match="'a' has not ended after 0 s: submitted"):
        handle.wait(0)
    with pytest.raises(TimeoutError):
        handle.result(timeout_s=0)
    home.at(4, lambda: home.launcher.progress("a", 100, loss=2.0, accuracy=0.5))
    home.at(6, lambda: home.launcher.progress("a", 200, loss=3.0, accuracy=0.9))
    home.at(7, lambda: home.launcher.finish("a"))
    directory = TrainerDirectory.of(home.path, "a")
    directory.incarnation_logs(1).mkdir(parents=True)
    directory.worker_log(1, "n1", "1", 0).write_text("one\ntwo\n")
    lines = [
        ProgressLine(10.0, step=1, samples=100, loss=2.0, world_size=1),
        ProgressLine(20.0, step=2, samples=200, loss=3.0, world_size=1, metrics={"accuracy": 0.9}),
        ProgressLine(20.5, Phase.CHECKPOINTED, step=2, samples=200, checkpoint="a.pt"),
    ]
    directory.progress.write_text("".join(f"{format_progress(line)}\n" for line in lines))
    home.pilot(12)
    assert handle.wait(0) is api.SubmissionStatus.DONE
    result = handle.result()
    assert (result.ok, result.exit_status, result.samples, result.step) == (True, 0, 200, 2)
    assert (result.least("loss"), result.last("loss"), result.most("accuracy")) == (2.0, 3.0, 0.9)
    assert result.metrics["loss"].least_samples == 100
    assert result.checkpoint == home.path / "a.pt"
    assert result.parameters == {"lr": 0.1}
    assert handle.logs() == "one\ntwo"
    assert handle.logs(1) == "two"
    latest = handle.progress()
    assert (latest.samples_per_s, latest.metrics) == (pytest.approx(100 / 10.5), {"accuracy": 0.9})
    with pytest.raises(UserError, match="'a' reported no metric 'f1'; reported: accuracy, loss"):
        result.last("f1")


def test_metrics_survive_a_pilot_that_comes_back_and_knows_the_latest_lines_only(
    home: House,
) -> None:
    submitted(home, "a")
    home.at(4, lambda: home.launcher.progress("a", 100, loss=1.0))
    home.pilot(8)
    home.launcher.drivers.clear()  # as another pilot that has read nothing yet
    home.at(6, lambda: home.launcher.progress("a", 150, loss=5.0))
    home.pilot(12)
    (row,) = result_rows(home.path)
    (metric,) = row.metrics
    assert (metric.last, metric.least, metric.least_samples, metric.most) == (5.0, 1.0, 100.0, 5.0)


def test_a_submission_that_would_begin_with_the_checkpoint_of_one_that_is_done_is_noted(
    home: House,
) -> None:
    command, notes = ["true", "--checkpoint", "x.pt"], list[str]()
    submitted(home, "a", command=tuple(command), cwd=home.path)
    home.at(5, lambda: home.launcher.finish("a"))
    home.pilot(12)

    def submit(name: str) -> None:
        table = {"name": name, "command": command, "max_nodes": 1, "cwd": str(home.path)}
        submit_one(home.path, Draft(table, "test", home.path), notes.append)

    submit("b")
    assert notes == []
    (home.path / "x.pt").touch()
    home.ask(RequestKind.CANCEL, "b")
    home.pilot(12)
    submit("c")
    assert [note.partition(", and")[0] for note in notes] == [
        f"c saves to {home.path}/x.pt, as b did"
    ]
    submit("d")
    home.ask(RequestKind.CANCEL, "d")
    home.pilot(12)
    (home.path / "x.pt").unlink()
    submit("e")
    assert notes[-1].startswith(f"e saves to {home.path}/x.pt, as c does"), (
        "d ended later, and c trains"
    )


def test_one_that_is_canceled_fails_or_is_rejected(home: House) -> None:
    home.launcher.behaviour["b"] = "fails"
    first, failing = submitted(home, "a"), submitted(home, "b")
    second = submitted(home, "a")
    home.at(5, first.cancel)
    home.pilot(50)
    with pytest.raises(TrainerFailedError, match="training 'a' is canceled: canceled by its user"):
        first.result(timeout_s=0)
    assert first.result(check=False).exit_status is None
    with pytest.raises(TrainerFailedError, match="training 'b' is failed: status 1: boom"):
        failing.result(timeout_s=0)
    assert second.status() is api.SubmissionStatus.REJECTED
    with pytest.raises(
        TrainerFailedError, match="'a' is rejected: submission of 'a' rejected: the name is taken"
    ):
        second.result(timeout_s=0)
    first.cancel()  # nothing to do
    assert home.spool.names() == frozenset()


def test_in_an_event_loop(home: House) -> None:
    handles = [submitted(home, name) for name in "abc"]
    home.at(5, lambda: [home.launcher.finish(name) for name in "abc"])
    home.pilot(10)

    async def go() -> list[str]:
        result = await handles[0]
        assert result.ok
        assert (await handles[1].wait_async(5)) is api.SubmissionStatus.DONE
        return [one.name async for one in api.as_completed_async(handles, timeout_s=5)]

    assert asyncio.run(go()) == ["a", "b", "c"]
    assert [one.name for one in api.as_completed(handles)] == ["a", "b", "c"]


def test_handles_by_name_pattern_and_group(home: House) -> None:
    for name in ("x-1", "x-2", "y"):
        submitted(home, name, **({"group": "x"} if name != "y" else {}))
    home.pilot(3)
    submitted(home, "x-3", group="x")
    assert [one.name for one in api.trainers(state=home.path)] == ["x-1", "x-2", "y", "x-3"]
    assert [one.name for one in api.trainers("*-[13]", group="x", state=home.path)] == [
        "x-1",
        "x-3",
    ]
    assert api.trainer("x-3", state=home.path).status() is api.SubmissionStatus.SUBMITTED
    with pytest.raises(UserError, match="no training named 'z'"):
        api.trainer("z", state=home.path)


def test_the_table_of_results(home: House) -> None:
    for name, lr in (("a", "0.1"), ("b", "0.2"), ("c", "odd")):
        submitted(home, name, parameters={"lr": lr}, group="g")
    home.at(4, lambda: home.launcher.progress("a", 10, loss=0.5, accuracy=0.7))
    home.at(4, lambda: home.launcher.progress("b", 20, loss=0.4))
    home.pilot(10)
    rows = api.results("g", minimize="loss", state=home.path)
    assert [row.name for row in rows] == ["b", "a", "c"]
    assert [row.name for row in best_first(rows, Goal("accuracy", maximize=True))] == [
        "a",
        "b",
        "c",
    ]
    text = as_csv(rows).splitlines()
    assert (
        text[0] == "name,status,lr,samples,node-hours,accuracy,accuracy min,accuracy max,loss,loss "
        "min,loss max,remark"
    )
    assert text[2].startswith("a,waiting,0.1,10,")
    assert text[2].endswith(",0.7,0.7,0.7,0.5,0.5,0.5,")
    assert text[3].endswith(",,,,,,,")
    assert (
        as_csv(rows, Goal("loss")).splitlines()[0]
        == "name,status,lr,samples,node-hours,loss,loss min,remark"
    )
    assert json.loads(json.dumps(rows[0].as_json()))["parameters"] == {"lr": 0.2}
    assert rows[2].as_json()["parameters"] == {"lr": "odd"}
    with pytest.raises(UserError, match="unknown metric 'acuracy', did you mean 'accuracy'"):
        api.results(maximize="acuracy", state=home.path)
    with pytest.raises(UserError, match="got both"):
        api.results(maximize="loss", minimize="loss", state=home.path)
