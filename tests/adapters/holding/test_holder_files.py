"""Leases: what a payload finds in its own one and in the common file, also where something could not be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from bftrainer.domain.fragments import fragment_name
from bftrainer_adapters.holding.holder_files import HolderFiles
from bftrainer_adapters.on_node.payload import RELEASED, line_of


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


def test_of_two_pilots_one_after_the_other_only_the_latter_keeps_what_it_took_over(tmp_path: Path) -> None:
    first, second = HolderFiles(tmp_path), HolderFiles(tmp_path)
    for name in ("n1#1", "n2#2"):
        first.hold(name)
    second.hold("n2#2")
    second.renew()
    assert [is_kept(tmp_path, name) for name in ("n1#1", "n2#2")] == [False, True]
