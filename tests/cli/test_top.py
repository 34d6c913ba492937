"""``bftrainer top``: its reader, its screen at 80x24 and 120x40, its keys, and the picture in the
docs.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from support.command_line import Ended, bftrainer, complaint
from support.live_house import house, spec
from support.patience import PATIENCE
from support.top_scene import Played, a_pilot

from bftrainer.console.cli.output import length
from bftrainer.console.cli.top import text as top_text
from bftrainer.console.cli.top.app import Panel, Top
from bftrainer.console.cli.top.board import HISTORY_S, Board
from bftrainer.console.cli.top.reader import DECISIONS, Reader, Snapshot
from bftrainer.pilot.persistence.registry import TrainerStatus
from bftrainer.pilot.persistence.spool import RequestKind, Spool
from bftrainer.pilot.persistence.store import Holder
from bftrainer.system.processes import ProcessId, this_process

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "top.svg"


@pytest.fixture(scope="module", autouse=True)
def _in_utc() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    yield
    os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
    time.tzset()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return a_pilot(tmp_path_factory.mktemp("pilot"))


@pytest.fixture(scope="module")
def board(scene: Played) -> Board:
    board = Board()
    for look in scene.looks:
        board.add(look)
    return board


def test_a_trainer_that_has_nodes_and_waits_for_its_workers_is_starting_as_in_list(
    scene: Played,
) -> None:
    last, starts = scene.looks[-1], Board()
    one = replace(last.trainers[0], status=TrainerStatus.WAITING)
    starts.add(replace(last, trainers=(one,), nodes={one.name: 2}, requests=()))
    assert [row.status for row in starts.rows()] == ["starting"]
    starts.add(replace(last, trainers=(one,), nodes={}, requests=()))
    assert [row.status for row in starts.rows()] == ["waiting"]


def shown(
    scene: Played, do: Callable[[Top, object], Awaitable[None]], size: tuple[int, int] = (80, 24)
) -> Top:
    """Run the screen at the end of the scene, and do something with it."""
    app = Top(Played(scene.state, scene.looks[-1:]), 0, top_text.UNICODE)  # type: ignore[arg-type]
    app.NOTIFICATION_TIMEOUT = 600.0  # type: ignore[misc]  # still shown when the test takes its screenshot
    for look in scene.looks[:-1]:
        app.board.add(look)

    async def run() -> None:
        async with app.run_test(size=size, notifications=True) as pilot:
            await settle(pilot)
            await do(app, pilot)

    asyncio.run(run())
    return app


async def settle(pilot: object) -> None:
    """Textual assumes that all messages are processed after 20 ms, which is wrong on a loaded host:
    repeat the pause.
    """
    for _ in range(3):
        for _ in range(50):
            await asyncio.sleep(0)
        await pilot.pause()  # type: ignore[attr-defined]


def text_of(svg: str) -> list[str]:
    """The lines of a screenshot."""
    lines: dict[float, dict[float, str]] = {}
    for x, y, text in re.findall(r'<text[^>]* x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', svg):
        lines.setdefault(float(y), {})[float(x)] = unescape(text).replace("\xa0", " ")
    return ["".join(line[x] for x in sorted(line)).rstrip() for _, line in sorted(lines.items())]


async def nothing(_app: Top, _pilot: object) -> None:
    pass


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_everything_is_on_the_screen(scene: Played, size: tuple[int, int]) -> None:
    seen: list[str] = []

    async def look(app: Top, _pilot: object) -> None:
        seen.extend(text_of(app.export_screenshot(title="bftrainer top")))

    shown(scene, look, size)
    text = "\n".join(seen)
    assert "pilot 4711 on login1: 5 running, 1 paused, 1 failed" in text
    for line in (
        r"held +28 .*█",
        r"used +28 .*█",
        "idle +0",
        r"resnet50 +running +8/8 +1.56k +█░* +\d+% +\d+ min",
    ):
        assert re.search(line, text), (line, text)
    assert re.search(r"unet3d +paused +0/4 +- +█+░+ +\d+% +- +paused by", text)
    assert re.search(r"tacotron +running +2/2 .* done +-", text)
    assert "decision: -1 node (" in text
    assert "e explain" in text
    assert "q quit" in text
    assert "dlrm   " not in text  # it has failed: `a` shows it
    assert max(map(len, seen[1:])) <= size[0]


def requests(state: Path) -> list[tuple[RequestKind, str]]:
    found = [
        (r.request.kind, r.request.trainer) for r in Spool(state).pending() if r.request is not None
    ]
    for received in Spool(state).pending():
        Spool(state).remove(received.name)
    return found


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that a thread of the screen does."""
    give_up = time.monotonic() + 20 * PATIENCE
    while not condition():
        assert time.monotonic() < give_up
        await asyncio.sleep(0.01)


