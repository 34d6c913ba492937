"""The idle statistics of real logs: the commands of docs/site-logs.md give the numbers of its
table, and those are right.

``KNOWN`` is what others found in the same logs without these importers (Summit: the paper; the
rest: from job counts alone).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from replay.commands import executed
from support.data import data_file

PAGE = Path(__file__).parents[3] / "docs" / "site-logs.md"
FOLDERS = {
    "summit": "summit-2021-02",
    "wk": "mira-2018-weeks",
    "data_theta": "theta-lumos-2023",
    "KTH": "pwa-swf",
    "LLNL": "pwa-swf",
    "wagap": "wagap-2013-nodeids",
    "phillips": "xdmod-sacct-nodelist",
    "pozidriv": "xdmod-sacct-nodelist",
}
# More nodes idle (or joining) per hour, fewer (or leaving), idle share; and how far off ours may
# be, in parts and points.
KNOWN = {
    "summit": (41.6, 31.3, 8.6, 0.005, 0.1),
    "wk1": (8.5, 8.5, 16.7, 0.03, 0.4),
    "wk3": (11.4, 11.6, 4.6, 0.03, 0.2),
    "data_theta": (4.6, 4.5, 13.9, 0.01, 0.1),
    "KTH": (3.5, 3.5, 30.8, 0.015, 0.1),
    "LLNL": (24.8, 31.5, 12.5, 0.02, 0.1),
    "phillips": (None, None, 77.0, 0.0, 0.6),
    "pozidriv": (None, None, 32.0, 0.0, 2.0),
}
# Without the default rules, with the warm-up that these systems need for a year of data: as others
# have counted.
_RAW = "--debounce-s 0 --outage none"
AS_RECORDED = {
    f"wk1.log.gz {_RAW} --warm-up-h 24": "8.5 | 8.5 | 8.5 | 8.6 | 16.9% | 8,311 | 8.6%",
    f"wk3.log.gz {_RAW} --warm-up-h 24": "11.6 | 11.7 | 11.6 | 11.8 | 4.7% | 2,326 | 16.6%",
    f"data_theta.csv.gz --machine-nodes 4392 {_RAW} --warm-up-h 24": (
        "4.6 | 4.5 | 4.6 | 4.5 | 13.9% | 611 | 38.5%"
    ),
    f"KTH-SP2-1996-2.1-cln.swf.gz {_RAW} --warm-up-h 168 --cool-down-h 0": (
        "3.5 | 3.5 | 3.5 | 3.5 | 30.8% | 31 | 27.0%"
    ),
    f"LLNL-Thunder-2007-1.1-cln.swf.gz {_RAW} --warm-up-h 168 --cool-down-h 0": (
        "24.9 | 32.0 | 25.0 | 32.0 | 12.6% | 126 | -"
    ),
    f"wagap-2013.swf.gz --skip-bad {_RAW}": "0.7 | 0.7 | 0.7 | 0.7 | 10.3% | 5 | 38.0%",
    f"phillips.log.gz {_RAW} --warm-up-h 0 --cool-down-h 0": (
        "29.7 | 29.7 | 29.7 | 29.7 | 77.5% | 36 | 0.0%"
    ),
    f"pozidriv.log.gz {_RAW} --warm-up-h 0 --cool-down-h 0": (
        "130.4 | 33.0 | 132.3 | 33.6 | 33.8% | 36 | 16.2%"
    ),
}
ROWS = re.findall(
    r"^\|[^|`]*\| `([^`]+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
)
ROWS = [(command, cells) for command, cells in ROWS if command.split()[0].endswith(".gz")]


def test_the_table_is_there() -> None:
    assert len(ROWS) == 9


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(("command", "cells"), [*ROWS, *AS_RECORDED.items()])
def test_the_commands_of_the_docs_give_its_numbers(command: str, cells: str) -> None:
    log, *options = command.split()
    key = next(each for each in FOLDERS if log.startswith(each))
    ended = executed(
        "replay", "characterize", data_file(f"{FOLDERS[key]}/{log}"), *options, "--json"
    )
    found = json.loads(ended.out)
    rates = [found[f"{name}_per_h"] for name in ("increases", "decreases", "joins", "leaves")]
    shares = found["idle_while_shares"]
    fits = f"{shares['fits']:.1%}" if shares else "-"
    ours = [
        *(f"{rate:.1f}" for rate in rates),
        f"{found['idle_share']:.1%}",
        f"{found['eq_nodes']:,.0f}",
        fits,
    ]
    assert ours == cells.split(" | ")
    if shares:
        assert sum(shares.values()) == pytest.approx(1)
    if not log.endswith("events.csv.gz"):
        assert re.search(
            r"[\d,]+ records read, [\d,]+ used, [\d,]+ ignored.*, [\d,]+ skipped as bad", ended.err
        )
    assert bool(found["note"]) == (key in ("data_theta", "KTH", "LLNL", "pozidriv"))
    known = next((value for name, value in KNOWN.items() if log.startswith(name)), None)
    if known is not None and (
        options[:3] == ["--debounce-s", "0", "--outage"] or "--start" in options
    ):
        more, fewer, idle, parts, points = known
        pair = rates[2:] if key == "summit" else rates[:2]
        for ours_per_h, theirs in zip(pair, (more, fewer), strict=True):
            assert theirs is None or ours_per_h == pytest.approx(theirs, rel=parts)
        assert 100 * found["idle_share"] == pytest.approx(idle, abs=points)
