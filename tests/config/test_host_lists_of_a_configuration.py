"""A host list that nobody can mean is refused when the configuration is read: at the start, and by SIGHUP."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_line import bftrainer, complaint
from live_house import house, spec

from bftrainer.config.pilot import PilotConfig, read_config
from bftrainer.config.validation import check_table
from bftrainer.errors import InputFileError
from bftrainer.persistence.registry import Registry

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
    assert line.startswith(f"pilot.toml: {key}: expected node names such as node[01-03,7] or gpu*, got {pattern!r}: ")
    assert BAD[pattern] in line
    assert "\n" not in line


@pytest.mark.parametrize("pattern", BAD)
def test_the_pilot_does_not_start(pattern: str, tmp_path: Path) -> None:
    state = tmp_path / "s"
    state.mkdir(mode=0o700)
    (state / "bftrainer.toml").write_text(f'[nodes]\nhosts = ["{pattern}"]\n')
    with pytest.raises(InputFileError, match=r"nodes\.hosts"):
        read_config(state / "bftrainer.toml")
    assert "nodes.hosts: expected node names" in complaint(bftrainer("pilot", "--state", state))


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
    assert ["nodes.hosts" in texts[0], "classes.fast.hosts" in texts[1], "nodes.exclude" in texts[2]] == [True] * 3