def press(scene: Played, *keys: str, panel_after: str = "") -> Top:
    """Press keys and take a screenshot; after the key ``panel_after`` a panel has to appear."""

    async def go(app: Top, pilot: object) -> None:
        for key in keys:
            await pilot.press(key)  # type: ignore[attr-defined]
            await settle(pilot)
            if key == panel_after:
                await until(lambda: isinstance(app.screen, Panel))
                await settle(pilot)
        app.seen = "\n".join(text_of(app.export_screenshot()))  # type: ignore[attr-defined]
        app.seen_chosen = app.selected_name if app.screen_stack else None  # type: ignore[attr-defined]

    return shown(scene, go)


def test_keys_pause_and_resume_the_chosen_trainer(scene: Played) -> None:
    press(scene, "down", "p")
    press(scene, "end", "r")  # running ones come first, the paused one last
    assert requests(scene.state) == [
        (RequestKind.PAUSE, "bert-base"),
        (RequestKind.RESUME, "unet3d"),
    ]


def test_cancel_asks_first(scene: Played) -> None:
    app = press(scene, "c")
    assert "Cancel resnet50? It checkpoints and cannot be resumed." in app.seen  # type: ignore[attr-defined]
    press(scene, "c", "n")
    press(scene, "c", "escape")
    press(scene, "c", "enter")
    assert requests(scene.state) == []
    press(scene, "c", "y")
    assert requests(scene.state) == [(RequestKind.CANCEL, "resnet50")]


def test_a_request_for_an_ended_trainer_is_rejected(scene: Played) -> None:
    app = press(scene, "a", "end", "p")  # trainers that have ended come last
    assert "is already failed" in app.seen  # type: ignore[attr-defined]
    assert requests(scene.state) == []


@pytest.mark.parametrize("key", ["e", "enter"])
def test_explain_opens_what_the_command_says(scene: Played, key: str) -> None:
    app = press(scene, key, panel_after=key)
    text = app.seen  # type: ignore[attr-defined]
    assert re.search(r"resnet50 has had \d nodes? since", text) or "resnet50 has no nodes" in text
    assert "decided by" in text
    assert len(press(scene, key, "escape", panel_after=key).screen_stack) <= 1


def test_the_cursor_stays_on_its_trainer_when_rows_move(scene: Played) -> None:
    async def go(app: Top, pilot: object) -> None:
        await pilot.press("down")  # type: ignore[attr-defined]
        await settle(pilot)
        assert app.selected_name == "bert-base"
        await pilot.press("s", "s", "s")  # type: ignore[attr-defined]
        await settle(pilot)
        assert app.selected_name == "bert-base"

    shown(scene, go)


def test_more_trainers_than_lines_are_scrolled(scene: Played) -> None:
    (one,) = (t for t in scene.looks[-1].trainers if t.name == "resnet50")
    names = [f"t{i:03d}" for i in range(100)]
    many = tuple(replace(one, spec=one.spec.model_copy(update={"name": name})) for name in names)
    crowd = Played(scene.state, [replace(scene.looks[-1], trainers=many)])

    def at_top(app: Top) -> list[str]:
        return re.findall(r"t0\d\d(?= )", app.seen)  # type: ignore[attr-defined]

    assert at_top(press(crowd))[0] == "t000"
    last = press(crowd, "end")
    assert last.seen_chosen == "t099"  # type: ignore[attr-defined]
    assert at_top(last)[-1] == "t099"
    below = press(crowd, "pagedown").seen_chosen  # type: ignore[attr-defined]
    assert below == names[len(at_top(last))]
    assert at_top(press(crowd, "end", "home"))[0] == "t000"


