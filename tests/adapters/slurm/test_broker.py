"""What a broker publishes, whose files count, and whose holders it ends. Slurm's commands are
scripts here.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from adapters.slurm.test_calls import programs
from adapters.slurm.test_weights import asks
from live.test_poll_schedule import polled
from support.command_line import bftrainer, complaint
from support.live_house import configuration
from support.ran import python
from support.recorded_slurm import recorded

from bftrainer.errors import SchedulerError, UserError
from bftrainer.pilot.nodes.cluster_view import ClusterView, PollAnswer
from bftrainer.pilot.nodes.poll_schedule import PollSchedule
from bftrainer.times import PilotS
from bftrainer_clusters.holding.call_budget import CallKind
from bftrainer_clusters.slurm import peers
from bftrainer_clusters.slurm.broker import SOON_S, Broker, Guard
from bftrainer_clusters.slurm.calls import SlurmCalls
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.job_list import parse_jobs
from bftrainer_clusters.slurm.observe import NODES_ARGV, RESERVATIONS_ARGV, SlurmScheduler
from bftrainer_clusters.slurm.published import (
    JOBS,
    Head,
    NotPublishedError,
    Published,
    name_of,
    packed,
)
from bftrainer_clusters.slurm.site import published
from bftrainer_clusters.slurm.states import node_view

CONFIG = "PrivateData = {}\nSlurmctld(primary) at host is UP\n"
HEADER = "JOBID|USER|ACCOUNT|QOS|STATE|PARTITION|START_TIME|SCHEDNODES|NODES|REQ_NODES|END_TIME|REASON|NAME|COMMENT"


def line(
    job: int,
    user: str,
    state: str,
    name: str,
    comment: str = "",
    account: str = "pilots",
    nodes: int = 1,
    at: str = "node01",
) -> str:
    return (
        f"{job}|{user}|{account}|(null)|{state}|p|N/A|(null)|{nodes}|{at}|N/A|None|{name}|{comment}"
    )


def printed(*lines: str, mark: str = "m") -> str:
    return "".join(f"{it}|{mark}\n" for it in (HEADER, *lines))


JOBS_NOW = (
    line(1, "ann", "RUNNING", "secret|main", "a comment"),
    line(2, "ann", "PENDING", "secret", "a comment"),
    line(3, "ann", "RUNNING", "bftrainer-pilot", "bftrainer: pilot a of ann; wants 8"),
    line(
        4,
        "ann",
        "CANCELLED",
        "bftrainer-holder",
        "bftrainer: idle node held by pilot a of ann; released",
    ),
)


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    folder = tmp_path / "published"
    folder.mkdir(mode=0o755)
    (tmp_path / "nodes").write_text(recorded("planned.nodes.txt"))
    (tmp_path / "jobs").write_text("".join(f"{it}|MARK\n" for it in (HEADER, *JOBS_NOW)))
    count = f'echo "$0 $*" >> {tmp_path}/calls'
    squeue = f'{count}\nsed "s/MARK$/${{SQUEUE_FORMAT##*|}}/" {tmp_path}/jobs'
    (tmp_path / "config").write_text(CONFIG.format("none"))
    cases = '*reservation) echo "No reservations in the system" ;; *config)'
    scontrol = (
        f'{count}\ncase "$*" in {cases} cat {tmp_path}/config ;; *) cat {tmp_path}/nodes ;; esac'
    )
    env = programs(tmp_path, squeue=squeue, scontrol=scontrol, scancel=count)
    calls = SlurmCalls(env, elapsed_s=time.monotonic)
    return Broker(folder, calls, Guard(calls, frozenset(), "pilots", lambda _: None))


def asked(tmp_path: Path) -> list[str]:
    return [
        it.split()[0].rpartition("/")[2] for it in (tmp_path / "calls").read_text().splitlines()
    ]


def test_pilots_read_what_was_published_and_ask_nothing(broker: Broker, tmp_path: Path) -> None:
    assert broker.publish() == SOON_S, "all is new"
    before = asked(tmp_path)
    calls = SlurmCalls(broker.calls.env, published=Published(broker.folder, os.getuid()))
    found = calls.jobs(1.0)
    assert [job["%A"] for job in found.jobs] == ["2", "3", "4"], (
        "running jobs of others are not published"
    )
    assert "secret" not in (broker.folder / JOBS).read_text()
    assert [(it.user, it.wants) for it in peers.of_jobs(found)] == [("ann", 8)]
    assert calls.look(NODES_ARGV, 1.0, found) == recorded("planned.nodes.txt")
    assert calls.look(RESERVATIONS_ARGV, 1.0, found).startswith("No reservations")
    assert calls.new_jobs() is None, "its predecessor may have submitted holders since"
    assert asked(tmp_path) == before
    calls.run(["scancel", "4"], CallKind.RELEASE, 1.0)
    assert calls.awaits_broker, "the list is older than what this pilot has done"


def test_an_idle_node_is_confirmed_by_two_lists_and_not_by_one_that_is_read_twice(
    broker: Broker, tmp_path: Path
) -> None:
    env = broker.calls.env | programs(
        tmp_path, sdiag="echo 'sdiag output at Wed Nov 25 12:00:00 2026 (1795608000)'"
    )
    scheduler = SlurmScheduler(
        calls=SlurmCalls(env, published=Published(broker.folder, os.getuid()))
    )
    config, view = configuration({"nodes": {"confirm_s": 1e-3}}), ClusterView(PollSchedule(0.0))

    def confirmed() -> bool:
        nonlocal view
        view = polled(
            view, time.monotonic(), PollAnswer(scheduler.observe(), PilotS(0.0), ()), config
        )
        return "node08" in {it.request.node for it in view.candidates}

    broker.publish()
    assert [confirmed(), confirmed(), confirmed()] == [False] * 3, (
        "a main job waits, and all three rest on one list"
    )
    assert view.schedule.next_hinted_s > view.schedule.last_poll_s, (
        "a poll that found no new list is not repeated at once"
    )
    broker.publish()
    assert confirmed()


def test_pilots_weigh_users_as_a_broker_has_published_and_else_ask(
    broker: Broker, tmp_path: Path
) -> None:
    (tmp_path / "jobs").write_text(
        printed(line(3, "ann", "RUNNING", "bftrainer-holder"), mark="MARK")
    )
    (folder := tmp_path / "accounts").mkdir()
    weights, shares = asks(folder), folder / "shares"
    shares.write_text("ann||3\nbea||1\n")
    calls = SlurmCalls(broker.calls.env, published=Published(broker.folder, os.getuid()))
    pilot = peers.SlurmPeerPilots("b", "bea", calls=calls, weights=replace(weights))
    assert [it.weight for it in pilot.look()] == [3]
    shares.write_text("ann||1\nbea||2\n")
    for broker.weights, theirs, own in ((None, 3, 1), (weights, 1, 2)):
        broker.publish()
        assert ([it.weight for it in pilot.look()], pilot.own.weight) == ([theirs], own)
    assert len((folder / "asked").read_text().splitlines()) == 2, (
        "once by the pilot and once by the broker"
    )


@pytest.mark.parametrize("users", [4_000, 20_000])
def test_pilots_read_the_weights_of_all_users_of_a_large_site(
    users: int, broker: Broker, tmp_path: Path
) -> None:
    (folder := tmp_path / "accounts").mkdir()
    broker.weights = asks(folder)
    names = [f"user-of-a-large-site-{number:05d}" for number in range(users)]
    (folder / "shares").write_text(
        "".join(f"{name}||{7 + number}\n" for number, name in enumerate(names))
    )
    broker.publish()
    found = Published(broker.folder, os.getuid())
    weights = found.jobs().weights
    assert weights is not None
    assert (len(weights), weights[names[-1]]) == (users, 6 + users)
    assert [job["%A"] for job in found.jobs().jobs] == ["2", "3", "4"]
    head = (broker.folder / JOBS).read_bytes().partition(b"\n")[0]
    assert len(head) < 300, "pilots read it twice a second"


def test_a_broker_publishes_nothing_that_pilots_would_refuse(
    broker: Broker, tmp_path: Path
) -> None:
    with (tmp_path / "jobs").open("a") as file:
        for number in range(70):
            comment = "x" * (1 << 20)
            file.write(
                f"{line(100 + number, 'ann', 'PENDING', 'bftrainer-holder', comment)}|MARK\n"
            )
    with pytest.raises(
        SchedulerError,
        match=r"not published, .*: 73,\d{3},\d{3} bytes, pilots read at most 67,108,864",
    ):
        broker.publish()
    assert not (broker.folder / JOBS).exists()


def test_nodes_are_asked_again_after_a_change_of_jobs(broker: Broker, tmp_path: Path) -> None:
    broker.publish()
    broker.publish()
    assert asked(tmp_path).count("scontrol") == 2, "the reservations and the nodes"
    (tmp_path / "jobs").write_text(f"{HEADER}|MARK\n{line(1, 'ann', 'COMPLETING', 'x')}|MARK\n")
    broker.publish()
    assert asked(tmp_path).count("scontrol") == 3


def test_the_budget_slows_the_broker_down(broker: Broker) -> None:
    broker.calls.elapsed_s = lambda: 100.0
    waits = [broker.publish() for _ in range(60)]
    assert waits[:2] == [SOON_S, SOON_S]
    assert waits[-1] == pytest.approx(7 / 50 * 60), (
        "120 at once, then 50 a minute; 123 are made, and the next look costs 4"
    )


def test_the_guard_s_time_goes_on_evenly_whatever_the_clock_is_set_to(broker: Broker) -> None:
    found = list[float]()
    broker.guard.look = lambda jobs, nodes, now_s: found.append(now_s)  # type: ignore[method-assign]
    for at_s in (100.0, 130.0):
        broker.calls.elapsed_s = lambda at_s=at_s: at_s  # type: ignore[misc]
        broker.publish()
    assert found[1] - found[0] == 30


def test_a_demand_is_news_and_another_look_is_not(broker: Broker, tmp_path: Path) -> None:
    calls = SlurmCalls(broker.calls.env, published=Published(broker.folder, os.getuid()))
    pilot = peers.SlurmPeerPilots("b", "bea", calls=calls)
    assert not pilot.has_news(), "nothing is published"
    for wants, expected in ((8, True), (8, False), (9, True)):
        text = printed(
            line(
                3, "ann", "RUNNING", "bftrainer-pilot", f"bftrainer: pilot a of ann; wants {wants}"
            ),
            mark="MARK",
        )
        (tmp_path / "jobs").write_text(text)
        broker.publish()
        pilot._next_news_s = 0.0
        assert pilot.has_news() is expected
        assert [it.wants for it in pilot.look()] == [wants]


def test_a_host_list_is_compared_with_those_of_now(broker: Broker, tmp_path: Path) -> None:
    """Of two pilots that start at once, one sees the other."""
    calls = SlurmCalls(broker.calls.env, published=Published(broker.folder, os.getuid()))
    pilot = peers.SlurmPeerPilots("b", "ann", calls=calls)
    broker.publish()
    claim = "bftrainer: pilot c of ann; hosts n1"
    (tmp_path / "jobs").write_text(
        printed(line(7, "ann", "RUNNING", "bftrainer-pilot", claim), mark="MARK")
    )
    pilot.announce(("n1",))
    assert [[it.pilot for it in pilot.look()] for _ in range(2)] == [["c"], ["a"]]


def test_nothing_is_published_where_the_site_hides_jobs(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(CONFIG.format("jobs"))
    done = python("-m", "bftrainer", "broker", broker.folder, env=os.environ | broker.calls.env)
    assert done.returncode == 2
    assert "the site hides jobs (PrivateData), so nothing may be published" in done.stderr


def whole(text: str = printed(*JOBS_NOW), **head: object) -> bytes:
    known = {"at_s": time.time(), "for_s": 10.0, "size": len(text.encode()), "mark": "m"} | head
    return packed(Head(**known), text.encode())  # type: ignore[arg-type]


def linked(path: Path) -> None:
    path.with_name("other").write_bytes(whole())
    path.symlink_to(path.with_name("other"))


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "absent": (lambda path: None, "No such file"),
    "stale": (
        lambda path: path.write_bytes(whole(at_s=time.time() - 11)),
        "11.0 s old, expected at most 10.0",
    ),
    "of the future": (lambda path: path.write_bytes(whole(at_s=time.time() + 5)), "-5.0 s old"),
    "NaN": (lambda path: path.write_bytes(whole(at_s=float("nan"))), "nan s old"),
    "endless": (
        lambda path: path.write_bytes(whole(at_s=time.time() - 70, for_s=float("inf"))),
        "at most 60.0",
    ),
    "truncated": (lambda path: path.write_bytes(whole()[:-10]), "bytes of text, expected"),
    "weights": (
        lambda path: path.write_bytes(whole("[1]\n" + printed(*JOBS_NOW), weights_size=4)),
        "squeue: ",
    ),
    "weights of any size": (lambda path: path.write_bytes(whole(weights_size=1 << 60)), "squeue: "),
    "no JSON": (lambda path: path.write_bytes(b"[" * 100_000), "squeue: "),
    "no head": (lambda path: path.write_bytes(b"{}\n"), "squeue: 'at_s'"),
    "huge": (
        lambda path: (path.write_bytes(whole()), os.truncate(path, 65 << 20)),
        "expected at most 67,108,864",
    ),
    "a link": (linked, "is not a regular file"),
    "two links": (
        lambda path: (path.write_bytes(whole()), os.link(path, path.with_name("b"))),
        "several links",
    ),
    "writable": (
        lambda path: (path.write_bytes(whole()), path.chmod(0o666)),
        "others can write it",
    ),
    "a pipe": (os.mkfifo, "is not a regular file"),
    "garbled": (lambda path: path.write_bytes(whole("hello\n")), "squeue's header is"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_does_not_count_is_refused_in_one_line_and_slurm_is_asked(
    case: str, broker: Broker
) -> None:
    make, words = REFUSED[case]
    make(broker.folder / JOBS)
    with pytest.raises(Exception, match=words) as caught:
        Published(broker.folder, os.getuid()).jobs()
    assert "\n" not in str(caught.value)
    calls = SlurmCalls(broker.calls.env, published=Published(broker.folder, os.getuid()))
    assert len((found := calls.jobs(1.0)).jobs) == 4
    assert re.search(words, calls.unpublished), "events tell it"
    (broker.folder / name_of(NODES_ARGV)).write_bytes(whole("lies"))
    assert calls.look(NODES_ARGV, 1.0, found) == recorded("planned.nodes.txt"), (
        "no other file counts without it"
    )


def test_an_answer_of_another_cluster_does_not_count(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("ClusterName = b\n" + CONFIG.format("none"))
    broker.check_hidden()
    broker.publish()
    assert len(Published(broker.folder, os.getuid(), cluster="b").jobs().jobs) == 3
    with pytest.raises(NotPublishedError, match="is of cluster 'b', expected 'a'"):
        Published(broker.folder, os.getuid(), cluster="a").jobs()
    (tmp_path / "config").write_text("ClusterName = a\n" + CONFIG.format("none"))
    calls = SlurmCalls(broker.calls.env, published=Published(broker.folder, os.getuid()))
    calls.config(1.0)
    assert calls.published_jobs() is None, "the pilot's cluster is that of its slurm.conf"


def test_no_answer_counts_for_a_minute_after_one_of_the_future(broker: Broker) -> None:
    """Its publisher's clock is 3 s ahead: what looks 2 s old is older than a command 4 s ago."""
    at_s = 0.0
    found = Published(broker.folder, os.getuid(), lambda: at_s, lambda: at_s)
    for at_s, words in ((100.0, "is -3.0 s old"), (105.0, "more than 1 s ahead"), (161.0, "")):
        (broker.folder / JOBS).write_bytes(whole(at_s=103.0 if at_s < 160 else 160.0))
        with pytest.raises(NotPublishedError, match=words) if words else nullcontext():
            found.jobs()


