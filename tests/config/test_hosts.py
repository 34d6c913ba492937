"""Host lists: what they stand for, what is refused, and how much of it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.live_house import house, spec

from bftrainer.config.host_lists import expand, host_patterns, matches
from bftrainer.config.pilot import PilotConfig
from bftrainer.config.validation import check_table
from bftrainer.errors import InputFileError, InvalidValueError
from bftrainer.pilot.persistence.registry import Registry


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node01", ["node01"]),
        ("node[08-10]", ["node08", "node09", "node10"]),
        ("n[1,3-4],gpu2", ["n1", "n3", "n4", "gpu2"]),
        ("r[1-2]n[1-2]x", ["r1n1x", "r1n2x", "r2n1x", "r2n2x"]),
        ("gpu*,n?[1-2]", ["gpu*", "n?1", "n?2"]),
        ("a[099-101]", ["a099", "a100", "a101"]),
        ("a[9-11]", ["a9", "a10", "a11"]),
        (
            "cpn-f13-03-[01-02],cpn-f13-04-[01-02]",
            [f"cpn-f13-0{a}-0{b}" for a in (3, 4) for b in (1, 2)],
        ),
    ],
)
def test_what_a_list_stands_for(text: str, expected: list[str]) -> None:
    assert expand(text) == expected


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("n[x-1]", "[x-1] is not a range of numbers"),
        ("n[3-1]", "[3-1] is a descending range"),
        ("n[1-3", "a bracket is not closed"),
        ("n1-3]", "its brackets do not match"),
        ("n[]", "[] is not a range of numbers"),
        ("n 1", "got 'n 1'"),
        ("", "got ''"),
        ("n(1-3)", "got 'n(1-3)'"),
        ("n[1-999999999]", "expands to more than 200,000 nodes in one list"),
        ("n[1-1000][1-1000]", "expands to more than 200,000 nodes in one list"),
        ("*[1-2000]", "more than 1,000 names with * or ?"),
        ("a,,b", "got ''"),
        ("a[[1]]", "its brackets do not match"),
        ("a[1-]", "[1-] is not a range of numbers"),
        ("n\u00e4", "got 'n\u00e4'"),
        ("a\x07", "got 'a\\x07'"),
        ("a[" + "9" * 5000 + "]", "is not a range of numbers"),
        ("x" * 5000, "got 'xxxx"),
    ],
)
def test_what_is_no_list_says_what_was_found_and_what_is_expected(pattern: str, words: str) -> None:
    with pytest.raises(InvalidValueError) as error:
        host_patterns((pattern,))
    assert words in str(error.value)
    assert (
        "expected node names such as node[01-03,7] or gpu*" in str(error.value)
        or "200,000" in words
    )
    assert "\n" not in str(error.value)


def test_matches() -> None:
    assert matches("node02", ("login", "node[01-03]"))
    assert not matches("node2", ("login", "node[01-03]"))
    assert matches("gpu17", ("gpu*",))
    assert matches("n05x", ("n0?x", "a"))
    assert not matches("xn05x", ("n0?x", "a"))
    assert not matches("n1", ())
    assert not matches("axb", ("a.b",)), "a dot is a dot"


@settings(deadline=None)
@given(st.lists(st.integers(0, 99999), min_size=1, max_size=40), st.integers(1, 6))
def test_any_numbers_come_back(numbers: list[int], width: int) -> None:
    names = [f"n{number:0{width}d}" for number in numbers]
    assert expand(",".join(names)) == names
    assert expand("n[" + ",".join(name[1:] for name in names) + "]") == names
    assert all(
        matches(name, ("n[" + ",".join(name[1:] for name in names) + "]",)) for name in names
    )


@settings(deadline=None)
@given(st.text(alphabet="n01[],- *?", max_size=60), st.integers(0, 50))
def test_nothing_but_a_bounded_list_or_a_refusal(text: str, most: int) -> None:
    try:
        found = expand(text, most)
    except InvalidValueError:
        return
    assert 0 < len(found) <= most
    assert all(name and " " not in name and "[" not in name and "]" not in name for name in found)


# --- A host list that nobody can mean is refused when the configuration is read: at the start, and
# by SIGHUP

BAD = {"n[x-1]": "not a range of numbers", "n[3-1]": "is a descending range", "n[1-3": "not closed"}


def tables(key: str, pattern: str) -> dict[str, Any]:
    match key.split("."):
        case ["nodes", inner]:
            return {"nodes": {inner: ["ok1", pattern]}}
        case _:
            return {"classes": {"fast": {"hosts": [pattern]}}}


@pytest.mark.parametrize("key", ["nodes.hosts", "nodes.exclude", "classes.fast.hosts"])
@pytest.mark.parametrize("pattern", BAD)
def test_one_line_with_key_found_and_expected(key: str, pattern: str) -> None:
    with pytest.raises(InputFileError) as error:
        check_table(tables(key, pattern), PilotConfig, "pilot.toml")
    line = str(error.value)
    assert line.startswith(
        f"pilot.toml: {key}: expected node names such as node[01-03,7] or gpu*, got {pattern!r}: "
    )
    assert BAD[pattern] in line
    assert "\n" not in line


@pytest.mark.parametrize("pattern", BAD)
def test_a_running_pilot_refuses_the_reload_and_goes_on(pattern: str, tmp_path: Path) -> None:
    home = house(tmp_path / "state", nodes={"exclude": ["other"]})
    home.cluster.give("n1", "n2")
    home.submit(spec("a", max_nodes=2))
    home.at(5, lambda: home.reload(nodes={"hosts": [pattern]}))
    home.at(8, lambda: home.reload(classes={"fast": {"hosts": [pattern]}}))
    home.at(10, lambda: home.reload(nodes={"exclude": [pattern]}))
    seen: list[int] = []
    home.at(20, lambda: seen.append(len(home.cluster.fragments)))
    home.pilot(25)
    assert seen == [2], "what it held it keeps"
    with closing(home.store()) as store:
        texts = [n.text for n in Registry(store).notes(1000) if n.kind == "reload"]
    assert len(texts) == 3
    assert all("rejected, the old configuration remains in effect" in text for text in texts)
    assert [
        "nodes.hosts" in texts[0],
        "classes.fast.hosts" in texts[1],
        "nodes.exclude" in texts[2],
    ] == [True] * 3
