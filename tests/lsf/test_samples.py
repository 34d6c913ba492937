"""Every recorded answer is read, or refused with its text; so are cut ones."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bftrainer.cluster.model import Availability
from bftrainer.errors import SchedulerError, UnknownStateError
from bftrainer_clusters.lsf import jobs as lsf_jobs
from bftrainer_clusters.lsf import text as lsf_text
from bftrainer_clusters.lsf import windows as lsf_windows

SAMPLES = Path(__file__).parent / "samples"
NOW_S = 1_700_000_000.0


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def sample(name: str) -> str:
    return (SAMPLES / name).read_text()


def epoch(*when: int) -> float:
    return time.mktime((*when, 0, 0, 0, -1))


def table_of_windows(text: str) -> list[tuple[int, float]]:
    """``bslots`` without -l, which the pilot does not ask for: slots and lengths."""
    header, *lines = [line.split(maxsplit=1) for line in text.split("\n") if line.strip()] or [[]]
    if (
        [word.strip() for word in header] != ["SLOTS", "RUNTIME"]
        or not lines
        or not text.endswith("\n")
    ):
        raise SchedulerError("not a table of windows")
    return [(int(slots), lsf_windows.parse_length("".join(length))) for slots, *length in lines]


READERS: dict[str, Callable[[str], object]] = {
    "summit-bslots.txt": table_of_windows,
    "summit-bslots-1000-nodes.txt": table_of_windows,
    "cosma-bslots-l.txt": lsf_windows.parse_windows,
    "yellowstone-brsvs.txt": lambda text: lsf_windows.parse_reservations(text, NOW_S),
    "ibm-brsvs.txt": lambda text: lsf_windows.parse_reservations(text, NOW_S),
    "parallelcluster-bhosts.json": lsf_text.parse_hosts,
    "roddy-bjobs.json": lambda text: lsf_text.records(text, "jobs"),
    "summit-bjobs.json": lambda text: lsf_text.records(text, "jobs"),
    "please-wait-bjobs.txt": lambda text: lsf_text.records(text, "jobs"),
}


def test_no_sample_is_left_out() -> None:
    names = {path.name for path in SAMPLES.iterdir()} - {"SOURCE.txt"}
    assert names == READERS.keys()


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_recorded_answer_is_read(name: str) -> None:
    assert READERS[name](sample(name))


@pytest.mark.parametrize("name", sorted(READERS))
def test_an_answer_that_is_cut_short_never_passes_for_a_whole_one(name: str) -> None:
    text = sample(name).rstrip()
    whole = READERS[name](sample(name))
    for cut in range(len(text) - 1, 0, -1):
        try:
            found = READERS[name](text[:cut])
        except SchedulerError:
            continue
        # A table without an end mark may lose whole rows unnoticed: hosts that are not listed are
        # not taken.
        assert name.endswith(("bslots.txt", "brsvs.txt")), f"cut at {cut}: {found}"
        assert text[cut - 1] == "\n"
        assert len(found) <= len(whole)


@pytest.mark.parametrize("read", [*READERS.values()], ids=READERS.keys())
@pytest.mark.parametrize(
    "text", ["", "\n", "LSF is down. Please wait ...\n"], ids=["empty", "blank", "down"]
)
def test_silence_and_outage_are_not_an_empty_cluster(
    read: Callable[[str], object], text: str
) -> None:
    with pytest.raises(SchedulerError):
        read(text)


def test_summits_backfill_windows() -> None:
    one, many = table_of_windows(sample("summit-bslots.txt"))
    assert one == (42, 25 * 3600 + 42 * 60 + 51)
    assert many == (652 * 42, 3600 + 11 * 60 + 50)


def test_hosts_of_a_backfill_window() -> None:
    (window,) = lsf_windows.parse_windows(sample("cosma-bslots-l.txt"))
    assert window.length_s == 6 * 3600 + 37 * 60
    assert window.hosts == {
        "m4140": 12,
        "m4168": 12,
        "m4071": 11,
        "m4153": 11,
        "m4061": 12,
        "m4084": 12,
    }
    # Hosts with one of twelve slots in use are not whole nodes.
    assert set(lsf_windows.longest_by_host((window,), lambda host: 12)) == {
        "m4140",
        "m4168",
        "m4061",
        "m4084",
    }


def test_windows_without_limit_and_cut_hosts() -> None:
    text = (
        "SLOTS:    4\nRUNTIME:  UNLIMITED\nHOSTS:    4*a\n\nSLOTS:    8\nRUNTIME:  44 "
        "minutes\nHOSTS:    4*a 4*b\n"
    )
    windows = lsf_windows.parse_windows(text)
    assert lsf_windows.longest_by_host(windows, lambda host: 4) == {"a": math.inf, "b": 44 * 60.0}
    with pytest.raises(SchedulerError, match="announces 8 slots and lists 4"):
        lsf_windows.parse_windows(text.replace(" 4*b", ""))
    with pytest.raises(SchedulerError, match="fortnight"):
        lsf_windows.parse_windows(text.replace("44 minutes", "1 fortnight"))
    assert lsf_windows.parse_windows("No backfill window exists at this time\n") == ()


def test_one_time_reservations_have_no_year() -> None:
    text = sample("yellowstone-brsvs.txt")
    (seen,) = lsf_windows.parse_reservations(text, epoch(2024, 3, 1, 12, 0))
    assert (seen.id, seen.nodes) == ("wrfrt", {"ys0407-ib", "ys0334-ib"})
    assert (seen.starts_s, seen.ends_s) == (epoch(2024, 3, 30, 21, 40), epoch(2024, 3, 31, 1, 55))
    (seen,) = lsf_windows.parse_reservations(text, epoch(2024, 12, 1, 12, 0))
    assert seen.starts_s == epoch(2025, 3, 30, 21, 40)
    (wide,) = lsf_windows.parse_reservations(
        text.replace("0/32", "0 / 32"), epoch(2024, 3, 1, 12, 0)
    )
    assert wide.nodes == seen.nodes
    new_year = text.replace("3/30/21/40-3/31/1/55", "12/31/20/0-1/1/4/0")
    (seen,) = lsf_windows.parse_reservations(new_year, epoch(2025, 1, 1, 1, 0))
    assert (seen.starts_s, seen.ends_s) == (epoch(2024, 12, 31, 20, 0), epoch(2025, 1, 1, 4, 0))


def test_weekly_reservations_are_the_present_or_next_one() -> None:
    now_s = epoch(2024, 3, 8, 18, 30)  # a Friday: LSF's day 5
    seen = {it.id: it for it in lsf_windows.parse_reservations(sample("ibm-brsvs.txt"), now_s)}
    assert seen["groupA#0"].nodes == {"hostA", "hostB"}
    times = {name: (it.starts_s, it.ends_s) for name, it in seen.items()}
    assert times["system#0"] == (epoch(2024, 3, 8, 18, 0), epoch(2024, 3, 8, 20, 0))
    assert times["user2#0"] == (epoch(2024, 3, 9, 12, 0), epoch(2024, 3, 9, 14, 0))
    assert times["groupA#0"] == (epoch(2024, 3, 13, 0, 0), epoch(2024, 3, 13, 3, 0))
    assert times["user1#0"] == (epoch(2024, 11, 12, 6, 0), epoch(2024, 11, 12, 8, 0))


@pytest.mark.parametrize(
    ("status", "jobs", "reserved", "idle"),
    [
        ("ok", 0, 0, True),
        ("ok", 1, 0, False),
        ("ok", 4, 4, False),
        ("ok", 0, 2, False),
        ("closed_Full", 4, 0, False),
        ("closed_Excl", 1, 0, False),
        ("closed_Adm", 0, 0, False),
        ("closed_Busy", 0, 0, False),
        ("unavail", 0, 0, False),
        ("closed_LIM", 0, 0, False),
        ("closed_Lock", 0, 0, False),
        ("closed_Wind", 0, 0, False),
        ("unreach", 0, 0, False),
        ("closed_EGO", 0, 0, False),
        ("closed_cu_excl", 0, 0, False),
        ("closed_RC", 0, 0, False),
        ("closed", 0, 0, False),
    ],
)
def test_only_an_open_host_without_jobs_and_reserved_slots_is_idle(
    status: str, jobs: int, reserved: int, idle: bool
) -> None:
    host = {
        "HOST_NAME": "a",
        "STATUS": status,
        "MAX": "4",
        "NJOBS": str(jobs),
        "RSV": str(reserved),
    }
    (node,) = lsf_text.parse_hosts(json.dumps({"HOSTS": 1, "RECORDS": [host]}))
    assert (node.availability is Availability.FREE) is idle
    assert node.state == status
    assert node.is_withdrawn is (status == "closed_Adm")


def test_an_unknown_host_status_is_told_with_its_text() -> None:
    text = sample("parallelcluster-bhosts.json").replace("closed_Full", "closed_Moon")
    with pytest.raises(UnknownStateError, match="closed_Moon"):
        lsf_text.parse_hosts(text)
    with pytest.raises(SchedulerError, match="announces 2"):
        lsf_text.parse_hosts(text.replace('"HOSTS":1', '"HOSTS":2'))


def test_times_of_a_job_as_lengths() -> None:
    (summit,) = lsf_text.records(sample("summit-bjobs.json"), "jobs")
    assert lsf_jobs.left_s(summit) == 1440 * 60 - 16038
    (other,) = lsf_text.records(sample("roddy-bjobs.json"), "jobs")
    assert lsf_jobs.left_s(other) == 600 - 1