def test_a_filter_shows_some_rows_and_escape_all(scene: Played) -> None:
    app = press(scene, "slash", "b", "e", "r", "enter")
    text = app.seen  # type: ignore[attr-defined]
    assert "bert-base" in text
    assert "resnet50  " not in text
    assert 'filter "ber"' in text
    assert press(scene, "slash", "b", "enter", "escape").pattern == ""


def test_ended_ones_are_shown_on_demand(scene: Played) -> None:
    text = press(scene, "a").seen  # type: ignore[attr-defined]
    assert re.search(r"dlrm +failed", text)
    assert "including ended trainings" in text


def test_a_database_that_cannot_be_read_is_said_and_tried_again(scene: Played) -> None:
    from bftrainer.errors import StoreError

    class Broken(Played):
        def read_snapshot(self) -> Snapshot:
            raise StoreError("pilot.db: cannot be read: disk I/O error")

    seen: list[str] = []

    async def go(app: Top, pilot: object) -> None:
        app._reader = Broken(scene.state, scene.looks)  # type: ignore[assignment]
        app.update_board()
        await settle(pilot)
        seen.extend(text_of(app.export_screenshot()))
        app._reader = Played(scene.state, scene.looks[-1:])  # type: ignore[assignment]
        app.update_board()
        await settle(pilot)
        seen.extend(["--", *text_of(app.export_screenshot())])

    shown(scene, go)
    first, second = "\n".join(seen).split("--\n")
    assert "cannot be read: disk I/O error" in first
    assert "resnet50" in first  # what was known stays
    assert "cannot be read" not in second


# --- the board
# -----------------------------------------------------------------------------------------------------------


def test_a_dead_pilot_and_a_silent_one_are_distinguished_from_none(board: Board) -> None:
    last = board.snapshot
    assert last.pilot is not None
    pilot = last.pilot
    quiet = Board()
    quiet.add(replace(last, at_s=pilot.heartbeat_s + 130, is_alive=False))
    assert quiet.headline().startswith("PILOT IS DEAD, last seen 2 min ago. pilot 4711 on login1: ")
    quiet.add(replace(last, at_s=pilot.heartbeat_s + 130, is_alive=None))
    assert quiet.headline().startswith("NO HEARTBEAT for 2 min from pilot 4711 on login1")
    quiet.add(replace(last, at_s=pilot.heartbeat_s + 4, is_alive=True))
    assert quiet.silent_s() is None
    quiet.add(replace(last, pilot=None))
    assert quiet.headline().startswith("no pilot is running")
    assert all(row.per_s is None for row in quiet.rows())


def test_speeds_are_measured_between_heartbeats_and_start_again_after_a_checkpoint(
    scene: Played,
) -> None:
    look = scene.looks[-1]
    assert look.pilot is not None
    (one,) = (t for t in look.trainers if t.name == "resnet50")
    board = Board()

    def at(seconds: float, samples: float) -> float | None:
        pilot = Holder("login1", ProcessId(1, ""), "", seconds)
        board.add(
            replace(look, at_s=seconds, pilot=pilot, trainers=(replace(one, samples_done=samples),))
        )
        return board.rows()[0].per_s

    assert at(100, 1000) is None
    assert at(105, 2000) == pytest.approx(200)
    assert at(106, 2000) == pytest.approx(1000 / 6)
    assert at(200, 3000) is None  # of a minute ago nothing is known
    assert at(205, 500) is None
    assert at(210, 1000) == pytest.approx(100)


def test_what_a_dead_pilot_had_is_not_drawn_up_to_now(scene: Played) -> None:
    reader = Reader(scene.state, lambda: 1_700_000_900.0)
    board = Board()
    board.add(replace(reader.read_snapshot(), is_alive=False))
    reader.close()
    bins = board.bins(100)
    died = round(100 - (board.snapshot.at_s - board.snapshot.pilot.heartbeat_s) / HISTORY_S * 100)
    assert any(p is not None and p.held > 0 for p in bins[:died])
    assert all(p is not None and p.held == board.snapshot.held == 0 for p in bins[died + 1 :])


