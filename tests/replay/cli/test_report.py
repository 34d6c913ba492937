"""``bftrainer replay report``: what is in the page and beside it, and that a browser shows it."""

from __future__ import annotations

import csv
import gzip
import html
import io
import json
import re
from collections.abc import Iterator
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import Browser
from command_line import Ended, bftrainer, complaint
from matplotlib import image

from bftrainer_replay.report.headline import DELAYS_S
from bftrainer_replay.report.words import share_text


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
    assert bftrainer("replay", "generate", "--nodes", 64, "--days", 0.5, "--out", log).status == 0
    ended = bftrainer("replay", "report", log, "--out", folder / "out", "--jobs", 1)
    assert ended.status == 0, ended
    return folder, ended


def test_the_page_is_whole_and_needs_no_network(made: tuple[Path, Ended]) -> None:
    folder, ended = made
    text = (folder / "out" / "report.html").read_text()
    tasks = int(re.search(r"([\d,]+) replays, ", ended.out)[1])  # type: ignore[index]  # the test fails without
    announced = re.search(
        r"^(\d+) replays and (\d+) reference replays: about \d+ s on 1 core$", ended.err, re.MULTILINE
    )
    assert announced is not None
    assert len(text) < 5e6
    told = [json.loads(path.read_text()) for path in (folder / "out" / "cells").iterdir()]
    assert len(told) == tasks == int(announced[1]) + int(announced[2])
    assert sum(each["kind"] == "replay" for each in told) == int(announced[1]) == len(data(folder / "out", "replays"))
    page = Page(text)
    assert len(page.alts) == 4
    assert all(len(alt) > 40 for alt in page.alts)
    assert all(address.startswith(("data:image/png;base64,", "#")) for address in page.addresses)
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert "U is then above 100 %" in text
    assert "This log does not contain the job queue" in text
    for chapter in ("Idle nodes", "Per month", "All replays"):
        assert re.search(f"<h2 id=.*{chapter}", text), chapter
    assert text.count("<figcaption>Read: ") == 4
    names = {path.stem for path in (folder / "out" / "pictures").iterdir()}
    assert len(names) == 4
    assert names < {path.stem for path in (folder / "out" / "data").iterdir()}


def test_its_numbers_are_those_of_its_data(made: tuple[Path, Ended]) -> None:
    folder, _ = made
    rows = data(folder / "out", "replays")
    assert [row["policy"] for row in rows[:2]] == ["bftrainer", "equal-share"]
    assert f"Efficiency U is {rows[0]['U']}" in (folder / "out" / "report.html").read_text()
    with (folder / "out" / "data" / "per-month.csv").open(newline="") as file:
        months = {
            row[""]: ([float(row[k].replace(",", "")) for k in ("this log", "a month")], row["origin"])
            for row in csv.DictReader(file)
        }
    for (this, month), _ in months.values():
        assert month == pytest.approx(60 * this, abs=31)
    assert [name for name, (_, origin) in months.items() if origin != "simulation"] == ["idle node-hours"]
    assert months["idle node-hours"][1] == "log"
    (_, used_h), _ = months["node-hours in training"]
    told = re.search(r"of the idle node-hours, about ([\d,]+) node-hours in 30 days \(simulated\)", made[1].out)
    assert told is not None
    assert float(told[1].replace(",", "")) == pytest.approx(used_h, rel=0.006)


