"""A short ``make faults``: nothing is lost, nothing is done twice, and the journal decides the same again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from random_faults import KINDS, Night, nights

from bftrainer.persistence.registry_writer import RegistryWriter


@pytest.mark.slow
def test_two_hundred_random_faults() -> None:
    (night,) = nights(200, seed=1)
    assert [*night.lost, *night.doubled, *night.wrong] == []
    assert set(night.struck) == set(KINDS)
    assert night.decisions > 100


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lost", "doubled"])
def test_the_tool_reports_what_it_should(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pilot that forgets a submission, and one whose node-hours are booked twice."""
    night = Night(tmp_path / "state", random.Random(1), 20)
    if kind == "lost":
        night.wanted["forgotten"] = 1.0
    else:
        add = RegistryWriter.add_usage
        monkeypatch.setattr(RegistryWriter, "add_usage", lambda *given: [add(*given), add(*given)])
    night.run()
    assert getattr(night, kind)