def test_a_file_of_another_user_does_not_count(broker: Broker) -> None:
    broker.publish()
    with pytest.raises(NotPublishedError, match=f"belongs to uid {os.getuid()}, expected 12345"):
        Published(broker.folder, 12345).jobs()
    with pytest.raises(UserError, match=r"slurm\.broker_user: there is no user 'nobody-here'"):
        published(SlurmSettings(partition="p", broker="/x", broker_user="nobody-here"))


def test_a_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    assert "that others cannot write" in complaint(bftrainer("broker", tmp_path))


def test_who_keeps_nodes_above_a_part_is_told_and_loses_the_latest(
    broker: Broker, tmp_path: Path
) -> None:
    told: list[str] = []
    guard = Guard(broker.calls, frozenset(), "pilots", told.append)
    words = "bftrainer: idle node held by pilot a of ann; released at once when needed; wants 8"
    rows = [line(n, "ann", "RUNNING", "bftrainer-holder", words) for n in range(10, 17)]
    rows += [line(17, "ann", "RUNNING", "bftrainer-holder", words, account="science")]
    rows += [
        line(30, "bea", "RUNNING", "bftrainer-pilot", "bftrainer: pilot b of bea; wants 8 short")
    ]
    nodes = tuple(node_view(f"node{n}", "ALLOCATED", ("p",), "", 2) for n in range(8))
    for at_s in range(0, 200, 10):
        guard.look(parse_jobs(printed(*rows), "m"), nodes, float(at_s))
    calls = [it for it in (tmp_path / "calls").read_text().splitlines() if "scancel" in it]
    assert [it.partition(" ")[2] for it in calls] == [
        "--user=ann --account=pilots --name=bftrainer-holder 16 15 14 13"
    ], "once, and not the job of another account"
    rows = [
        *rows[:3],
        *(line(n, "ann", "RUNNING", "bftrainer-holder", words) for n in range(40, 45)),
        rows[-1],
    ]
    guard.look(parse_jobs(printed(*rows), "m"), nodes, 210.0)
    assert "44 43 42 41" in (tmp_path / "calls").read_text(), "it takes them again: at once"
    for at_s, n in ((3900.0, 3), (3910.0, 8)):
        its = [line(50 + i, "ann", "RUNNING", "bftrainer-holder", words) for i in range(n)]
        guard.look(parse_jobs(printed(*its, rows[-1]), "m"), nodes, at_s)
    assert " 57" not in (tmp_path / "calls").read_text(), "an hour later it has its time again"
    assert told[:2] == [
        "a pilot of ann has kept 8 nodes for 120 s or more although its part is 4",
        "ended 4 holders of ann, whose part is 4: 16, 15, 14, 13",
    ]


