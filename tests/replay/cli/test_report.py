"""``bftrainer replay report``: what is in the page and beside it, and that a browser shows it."""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import html
import io
import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib import image
from replay.commands import executed
from support.browser import Browser
from support.command_line import Ended, bftrainer, complaint

from bftrainer_replay.logs.dialect import PBS, SACCT
from bftrainer_replay.report.figures import read_figures
from bftrainer_replay.report.top import _wait_box
from bftrainer_replay.report.top import sentence as sentence_of
from bftrainer_replay.report.words import precise


class Page(HTMLParser):
    """Its pictures with their alt texts, and every address it mentions."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.alts: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        told = dict(attributes)
        if tag == "img":
            self.alts.append(told.get("alt") or "")
        self.addresses += [told[name] or "" for name in ("src", "srcset", "href") if name in told]


def data(out: Path, name: str) -> list[dict[str, str]]:
    """A table of the page."""
    with (out / "data" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def without_spans(page: str) -> str:
    """The page with options as plain text."""
    return re.sub('<span class="option">([a-z-]+)</span>', r"\1", page)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    folder = tmp_path_factory.mktemp("report")
    log = folder / "log.csv.gz"
    executed("replay", "generate", "--nodes", 64, "--days", 0.5, "--out", log)
    ended = executed("replay", "report", log, "--out", folder / "out", "--jobs", 1)
    return folder, ended


def test_the_page_is_whole_and_needs_no_network(made: tuple[Path, Ended]) -> None:
    folder, ended = made
    text = (folder / "out" / "report.html").read_text()
    announced = re.search(r"^(\d+) replays, on 1 core$", ended.err, re.MULTILINE)
    assert len(text) < 5e6
    told = [json.loads(path.read_text()) for path in (folder / "out" / "cells").iterdir()]
    assert [each["kind"] for each in told].count("pool") == 1
    assert len(told) == int(announced[1]) == 3 + len(data(folder / "out", "replays"))
    page = Page(text)
    assert 0 < len(page.alts) <= 8
    assert all(len(alt) > 40 for alt in page.alts)
    assert all(address.startswith(("data:image/png;base64,", "#")) for address in page.addresses)
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {
        "http://www.w3.org/2000/svg"
    }  # a name, not an address
    above, _, below = text.partition('<details class="appendix">')
    assert above.count('<li class="') == 4
    assert above.count('<svg class="chart') == 2
    assert "This log does not contain the job queue" in below
    for chapter in ("Idle nodes", "Settings tried", "Assumptions"):
        assert re.search(f"<h2 id=.*{chapter}", below), chapter
    names = {path.stem for path in (folder / "out" / "pictures").iterdir()}
    assert len(names) == len(page.alts)
    assert {"top-idle", "top-numbers", *names} < {
        path.stem for path in (folder / "out" / "data").iterdir()
    }


def test_what_made_the_page_is_on_it(made: tuple[Path, Ended]) -> None:
    folder, _ = made
    origin = json.loads((folder / "out" / "report.json").read_text())["origin"]
    assert origin["sha256"] == hashlib.sha256((folder / "log.csv.gz").read_bytes()).hexdigest()
    text = html.unescape((folder / "out" / "report.html").read_text())
    assert origin["command"].split()[0] == "bftrainer"
    for told in (
        origin["sha256"],
        origin["command"],
        origin["day"],
        f"bftrainer {origin['version']}",
    ):
        assert told in text


def test_data_are_plain_numbers_with_units_in_the_header(made: tuple[Path, Ended]) -> None:
    prose = {"assumptions"}
    for path in (
        each for each in (made[0] / "out" / "data").glob("*.csv") if each.stem not in prose
    ):
        for row in csv.reader(io.StringIO(path.read_text())):
            assert not [
                cell for cell in row if re.fullmatch(r"[+-]?[\d,.]*(\d,\d|\d ?(%|s|h|min)$)", cell)
            ], (
                path.name,
                row,
            )
    assert float(data(made[0] / "out", "replays")[0]["held (%)"]) > 50
    assert data(made[0] / "out", "replays")[0]["T_fwd (s)"] == "120"


def test_the_papers_figures_are_not_on_the_page(made: tuple[Path, Ended]) -> None:
    text = (
        (made[0] / "out" / "report.html").read_text().partition("<body")[2].partition("<script>")[0]
    )
    words = html.unescape(re.sub("<[^>]*>", " ", text))
    assert not re.findall(r"(?i)efficien\w+", words)
    assert not re.findall(r"Table 1|eq-nodes|million samples|\bROI\b", words)


def test_the_top_of_the_page_is_what_the_log_and_the_replay_say(made: tuple[Path, Ended]) -> None:
    """An independent sum over the log and over the nodes in training."""
    folder, ended = made
    with gzip.open(folder / "log.csv.gz", "rt") as file:
        lines = [line.rstrip("\n").split(",") for line in file if line[:1].isdigit()]
    idle: set[str] = set()
    node_s, since = 0.0, None
    for at, joined, left, *_ in lines:
        now = datetime.fromisoformat(at)
        node_s += len(idle) * (now - since).total_seconds() if since else 0.0
        idle = (idle - set(left.split())) | set(joined.split())
        since = now
    span_s = (
        datetime.fromisoformat(lines[-1][0]) - datetime.fromisoformat(lines[0][0])
    ).total_seconds()
    timeline = data(folder / "out", "timeline")
    used = sum(float(row["in_training"]) for row in timeline) / sum(
        float(row["idle"]) for row in timeline
    )
    sentence, idle_box, training_box, plain_box, wait_box, *_ = ended.out.splitlines()
    share = re.match(
        r"Idle: ([\d.]+)% of all node-hours: ([\d,]+) a month\. ([\d.]+) nodes on average", idle_box
    )
    assert float(share[1]) == pytest.approx(100 * node_s / span_s / 64, abs=0.06)
    assert float(share[2].replace(",", "")) == pytest.approx(
        node_s / 3600 * 30 * 86400 / span_s, rel=0.006
    )
    assert float(share[3]) == pytest.approx(node_s / span_s, rel=0.006)
    work = float(data(folder / "out", "replays")[0]["work (%)"]) / 100
    trained = re.match(
        r"10 elastic trainings: ([\d.]+)% of the idle node-hours become work: ([\d,]+) a "
        r"month\. Trainings hold ([\d.]+)%",
        training_box,
    )
    assert float(trained[1]) == pytest.approx(100 * work, abs=0.6)
    assert float(trained[2].replace(",", "")) == pytest.approx(
        work * node_s / 3600 * 30 * 86400 / span_s, rel=0.01
    )
    assert float(trained[3]) == pytest.approx(100 * used, abs=0.6)
    assert work < used
    figures = read_figures(folder / "out" / "report.json")
    (worst, least), (best, most) = figures.by_model
    assert least < work < most
    assert (
        f"the models: {precise(least)} with {worst} alone, {precise(most)} with {best} alone. "
        "In a month" in ended.out
    )
    assert figures.pool_share is not None
    assert 0 <= figures.pool_share <= 1 - used + 0.01
    assert len(sentence) <= 2 * 84, "more than two lines of the page"
    numbers = {int(row["at once"]): row for row in data(folder / "out", "top-numbers")}
    alike = re.match(r"10 plain one-node jobs instead: ([\d.]+)% of the idle node-hours", plain_box)
    assert float(alike[1]) == pytest.approx(float(numbers[10]["plain one-node jobs (%)"]), abs=0.6)
    assert float(numbers[10]["trainings (%)"]) == pytest.approx(100 * work, abs=0.06)
    assert wait_box.startswith("Longer wait, main queue: not known")
    preempted = re.search(
        r"In a month, jobs take nodes from training ([\d,]+) times; each stops a training for "
        r"11 to 13 s",
        ended.out,
    )
    counted = int(data(folder / "out", "replays")[0]["preempted"])
    assert float(preempted[1].replace(",", "")) == pytest.approx(
        counted * 30 * 86400 / span_s, rel=0.006
    )
    above = (
        (folder / "out" / "report.html")
        .read_text()
        .partition("</style>")[2]
        .partition('<details class="appendix"')[0]
    )
    words = html.unescape(re.sub("<[^>]*>", "", above))
    assert sentence in words
    assert not re.search(r"\bU\b|A_e|T_fwd|million samples|\bpiece", words)


def test_the_picture_of_idle_nodes_adds_up(made: tuple[Path, Ended]) -> None:
    """Means of hours, of which the first and the last may be cut."""
    folder, _ = made
    rows = data(folder / "out", "top-idle")
    figures = json.loads((folder / "out" / "report.json").read_text())
    mean = sum(float(row["idle nodes"]) for row in rows) / len(rows)
    assert mean == pytest.approx(figures["mean_idle_nodes"], rel=0.15)
    assert all(float(row["in training"]) <= float(row["idle nodes"]) + 0.1 for row in rows)
    above = (folder / "out" / "report.html").read_text()
    assert len(re.findall(r'<path class="(?:idle|training)" d="M0', above)) == 2


def test_the_next_month_says_what_has_changed(made: tuple[Path, Ended], tmp_path: Path) -> None:
    last = json.loads((made[0] / "out" / "report.json").read_text())
    last["idle_share"], last["dates"] = 0.5, "May 2020"
    (tmp_path / "last.json").write_text(json.dumps(last))
    options = ("--out", made[0] / "out", "--jobs", 1)
    rates = ("--node-hour-price", 2, "--currency", "CHF", "--extra-kw", 0.5)
    log, last_report = made[0] / "log.csv.gz", tmp_path / "last.json"
    ended = bftrainer("replay", "report", log, *options, "--compare", last_report, *rates)
    assert re.search(r"^Costs: At 2 CHF a node-hour, the idle nodes cost", ended.out, re.MULTILINE)
    assert "Nodes in training would use" in (made[0] / "out" / "report.html").read_text()
    assert re.search(
        r"^Compared: With the report on May 2020: idle 50\.0% then, [\d.]+% now; ",
        ended.out,
        re.MULTILINE,
    ), ended
    (tmp_path / "last.json").write_text('{"idle_share": "much"}')
    ended = bftrainer(
        "replay", "report", made[0] / "log.csv.gz", *options, "--compare", tmp_path / "last.json"
    )
    assert "expected the report.json that an earlier report wrote" in complaint(ended)


def half_hours(path: Path, which: Iterable[int]) -> None:
    """A log of jobs that wait from midnight on: each runs for the first 20 minutes of a half-hour,
    on two nodes of four.
    """
    lines = ["JobID|Partition|Submit|Start|End|NNodes|NodeList|State"]
    for i in which:
        start, end = (
            f"2024-01-01T{i // 2:02}:{30 * (i % 2):02}:00",
            f"2024-01-01T{i // 2:02}:{30 * (i % 2) + 20:02}:00",
        )
        lines.append(
            f"{i}|{'pq'[i % 2]}|2024-01-01T00:00:00|{start}|{end}|2|n[{1 + i % 3}-{2 + i % 3}]|COMPLETED"
        )
    path.write_text("\n".join(lines) + "\n")


def test_an_outage_is_in_no_share_anywhere_and_a_queue_is_judged(tmp_path: Path) -> None:
    """Nothing runs from 9:50 to 13:00; in the other 60,000 s, 34 jobs hold two of four nodes for
    1,200 s each.
    """
    half_hours(log := tmp_path / "sacct.txt", (*range(20), *range(26, 40)))
    where = (log, "--warm-up-h", 0, "--cool-down-h", 0, "--out", tmp_path / "out")
    share, mean = 1 - 34 * 2 * 1200 / (4 * 60_000), 4 - 34 * 2 * 1200 / 60_000
    table = " ".join(bftrainer("replay", "characterize", *where).out.split())
    assert (
        f"outages, not in the span 3.2 h resource integral (Eqn 17) {mean * 60 / 3.6:.0f} node-h"
        in table
    )
    assert f"idle share of 4 nodes in service {share:.2%}" in table
    assert f" p no device 4 44 {share:.1%} " in table
    fits = re.search(r"a waiting job fits [\d,]+ ([\d.]+)%", table)
    found = json.loads(bftrainer("replay", "characterize", *where, "--json").out)
    gauges = dict(
        re.findall(
            r"(?m)^bftrainer_log_(\w+) (.*)$", (tmp_path / "out" / "characterize.prom").read_text()
        )
    )
    figures = json.loads(bftrainer("replay", "report", *where, "--jobs", 1, "--json").out)
    assert [
        found["idle_share"],
        figures["idle_share"],
        float(gauges["idle_ratio"]),
    ] == pytest.approx([share] * 3)
    assert [
        found["eq_nodes"],
        figures["mean_idle_nodes"],
        float(gauges["idle_nodes_mean"]),
    ] == pytest.approx([mean] * 3)
    assert [found["outage_h"], float(gauges["outage_hours"])] == pytest.approx([19 / 6] * 2)
    page = (tmp_path / "out" / "report.html").read_text().partition("</style>")[2]
    first = (
        "66% of the node-hours of this cluster lie idle (3.2 hours of outages left out): "
        "10 elastic trainings"
    )
    assert figures["lead"].startswith("This log seems to lack jobs: ")
    assert first in figures["lead"]
    assert first in html.unescape(re.sub("<[^>]*>", "", page)).partition(".0%")[0]
    causes = {
        cause: float(of_idle)
        for cause, _, of_idle in map(dict.values, data(tmp_path / "out", "idle-while"))
    }
    assert sum(causes.values()) == pytest.approx(100, abs=0.2)
    assert float(fits[1]) == causes["a waiting job fits"] > 50
    assert f"jobs could have used at most {causes['a waiting job fits']:.0f}%" in figures["lead"]
    assert "Waiting jobs are judged by size and partition." in figures["lead"]
    assert "could not have been filled" in page
    shares = " ".join(
        row["effect of other values"] for row in data(tmp_path / "out", "assumptions")
    )
    assert f"--debounce-s 60: {share:.1%} idle" in shares
    assert f"--outage none: {1 - 34 * 2 * 1200 / (4 * 71_400):.1%} idle" in shares


def test_guesses_of_the_importer_are_on_the_page(tmp_path: Path) -> None:
    half_hours(tmp_path / "sacct.txt", range(40))
    ended = executed(
        "replay", "report", tmp_path / "sacct.txt", "--out", tmp_path / "out", "--jobs", 1
    )
    rows = data(tmp_path / "out", "assumptions")
    told = [
        line.removeprefix("note: ")
        for line in ended.err.splitlines()
        if line.startswith("note: ") and "the log shows 19 h 50 only" not in line
    ]
    assert told
    assert [row["assumed"].lower() for row in rows if row["what"] == "The log"] == [
        line.lower() for line in told
    ]
    changed = {row["what"]: row["changed by"] for row in rows}
    assert changed["Concurrent trainers"] == "--max-parallel"
    assert any(
        "--warm-up-h" in row["assumed"] or "--machine-nodes" in row["changed by"] for row in rows
    )
    effects = " ".join(row["effect of other values"] for row in rows if row["what"] == "The log")
    for option in ("--warm-up-h 24", "--debounce-s 60"):
        shares = [float(found) for found in re.findall(rf"{option}: ([\d.]+)% idle", effects)]
        again = bftrainer(
            "replay", "characterize", tmp_path / "sacct.txt", *option.split(), "--json"
        )
        expected = [] if again.status else [100 * json.loads(again.out)["idle_share"]]
        assert shares == pytest.approx(expected, abs=0.06)
    assert "V100" in next(row["assumed"] for row in rows if row["what"].startswith("Throughput"))
    cost = next(row["effect of other values"] for row in rows if row["what"] == "Cost of a rescale")
    assert re.fullmatch(
        r"2 times the cost: [+-][\d.]+% \(\d+% used\); 4 times the cost: [+-][\d.]+% \(\d+% used\)",
        cost,
    )


def test_again_it_replays_nothing(made: tuple[Path, Ended]) -> None:
    folder, ended = made
    cells = {path: path.stat().st_mtime_ns for path in (folder / "out" / "cells").iterdir()}
    again = bftrainer(
        "replay", "report", folder / "log.csv.gz", "--out", folder / "out", "--jobs", 1, "--json"
    )
    assert json.loads(again.out)["lead"].splitlines()[0] in ended.out
    assert {path: path.stat().st_mtime_ns for path in (folder / "out" / "cells").iterdir()} == cells


OPEN = "document.querySelector('.appendix').open = true"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_shows_it(
    made: tuple[Path, Ended], browser: Browser, width: int, dark: bool
) -> None:
    browser.requested.clear()
    browser.open(made[0] / "out" / "report.html", width=width, dark=dark)
    browser.evaluate(OPEN)
    assert {address.partition(":")[0] for address in browser.requested} == {"file", "data"}
    assert (
        browser.evaluate("document.documentElement.scrollWidth") == width
    )  # nothing runs out at the side
    # Tables are stacked on a narrow screen: no column has to be scrolled to.
    lost = (
        "[...document.querySelectorAll('th, td')].filter(c => "
        "c.getBoundingClientRect().right > innerWidth).length"
    )
    assert browser.evaluate(lost) == 0
    loaded = (
        "[...document.images].filter(i => i.offsetParent).map(i => i.complete && i.naturalWidth)"
    )
    assert set(browser.evaluate(loaded)) == {1200 if width > 600 else 600}
    seen = image.imread(io.BytesIO(browser.screenshot()))[..., :3]
    assert seen.shape[1] == width
    assert (seen.mean() < 0.3) == dark
    assert (
        seen.max(axis=(1, 2)) - seen.min(axis=(1, 2)) > 0.3
    ).mean() > 0.4  # text and pictures all the way down


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
def test_figures_are_read_off_and_zoomed(
    made: tuple[Path, Ended], browser: Browser, width: int
) -> None:
    browser.open(made[0] / "out" / "report.html", width=width)
    browser.evaluate(OPEN)
    browser.evaluate("document.querySelector('.live > svg').scrollIntoView({block: 'center'})")
    told = json.loads(browser.evaluate("document.querySelector('[data-series]').dataset.series"))
    bounds = "document.querySelector('.live > svg').getBoundingClientRect()"
    left, top, wide, high = browser.evaluate(f"(b => [b.left, b.top, b.width, b.height])({bounds})")
    said = "document.querySelector('.live output').textContent"
    assert "drag to zoom" in browser.evaluate(said)

    def at(share: float) -> tuple[float, float]:
        """A place inside the axes, whose margins are 60 and 10 pixels."""
        return left + 60 + share * (wide - 70), top + high / 2

    def values() -> list[float]:
        return [
            float(text.replace(",", ""))
            for text in re.findall(r"(?:idle|training) ([\d.,]+)", browser.evaluate(said))
        ]

    browser.mouse("mouseMoved", *at(0.5001))
    middle = len(told["series"]["idle"]) // 2
    assert values() == [round(told["series"][name][middle], 1) for name in ("idle", "in training")]
    browser.mouse("mouseMoved", *at(0.25))
    browser.mouse("mousePressed", *at(0.25))
    browser.mouse("mouseMoved", *at(0.5))
    assert browser.evaluate("document.querySelectorAll('.live .chosen').length") == 1
    browser.mouse("mouseReleased", *at(0.5))
    shown = "document.querySelector('.live').dataset.shown.split(' ').map(Number)"
    first, last = browser.evaluate(shown)
    assert first == pytest.approx(middle / 2, abs=2)
    assert last == pytest.approx(middle, abs=2)
    browser.evaluate("document.querySelector('.live .back').click()")
    assert browser.evaluate(shown) == [0, 2 * middle]
    browser.evaluate("document.querySelector('.live > svg').focus()")
    browser.key("+")
    first, last = browser.evaluate(shown)
    assert last - first == pytest.approx(middle, abs=4)
    before = browser.evaluate(said)
    browser.key("ArrowRight")
    assert browser.evaluate(said) != before
    browser.key("Escape")
    assert browser.evaluate(shown) == [0, 2 * middle]
    browser.evaluate("document.querySelector('.legend button').click()")
    browser.mouse("mouseMoved", *at(0.3))
    assert len(values()) == 1  # the other is hidden


@pytest.mark.slow
def test_paper_and_no_script_get_the_pictures(made: tuple[Path, Ended], browser: Browser) -> None:
    page = made[0] / "out" / "report.html"
    pictures = "[...document.images].filter(i => i.getClientRects().length).length"
    browser.open(page)
    assert not browser.evaluate("document.querySelector('.appendix').open")
    browser.evaluate(OPEN)
    shown = browser.evaluate(pictures)
    assert browser.pdf().startswith(b"%PDF")
    browser.call(
        "Emulation.setEmulatedMedia",
        media="print",
        features=[{"name": "prefers-color-scheme", "value": "dark"}],
    )
    assert browser.evaluate(pictures) == shown + 1  # that which the script draws
    assert (
        browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    )
    assert browser.evaluate("getComputedStyle(document.images[0]).filter") == "none"
    browser.call("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--workload", "nas"), "'--workload': 'nas' is not one of"),
        (("--jobs", "0"), "--workers 0: expected 1 or more"),
        (("--model", "gpt", "--workload", "hpo"), "unknown model 'gpt'"),
        (("--out", f"{__file__}/out"), "test_report.py is not a directory; specify another"),
    ],
)
def test_mistakes_leave_nothing_behind(
    made: tuple[Path, Ended], tmp_path: Path, options: tuple[str, ...], expected: str
) -> None:
    assert expected in complaint(
        bftrainer("replay", "report", made[0] / "log.csv.gz", "--out", tmp_path / "out", *options)
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("wide", "high"), [(8.27, 11.69), (8.5, 11.0)], ids=["A4", "Letter"])
def test_the_top_of_the_page_prints_on_one_sheet(
    made: tuple[Path, Ended], browser: Browser, wide: float, high: float
) -> None:
    browser.open(made[0] / "out" / "report.html", width=680)
    browser.evaluate(
        "document.querySelector('.rows dd').append(' and as many words as Mira has'.repeat(16))"
    )
    told = browser.call("Page.printToPDF", paperWidth=wide, paperHeight=high, printBackground=True)
    sheets = re.search(rb"/Type /Pages\s[^>]*/Count (\d+)", base64.b64decode(told["data"]))
    assert int(sheets[1]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("width", [1300, 420])
def test_no_label_of_a_chart_leaves_the_page_or_lies_on_another(
    made: tuple[Path, Ended], browser: Browser, width: int
) -> None:
    browser.open(made[0] / "out" / "report.html", width=width)
    boxes = browser.evaluate(
        "[...document.querySelectorAll('svg.chart')].map(s => [...s.querySelectorAll(':scope > "
        "text')].map(t => "
        "t.getBoundingClientRect()).filter(b => b.width).map(b => [b.left, b.top, b.right, "
        "b.bottom]))"
    )
    for labels in boxes:
        for place, (left, top, right, bottom) in enumerate(labels):
            assert left >= 0
            assert right <= width
            for other in labels[place + 1 :]:
                assert (
                    left >= other[2]
                    or right <= other[0]
                    or top + 2 >= other[3]
                    or bottom - 2 <= other[1]
                )


def test_a_title_and_the_nodes_of_the_curves_are_at_the_top(
    made: tuple[Path, Ended], tmp_path: Path
) -> None:
    page = (made[0] / "out" / "report.html").read_text()
    assert "six V100 GPUs each" in page.partition('<details class="appendix">')[0]
    (tmp_path / "curves.csv").write_text(
        "model,node_type,nodes_1,nodes_2\ndigits,4 A100 GPUs,100,190\n"
    )
    executed(
        "replay",
        "report",
        made[0] / "log.csv.gz",
        "--hours",
        2,
        "--out",
        tmp_path / "out",
        "--jobs",
        1,
        "--curves",
        tmp_path / "curves.csv",
        "--title",
        "Idle <nodes>",
    )
    page = (tmp_path / "out" / "report.html").read_text()
    above = without_spans(page.partition('<details class="appendix">')[0])
    assert '<p class="about">Idle &lt;nodes&gt; · ' in above
    assert "V100 GPUs" not in page
    assert "curves.csv, measured on: 4 A100 GPUs" in above
    assert "Each training may spread over up to 2 nodes" in above


def test_no_delay_that_was_measured_elsewhere_is_among_the_figures_of_a_log(
    made: tuple[Path, Ended],
) -> None:
    figures = read_figures(made[0] / "out" / "report.json")
    assert sentence_of(figures).endswith(" of these into work.")
    slurm, pbs = _wait_box(SACCT), _wait_box(PBS)
    assert (slurm.number, pbs.number) == ("not known", "not known")
    assert "Not simulated for this log" in slurm.fine
    assert "only where PBS deletes them instead (preempt_order D)" in pbs.fine
    assert (pbs.origin, pbs.where) == ("not measured", ", see docs/pbs.md")
