"""The type checker refuses a time of one clock where a time of another is expected."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

SNIPPET = """
from bftrainer.domain.times import ElapsedS, HostS, PilotS
from bftrainer.live.facts import FragmentEvent, NoteAdded
from bftrainer.live.heartbeat import Heartbeat
from bftrainer.live.recorder import Recorder
from bftrainer.live.steady_clock import SteadyClock

def mixes(clock: SteadyClock, recorder: Recorder) -> None:
    {line}
"""
RIGHT = (
    'recorder.fragment("n1#1", FragmentEvent.TAKEN, clock.now_s())',
    'NoteAdded(clock.to_host(clock.now_s()), "kind", "", "")',
)
MIXED = (
    'recorder.fragment("n1#1", FragmentEvent.TAKEN, clock.host_s())',
    'recorder.fragment("n1#1", FragmentEvent.TAKEN, clock.elapsed_s())',
    'recorder.fragment("n1#1", FragmentEvent.TAKEN, clock.now_s() + 5.0)',
    'NoteAdded(clock.now_s(), "kind", "", "")',
    "clock.to_host(clock.host_s())",
    "Heartbeat(lambda: None, clock, 60.0)",
)


@pytest.mark.slow
def test_mypy_finds_every_mix(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    files = {}
    for i, line in enumerate((*RIGHT, *MIXED)):
        files[tmp_path / f"mix_{i}.py"] = line
        (tmp_path / f"mix_{i}.py").write_text(SNIPPET.format(line=line))
    options = ["--config-file", str(root / "pyproject.toml"), "--cache-dir", str(root / ".mypy_cache")]
    found, _, _ = api.run([*options, *map(str, files)])
    refused = {line for path, line in files.items() if f"{path.name}:9: error" in found}
    assert refused == set(MIXED), found
