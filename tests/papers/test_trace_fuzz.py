"""Bad traces and profiles are refused, in one line that names the file. (tests/fuzz mutates them.)"""

from __future__ import annotations

import gzip
import io
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trace_examples import PHILLY

from bftrainer.errors import InputFileError
from bftrainer_papers.traces.arrivals import read_trace
from bftrainer_papers.traces.profiles import Profile, ProfilePoint, read_profiles
from bftrainer_papers.traces.scaling import scaling_of
from bftrainer_papers.traces.trainers import TraceSelection, trainers_of

_SETTINGS = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


BROKEN = {
    "empty": b"",
    "blank": b"\n\n\n",
    "binary": bytes(range(256)) * 64,
    "zeros": bytes(100_000),
    "utf-16": PHILLY.encode("utf-16"),
    "a line of ten million": b"7" * 10_000_000,
    "truncated gzip": gzip.compress(PHILLY.encode() * 50)[:-20],
    "deep JSON": b'{"a":' * 100_000,
    "a long number": b'{"v100": {"(\'A3C\', 1)": {"null": ' + b"9" * 10_000 + b"}}}",
    "a list": b"[1, 2]",
    "an archive of nothing": bytes(257) + b"ustar\x0000" + bytes(10_000),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(BROKEN[kind])
    for read in (read_trace, read_profiles):
        with pytest.raises(InputFileError) as refusal:
            read(path)
        assert str(path) in refusal.value.where
        assert len(str(refusal.value)) < 1000
    with pytest.raises(InputFileError, match="cannot be read: No such file"):
        read_trace(tmp_path / "none")


def test_an_archive_that_would_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bftrainer_papers.traces.texts.TABLE_BYTES", 2_000_000)
    path = tmp_path / "bomb.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for number in range(3):
            info = tarfile.TarInfo(f"bert/placements-{number}.csv")
            info.size = 1_000_000
            archive.addfile(info, io.BytesIO(b"7" * info.size))
    with pytest.raises(InputFileError, match="more than 2,000,000 bytes"):
        read_profiles(path)


@_SETTINGS
@given(
    st.lists(st.tuples(st.integers(1, 64), st.floats(0.001, 1e6)), min_size=1, max_size=8, unique_by=lambda p: p[0]),
    st.integers(1, 8),
    st.integers(0, 5),
)
def test_every_profile_makes_trainers_of_every_job(
    points: list[tuple[int, float]], gpus_per_node: int, seed: int
) -> None:
    measured = Profile("m", "hw", [ProfilePoint(gpus, 0, 1, rate) for gpus, rate in points])
    found = scaling_of(measured, gpus_per_node, extrapolate_to=16)
    if found is None:
        assert max(gpus for gpus, _ in points) < gpus_per_node
        return
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "trace").write_text(PHILLY)
        arrivals = trainers_of(read_trace(Path(folder) / "trace"), [found], TraceSelection(seed=seed))
    assert len(arrivals) == 3