def test_lengths_and_numbers() -> None:
    assert [length(s) for s in (0, 59.4, 60, 3599, 3700, 90_000)] == [
        "0 s",
        "59 s",
        "1 min",
        "59 min",
        "1 h 01",
        "1 d 01 h",
    ]
    assert [top_text.number(v) for v in (0, 7.25, 999, 1000, 45_600, 2.5e9)] == [
        "0",
        "7.25",
        "999",
        "1k",
        "45.6k",
        "2.5G",
    ]


# --- the reader
# ----------------------------------------------------------------------------------------------------------


def test_a_reader_tells_everything_once(scene: Played) -> None:
    reader = Reader(scene.state, lambda: 1_700_000_700.0)
    first, second = reader.read_snapshot(), reader.read_snapshot()
    reader.close()
    assert first.decisions
    assert first.notes
    assert second.decisions == ()
    assert second.notes == ()
    assert second.trainers == first.trainers
    assert first.pilot.process == this_process()


def test_looks_while_it_runs_have_what_the_journal_has(scene: Played) -> None:
    reader = Reader(scene.state, lambda: 0.0)
    told = [d for look in scene.looks for d in look.decisions]
    everything = reader.read_snapshot().decisions
    reader.close()
    assert [d.at_s for d in told] == [d.at_s for d in everything][: len(told)]
    assert [d.pool for d in told] == [d.pool for d in everything][: len(told)]
    assert all(d.used <= d.pool for d in everything)


def test_only_the_latest_decisions_are_read(tmp_path: Path) -> None:
    h = house(tmp_path / "state")
    h.cluster.give("a", "b")
    h.submit(spec("one", 2))
    for i in range(DECISIONS):
        h.at(2 + 2 * i, lambda i=i: h.cluster.take("a") if i % 2 else h.cluster.give("a"))
    h.pilot(2 * DECISIONS + 5)
    reader = Reader(h.path, h.clock.now_s)
    look = reader.read_snapshot()
    reader.close()
    assert len(look.decisions) <= DECISIONS
    assert look.decisions[-1].pool <= 2


def test_before_any_pilot_pending_submissions_are_shown(tmp_path: Path) -> None:
    h = house(tmp_path / "state")
    h.submit(spec("early"))
    reader = Reader(h.path, h.clock.now_s)
    board = Board()
    board.add(reader.read_snapshot())
    reader.close()
    assert [(row.name, row.status) for row in board.rows()] == [("early", "waiting")]
    assert board.headline().startswith("no pilot is running")


# --- the command
# ---------------------------------------------------------------------------------------------------------


def run(*arguments: object) -> Ended:
    return bftrainer("top", *arguments)


def test_once_prints_a_screen(scene: Played) -> None:
    ended = run("--once", "--ascii", "--state", scene.state)
    assert ended.status == 0, ended
    assert re.search(r"resnet50 +", ended.out)
    assert "decision:" in ended.out
    assert ended.out.isascii()


def test_without_textual_it_says_what_to_install(
    scene: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "bftrainer.console.cli.top.app", None)
    ended = run("--state", scene.state)
    assert complaint(ended) == (
        "top requires the textual package, which is not installed; run pip install "
        "'bftrainer[top]', or use --once"
    )


# --- the picture
# ---------------------------------------------------------------------------------------------------------


def test_the_picture_in_the_docs_is_this_screen(scene: Played) -> None:
    """``BFTRAINER_PICTURES=1`` draws it again."""
    drawn: list[str] = []

    async def draw(app: Top, _pilot: object) -> None:
        drawn.append(app.export_screenshot(title="bftrainer top"))

    shown(scene, draw, (100, 28))
    if os.environ.get("BFTRAINER_PICTURES"):
        PICTURE.write_text(drawn[0] + "\n", encoding="utf-8")
    assert text_of(PICTURE.read_text(encoding="utf-8")) == text_of(drawn[0]), (
        "draw it again with BFTRAINER_PICTURES=1"
    )