def guarded(broker: Broker, tmp_path: Path, rows: Callable[[float], tuple[str, ...]]) -> list[str]:
    """Jobs that were ended within 200 s on eight busy nodes."""
    guard = Guard(broker.calls, frozenset(), "pilots", lambda _: None)
    nodes = tuple(node_view(f"n{n}", "ALLOCATED", ("p",), "", 2) for n in range(8))
    for at_s in range(0, 200, 10):
        guard.look(parse_jobs(printed(*rows(float(at_s))), "m"), nodes, float(at_s))
    known = tmp_path / "calls"
    return (
        [it.rpartition(" ")[2] for it in known.read_text().splitlines()] if known.exists() else []
    )


CLAIM = "bftrainer: pilot {} of {}; wants 4 short; hosts {}"


@pytest.mark.parametrize(
    ("hosts", "first", "ended"), [("n[0-3]", 4, []), ("n[0-4]", 4, ["13"]), ("n[0-3]", 0, ["12"])]
)
def test_who_cannot_use_a_users_nodes_ends_no_holder_there(
    broker: Broker, tmp_path: Path, hosts: str, first: int, ended: list[str]
) -> None:
    """A main job has the nodes of the other's list. In the last case, the user holds nodes outside
    its own list.
    """
    ann = CLAIM.format("a", "ann", "n[4-7]")
    rows = [
        line(n, "ann", "RUNNING", "bftrainer-holder", ann, at=f"n{first + n - 10}")
        for n in range(10, 14)
    ]
    rows.append(line(20, "bea", "RUNNING", "bftrainer-pilot", CLAIM.format("b", "bea", hosts)))
    assert guarded(broker, tmp_path, lambda _: tuple(rows)) == ended


def test_neither_a_large_holder_nor_ever_new_names_evade_it(broker: Broker, tmp_path: Path) -> None:
    def rows(at_s: float) -> tuple[str, ...]:
        words = (
            f"bftrainer: idle node held by pilot {at_s} of eve; released at once when "
            "needed; wants 8"
        )
        return (
            line(10, "eve", "RUNNING", "bftrainer-holder", words, nodes=8),
            line(
                30, "bea", "RUNNING", "bftrainer-pilot", "bftrainer: pilot b of bea; wants 8 short"
            ),
        )

    assert guarded(broker, tmp_path, rows) == ["10"]