def test_each_efficiency_has_a_name_of_its_own(made: tuple[Path, Ended]) -> None:
    """Efficiency U of a replay, the interval efficiency, and no other."""
    text = (made[0] / "out" / "report.html").read_text().partition("<body>")[2].partition("<script>")[0]
    words = html.unescape(re.sub("<[^>]*>", " ", text))
    assert re.findall(r"(?i)(?<!interval )efficien\w+\b(?! U).{20}", words) == []


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
    span_s = (datetime.fromisoformat(lines[-1][0]) - datetime.fromisoformat(lines[0][0])).total_seconds()
    with (folder / "out" / "data" / "timeline.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    used = sum(float(row["in_training"]) for row in rows) / sum(float(row["idle"]) for row in rows)
    first, second, warning, third, fourth, taken, delay = ended.out.splitlines()[:7]
    mean = re.match(r"On average, ([\d.]+) of 64 nodes are idle: ([\d.]+)% of all node-hours", first)
    assert mean is not None
    assert float(mean[1]) == pytest.approx(node_s / span_s, rel=0.006)
    assert float(mean[2]) == pytest.approx(100 * node_s / span_s / 64, abs=0.06)
    month_h = re.search(r"about ([\d,]+) idle node-hours in 30 days", first)
    assert month_h is not None
    assert float(month_h[1].replace(",", "")) == pytest.approx(node_s / 3600 * 30 * 86400 / span_s, rel=0.006)
    assert "does not tell" in second
    assert warning.startswith("This part is a simulation, not a measurement")
    assert f"would have used {share_text(used)} of the idle node-hours" in third
    over = "none" if used > 0.9999 else f"the other {share_text(1 - used)}"
    assert f"; {over} would have stayed idle" in third
    nodes = re.search(r"On average ([\d.]+) nodes would have trained", third)
    assert nodes is not None
    assert float(nodes[1]) == pytest.approx(used * node_s / span_s, rel=0.02)
    assert "work than giving each" in fourth or "as much work as giving each" in fourth
    times = re.match(
        r"In 30 days, jobs would take a node from training about ([\d,]+) times\. The training that loses it stops for "
        r"11 to 13 s each time",
        taken,
    )
    assert times is not None
    preempted = int(data(folder / "out", "replays")[0]["preempted"].replace(",", ""))
    assert float(times[1].replace(",", "")) == pytest.approx(preempted * 30 * 86400 / span_s, rel=0.006)
    assert delay.startswith("In tests on a Slurm cluster of eight nodes")
    page = (folder / "out" / "report.html").read_text()
    above = without_spans(page[: page.index("<nav")])
    places = [html.unescape(above).index(text) for text in (first, second, warning, third, fourth, taken, delay)]
    assert places == sorted(places)
    body = above.split("</style>")[1]
    assert not re.search(r"\bU\b|A_e|T_fwd|million samples|\bpiece", re.sub("<[^>]*>", " ", body))
    assert "<h1>Idle nodes of a 64-node cluster, " in body
    cluster, idle_part = (
        [float(share) for share in re.findall(r"([\d.]+)%", label)]
        for label in re.findall(r'aria-label="([^"]*)"', body)[:2]
    )
    assert cluster == pytest.approx([100 - cluster[1], 100 * node_s / span_s / 64], abs=0.1)
    assert idle_part[0] == pytest.approx(100 * used, abs=0.6)
    assert sum(idle_part) == pytest.approx(100, abs=0.2)


def test_the_delay_of_jobs_is_that_of_the_documented_measurements() -> None:
    text = (Path(__file__).parents[3] / "docs" / "slurm.md").read_text()
    effect = text[text.index("## Effect on the main queue") :]
    rows = re.findall(r"^\| ([^|]+) \| s\w+ \| 1 / 4 / 8 \|[^|]*\| ([^|]+) s \|", effect, re.MULTILINE)
    held = [(site, [float(part) for part in delays.split(" / ")]) for site, delays in rows]
    assert [site for site, _ in held] == ["recommended"] * 2 + ["Slurm's defaults"] * 2 + ["defaults, cgroups"]
    medians = [delay for site, delays in held if site == "recommended" for delay in delays]
    worst = max(delay for _, delays in held for delay in delays)
    assert (min(medians), max(medians), worst) == DELAYS_S


def test_guesses_of_the_importer_are_on_the_page(tmp_path: Path) -> None:
    lines = ["JobID|Submit|Start|End|NNodes|NodeList|State"]
    for i in range(40):
        start, end = f"2024-01-01T{i // 2:02}:{30 * (i % 2):02}:00", f"2024-01-01T{i // 2:02}:{30 * (i % 2) + 20:02}:00"
        lines.append(f"{i}|2024-01-01T00:00:00|{start}|{end}|2|n[{1 + i % 3}-{2 + i % 3}]|COMPLETED")
    (tmp_path / "sacct.txt").write_text("\n".join(lines) + "\n")
    ended = bftrainer("replay", "report", tmp_path / "sacct.txt", "--out", tmp_path / "out", "--jobs", 1)
    assert ended.status == 0, ended
    with (tmp_path / "out" / "data" / "assumptions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    told = [line.removeprefix("note: ") for line in ended.err.splitlines() if line.startswith("note: ")]
    assert told
    assert [row["assumed"].lower() for row in rows if row["what"] == "The log"] == [line.lower() for line in told]
    changed = {row["what"]: row["changed by"] for row in rows}
    assert changed["Concurrent trainers"] == "--max-parallel"
    assert any("--warm-up-h" in row["assumed"] or "--machine-nodes" in row["changed by"] for row in rows)
    effects = " ".join(row["effect of other values"] for row in rows if row["what"] == "The log")
    for option in ("--warm-up-h 24", "--debounce-s 60"):
        shares = [float(found) for found in re.findall(rf"{option}: ([\d.]+)% idle", effects)]
        again = bftrainer("replay", "characterize", tmp_path / "sacct.txt", *option.split(), "--json")
        expected = [] if again.status else [100 * json.loads(again.out)["idle_share"]]
        assert shares == pytest.approx(expected, abs=0.06)
    assert "V100" in next(row["assumed"] for row in rows if row["what"].startswith("Throughput"))
    cost = next(row["effect of other values"] for row in rows if row["what"] == "Cost of a rescale")
    assert re.fullmatch(
        r"2 times the cost: [+-][\d.]+% \(\d+% used\); 4 times the cost: [+-][\d.]+% \(\d+% used\)", cost
    )


def test_again_it_replays_nothing(made: tuple[Path, Ended]) -> None:
    folder, ended = made
    cells = {path: path.stat().st_mtime_ns for path in (folder / "out" / "cells").iterdir()}
    again = bftrainer("replay", "report", folder / "log.csv.gz", "--out", folder / "out", "--jobs", 1, "--json")
    assert json.loads(again.out)["lead"] in ended.out
    assert {path: path.stat().st_mtime_ns for path in (folder / "out" / "cells").iterdir()} == cells


def test_a_log_with_its_queue_says_what_could_have_been_filled(tmp_path: Path) -> None:
    lines = ["JobID|Submit|Start|End|NNodes|NodeList|State"]
    for i in range(40):
        start, end = f"2024-01-01T{i // 2:02}:{30 * (i % 2):02}:00", f"2024-01-01T{i // 2:02}:{30 * (i % 2) + 20:02}:00"
        lines.append(f"{i}|2024-01-01T00:00:00|{start}|{end}|2|n[{1 + i % 3}-{2 + i % 3}]|COMPLETED")
    (tmp_path / "sacct.txt").write_text("\n".join(lines) + "\n")
    ended = bftrainer(
        "replay", "report", tmp_path / "sacct.txt", "--out", tmp_path / "out", "--jobs", 1, "--warm-up-h", 0,
        "--cool-down-h", 0, "--outage", "none",
    )  # fmt: skip
    assert ended.status == 0, ended
    with (tmp_path / "out" / "data" / "idle-while.csv").open(newline="") as file:
        shares = {row[0]: float(row[2].rstrip("%")) for row in list(csv.reader(file))[1:]}
    assert sum(shares.values()) == pytest.approx(100, abs=0.2)
    assert shares["a waiting job fits"] > 50
    page = (tmp_path / "out" / "report.html").read_text()
    assert "could not have been filled" in page
    label = re.search(
        r'aria-label="The idle node-hours: ([^"]*); of all idle node-hours, a waiting job could have used [^"]* ([\d.]+)%"',
        page,
    )
    assert label is not None
    assert sum(map(float, re.findall(r"([\d.]+)%", label[1]))) == pytest.approx(100, abs=0.2)
    assert float(label[2]) == pytest.approx(shares["a waiting job fits"], abs=0.1)
    strip = re.search(r'class="mark" aria-hidden="true"><span style="margin-left: ([\d.]+)%; width: ([\d.]+)%', page)
    assert strip is not None
    assert float(strip[2]) == pytest.approx(shares["a waiting job fits"], abs=0.1)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_shows_it(made: tuple[Path, Ended], browser: Browser, width: int, dark: bool) -> None:
    browser.requested.clear()
    browser.open(made[0] / "out" / "report.html", width=width, dark=dark)
    assert {address.partition(":")[0] for address in browser.requested} == {"file", "data"}
    assert browser.evaluate("document.documentElement.scrollWidth") == width  # nothing runs out at the side
    # Tables are stacked on a narrow screen: no column has to be scrolled to.
    lost = "[...document.querySelectorAll('th, td')].filter(c => c.getBoundingClientRect().right > innerWidth).length"
    assert browser.evaluate(lost) == 0
    loaded = "[...document.images].filter(i => i.offsetParent).map(i => i.complete && i.naturalWidth)"
    assert set(browser.evaluate(loaded)) == {1200 if width > 600 else 600}
    seen = image.imread(io.BytesIO(browser.screenshot()))[..., :3]
    assert seen.shape[1] == width
    assert (seen.mean() < 0.3) == dark
    assert (seen.max(axis=(1, 2)) - seen.min(axis=(1, 2)) > 0.3).mean() > 0.4  # text and pictures all the way down


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
def test_figures_are_read_off_and_zoomed(made: tuple[Path, Ended], browser: Browser, width: int) -> None:
    browser.open(made[0] / "out" / "report.html", width=width)
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
            float(text.replace(",", "")) for text in re.findall(r"(?:idle|training) ([\d.,]+)", browser.evaluate(said))
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
    assert browser.evaluate(pictures) == 2
    assert browser.pdf().startswith(b"%PDF")
    browser.call(
        "Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    assert browser.evaluate(pictures) == 4
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.evaluate("getComputedStyle(document.images[0]).filter") == "none"
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(page)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.evaluate(pictures) == 4


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--workload", "nas"), "'--workload': 'nas' is not one of"),
        (("--jobs", "0"), "--jobs 0: expected 1 or more"),
        (("--max-parallel", "0"), "--max-parallel 0"),
        (("--forward-s", "nan"), "--forward-s nan"),
        (("--model", "gpt", "--workload", "hpo"), "unknown model 'gpt'"),
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
def test_the_top_of_the_page_prints_on_one_sheet_and_the_rest_begins_on_another(
    made: tuple[Path, Ended], browser: Browser
) -> None:
    browser.open(made[0] / "out" / "report.html", width=680)  # A4 between its margins, in CSS pixels
    browser.call("Emulation.setEmulatedMedia", media="print")
    top = browser.evaluate("document.querySelector('.appendix').getBoundingClientRect().top + scrollY")
    assert 200 < top < 1000  # 267 mm
    beyond = "[...document.querySelectorAll('th, td')].filter(c => c.getBoundingClientRect().right > innerWidth).length"
    assert browser.evaluate(beyond) == 0  # paper does not scroll
    assert browser.evaluate("getComputedStyle(document.querySelector('.appendix')).breakBefore") == "page"
    assert browser.evaluate("document.querySelector('.appendix').contains(document.querySelector('h2:not(.origin)'))")
    browser.call("Emulation.setEmulatedMedia", media="")


def test_a_title_prices_and_the_nodes_of_the_curves_are_at_the_top(made: tuple[Path, Ended], tmp_path: Path) -> None:
    page = (made[0] / "out" / "report.html").read_text()
    assert "six V100 GPUs each, not measured on this cluster" in page[: page.index("<nav")]
    (tmp_path / "curves.csv").write_text("model,node_type,nodes_1,nodes_2\ndigits,4 A100 GPUs,100,190\n")
    ended = bftrainer(
        "replay", "report", made[0] / "log.csv.gz", "--hours", 2, "--out", tmp_path / "out", "--jobs", 1,
        "--curves", tmp_path / "curves.csv", "--title", "Idle <nodes>", "--node-hour-price", 2.5, "--currency", "EUR",
    )  # fmt: skip
    assert ended.status == 0, ended
    page = (tmp_path / "out" / "report.html").read_text()
    above = without_spans(page[: page.index("<nav")])
    assert "<h1>Idle &lt;nodes&gt;</h1>" in above
    assert "At 2.5 EUR a node-hour, they cost" in above
    assert "V100" not in page
    assert "Energy is not shown; --watts would add it." in above
    assert "curves.csv, measured on: 4 A100 GPUs" in page
