"""Leases: what a payload finds in its own one and in the common file, also where something could
not be written.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.live_house import house

from bftrainer.cluster.model import Fragment, FragmentPhase, GiveWay
from bftrainer.fragment_names import fragment_name
from bftrainer.pilot.heartbeat import BEAT_S
from bftrainer.pilot.persistence.registry import Registry
from bftrainer.pilot.persistence.registry_writer import RegistryWriter
from bftrainer_clusters.holding.holder_files import HolderFiles
from bftrainer_clusters.holding.holder_fragment import HolderFragment, why_left
from bftrainer_clusters.holding.holder_jobs import JobPhase, payload_lease_s
from bftrainer_clusters.on_node import payload
from bftrainer_clusters.on_node.payload import RELEASED, line_of


def is_kept(root: Path, name: str) -> bool:
    """By the rule of payload.Lease."""
    pilot = line_of(str(root / name / "lease"))
    return bool(pilot) and line_of(str(root / "renewed")).split()[:1] == [pilot]


def spoil(lease: Path) -> None:
    """From now on it cannot be written, not even by root, and cannot be removed as a file."""
    lease.unlink(missing_ok=True)
    lease.mkdir(parents=True)


@pytest.fixture
def files(tmp_path: Path) -> HolderFiles:
    return HolderFiles(tmp_path)


def test_a_renewal_is_one_file_for_all_that_are_held(tmp_path: Path, files: HolderFiles) -> None:
    names = [fragment_name(f"n{i}", str(i)) for i in range(3)]
    for name in names:
        files.hold(name)
    seen, leases = set(), {name: (tmp_path / name / "lease").stat() for name in names}
    for _ in range(3):
        files.renew()
        seen.add(line_of(str(tmp_path / "renewed")))
        assert all(is_kept(tmp_path, name) for name in names)
    assert len(seen) == 3
    assert {name: (tmp_path / name / "lease").stat() for name in names} == leases


def test_released_is_written_in_place_and_is_not_kept(tmp_path: Path, files: HolderFiles) -> None:
    """In place: a network file system shows another file under the same name only after a while."""
    files.hold("n1#1")
    before = (tmp_path / "n1#1" / "lease").stat()
    files.mark_released("n1#1")
    files.renew()
    after = (tmp_path / "n1#1" / "lease").stat()
    assert (before.st_ino, before.st_size) == (after.st_ino, after.st_size)
    assert line_of(str(tmp_path / "n1#1" / "lease")) == RELEASED
    assert not is_kept(tmp_path, "n1#1")


def test_a_lease_that_cannot_be_written_at_first_is_written_at_a_later_renewal(
    tmp_path: Path, files: HolderFiles
) -> None:
    spoil(tmp_path / "n1#1" / "lease")
    files.hold("n1#1")
    files.renew()
    assert not is_kept(tmp_path, "n1#1")
    (tmp_path / "n1#1" / "lease").rmdir()
    files.renew()
    assert is_kept(tmp_path, "n1#1")


def test_one_whose_lease_cannot_be_taken_back_is_not_kept_and_the_others_are(
    tmp_path: Path, files: HolderFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["n1#1", "n2#2", "n3#3"]
    for name in names:
        files.hold(name)
    files.renew()
    lease = tmp_path / "n1#1" / "lease"
    text = lease.read_bytes()
    spoil(lease)
    files.mark_released("n1#1")
    lease.rmdir()
    lease.write_bytes(text)  # what a payload still sees
    files.renew()
    assert [is_kept(tmp_path, name) for name in names] == [False, True, True]
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    files.remove("n2#2")
    files.renew()
    assert [is_kept(tmp_path, name) for name in names] == [False, False, True]


def test_of_two_pilots_one_after_the_other_only_the_latter_keeps_what_it_took_over(
    tmp_path: Path,
) -> None:
    first, second = HolderFiles(tmp_path), HolderFiles(tmp_path)
    for name in ("n1#1", "n2#2"):
        first.hold(name)
    second.hold("n2#2")
    second.renew()
    assert [is_kept(tmp_path, name) for name in ("n1#1", "n2#2")] == [False, True]


# --- Why a holder ended, in the audit's words


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        (
            "1700000000.123456 SIGTERM killed=3 took_s=0.021000",
            "preempted; 3 processes ended in 0.02 s",
        ),
        (
            "1700000000.123456 notice killed=1 took_s=1.500000",
            "preempted; 1 process ended in 1.50 s",
        ),
        ("1700000000.123456 SIGTERM killed=0 took_s=0.000010", "preempted"),
        (
            "1700000000.1 SIGTERM (BFTRAINER_NOTICE_S is ignored here) killed=2 took_s=0.020000",
            "preempted (BFTRAINER_NOTICE_S is ignored here); 2 processes ended in 0.02 s",
        ),
        ("1700000000.123456 released killed=0 took_s=0.000010", "released"),
        (
            "1700000000.123456 lease lapsed killed=2 took_s=0.1",
            "lease lapsed; 2 processes ended in 0.10 s",
        ),
        ("cut off", "cut off"),
    ],
)
def test_the_mark_of_a_payload_is_words_without_a_raw_time(mark: str, words: str) -> None:
    assert why_left(mark) == words


@pytest.mark.parametrize(
    ("state", "why"),
    [("PREEMPTED", "preempted; 3 processes"), ("CANCELLED", "canceled; 3 processes")],
)
def test_who_sent_sigterm_is_known_when_the_job_is_over(state: str, why: str) -> None:
    held = HolderFragment(Fragment("n1#7", FragmentPhase.READY), 0.0)
    job = SimpleNamespace(id="7", state=state, phase=JobPhase.OVER, reason="None", ends_s=None)
    held = held.become(FragmentPhase.LEAVING, 1.0, "preempted; 3 processes").listed_as(job, 2.0)
    assert (held.phase, held.fragment.why) == (FragmentPhase.GONE, why)


def test_the_audit_takes_the_better_word_over(tmp_path: Path) -> None:
    ends = {
        "n1#1": ("preempted", "canceled"),
        "n1#2": ("preempted; x", "PREEMPTED"),
        "n1#3": ("unused", "canceled"),
        "n1#4": ("", "x"),
    }
    with closing(house(tmp_path / "state").store(writes=True)) as store:
        registry, writer = Registry(store), RegistryWriter(store)
        for name, (first, last) in ends.items():
            writer.fragment_asked(name, "n1", 0.0)
            writer.fragment_asked_back(name, 1.0, first)
            writer.fragment_released(name, 2.0, last)
        found = [(f.reason, f.asked_back_s, f.released_s) for f in registry.fragments()]
    assert found == [
        ("canceled", 1.0, 2.0),
        ("preempted; x", 1.0, 2.0),
        ("unused", 1.0, 2.0),
        ("x", 1.0, 2.0),
    ]


def test_where_no_scheduler_ends_the_holders_of_a_dead_pilot_its_leases_are_short() -> None:
    """A main job waits for 20 s and what the payload needs, and never longer than times.lease_s."""
    assert payload_lease_s(60.0, GiveWay.SITE) == 60.0
    for way in (GiveWay.YIELD, GiveWay.BLIND):
        assert 20.0 < payload.limit_s(payload_lease_s(60.0, way)) <= 21.0
        assert payload_lease_s(8.0, way) == 8.0
    assert payload.limit_s(payload_lease_s(60.0, GiveWay.YIELD)) > 2 * BEAT_S, "two renewals"
