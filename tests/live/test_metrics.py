"""GET /metrics: who may read it, and whether its numbers are those of the registry."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from support.fakes_live import FakeClock
from support.live_house import spec
from support.live_machine import CONFIG, Machine, eventually, machine

from bftrainer.config.pilot import MetricsConfig
from bftrainer.config.validation import check_table
from bftrainer.errors import InputFileError, UserError
from bftrainer.pilot.facts import FragmentEvent
from bftrainer.pilot.metrics import Metrics
from bftrainer.pilot.metrics_server import SOCKET, MetricsServer
from bftrainer.pilot.persistence.registry import Registry, Submission, TrainerStatus, Usage
from bftrainer.pilot.persistence.registry_writer import TrainerChange
from bftrainer.pilot.persistence.store import Store
from bftrainer.pilot.recorder import Recorder
from bftrainer.pilot.steady_clock import SteadyClock

DASHBOARD = Path(__file__).parents[2] / "packaging" / "grafana.json"


def numbers(page: str) -> dict[str, float]:
    """``name{label=value}`` to number; it must be OpenMetrics."""
    found = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
            found[sample.name + (f"{{{labels}}}" if labels else "")] = float(sample.value)
    return found


def get(port: int, path: str = "/metrics", **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_numbers_follow_what_is_written_down(store: Store) -> None:
    clock = FakeClock(100.0)
    steady = SteadyClock(clock)
    before = Recorder(store, steady)
    before.submissions([Submission(spec("before"), "me", "before")])
    before.write_fragment_event("n0#1", FragmentEvent.ASKED, 1.0)
    before.write_fragment_event("n0#1", FragmentEvent.TAKEN, 2.0)
    metrics = Metrics(before.registry)
    recorder = Recorder(store, steady, [metrics.hear])
    recorder.submissions([Submission(spec("a"), "me", "a")])
    a = recorder.trainer(
        recorder.registry.trainer("a"), TrainerChange(status=TrainerStatus.RUNNING)
    )
    recorder.write_fragment_event("n1#2", FragmentEvent.ASKED, 3.0)
    recorder.write_fragment_event("n2#3", FragmentEvent.ASKED, 3.0)
    recorder.write_fragment_event("n2#3", FragmentEvent.TAKEN, 4.0)
    recorder.write_fragment_event("n0#1", FragmentEvent.ASKED_BACK, 5.0, "preempted")
    recorder.write_fragment_event("n0#1", FragmentEvent.RELEASED, 5.3, "preempted")
    recorder.usage((Usage("a", 640.0, 10.0, 8.0, 2.0),))
    recorder.note("failure", "a", "status 1")
    recorder.note("refused", "n3", "QOSMaxJobs")
    found = numbers(metrics.text().decode())
    expected = {
        "bftrainer_trainers_running": 1,
        "bftrainer_trainers_queued": 1,
        "bftrainer_trainers_done": 0,
        "bftrainer_nodes_held": 1,
        "bftrainer_nodes_pending": 1,
        "bftrainer_fragments_taken_total": 1,
        "bftrainer_fragments_asked_back_total{planned=False}": 1,
        "bftrainer_release_seconds_count": 1,
        "bftrainer_release_seconds_bucket{le=0.5}": 1,
        "bftrainer_release_seconds_bucket{le=0.2}": 0,
        "bftrainer_node_seconds_total{use=held}": 10,
        "bftrainer_node_seconds_total{use=stalled}": 2,
        "bftrainer_trainer_samples{trainer=a}": 640,
        "bftrainer_trainer_failures_total": 1,
        "bftrainer_holders_refused_total": 1,
    }
    assert {name: found[name] for name in expected} == expected
    recorder.trainer(a, TrainerChange(status=TrainerStatus.DONE))
    found = numbers(metrics.text().decode())
    assert (found["bftrainer_trainers_done"], found["bftrainer_trainers_running"]) == (1, 0)
    assert "bftrainer_trainer_samples{trainer=a}" not in found, (
        "no series for ever for every trainer there was"
    )


def given_token(folder: Path) -> Path:
    token = folder / "token"
    token.write_text("0123456789abcdef\n")
    token.chmod(0o600)
    return token


@contextmanager
def served(store: Store, config: MetricsConfig, folder: Path) -> Iterator[tuple[str, ...]]:
    """Where."""
    it = MetricsServer(Metrics(Registry(store)), config, folder)
    try:
        yield it.places
    finally:
        it.end()


def port_of(place: str) -> int:
    return int(place.rpartition(":")[2].partition("/")[0])


def get_from_socket(path: Path) -> tuple[int, str]:
    """As ``curl --unix-socket PATH http://localhost/metrics`` does it; paths of sockets have 107
    letters at most.
    """
    folder = os.open(path.parent, os.O_PATH)
    connection = http.client.HTTPConnection("localhost", timeout=60)
    try:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(f"/proc/self/fd/{folder}/{path.name}")
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()
        os.close(folder)


def test_a_token_is_asked_for_and_only_get_metrics_is_answered(
    store: Store, tmp_path: Path
) -> None:
    config = MetricsConfig(port=0, token_file=given_token(tmp_path), socket=False)
    with served(store, config, tmp_path) as (place,):
        port = port_of(place)
        assert get(port)[0] == 401
        assert get(port, Authorization="Bearer 0123456789abcdeX")[0] == 401
        assert "bftrainer" not in get(port)[1]
        status, page = get(port, Authorization="Bearer 0123456789abcdef")
        assert status == 200
        assert numbers(page)["bftrainer_nodes_held"] == 0
        assert get(port, "/", Authorization="Bearer 0123456789abcdef")[0] == 404
        assert not (tmp_path / SOCKET).exists()


def test_the_socket_is_the_owners_and_is_the_default(store: Store, tmp_path: Path) -> None:
    path = tmp_path / SOCKET
    with served(store, MetricsConfig(), tmp_path) as places:
        assert places == (str(path),)
        assert path.stat().st_mode & 0o777 == 0o600
        status, page = get_from_socket(path)
        assert status == 200
        assert numbers(page)["bftrainer_nodes_held"] == 0
    assert not path.exists()


def test_a_file_system_without_sockets_does_not_stop_a_pilot(store: Store, tmp_path: Path) -> None:
    (tmp_path / SOCKET).mkdir()  # as good a reason as any
    with served(store, MetricsConfig(), tmp_path) as (place,):
        pass
    assert "not served: Is a directory" in place
    assert (tmp_path / SOCKET).is_dir()


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("0123456789abcdef", 0o644, "readable by other users"),
        ("short", 0o600, "expected 16 characters or more, found 5"),
    ],
)
def test_a_bad_token_file_is_refused(
    store: Store, tmp_path: Path, text: str, mode: int, words: str
) -> None:
    token = tmp_path / "token"
    token.write_text(text)
    token.chmod(mode)
    with pytest.raises(UserError, match=words):
        MetricsServer(Metrics(Registry(store)), MetricsConfig(port=0, token_file=token), tmp_path)


def test_a_pipe_as_token_file_does_not_hold_the_pilot(store: Store, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token", 0o600)
    with pytest.raises(UserError, match=r"metrics\.token_file: .*token: is not a regular file"):
        MetricsServer(
            Metrics(Registry(store)), MetricsConfig(port=0, token_file=tmp_path / "token"), tmp_path
        )


@pytest.mark.parametrize(
    ("address", "who"), [("127.0.0.1", "every user of this host"), ("0.0.0.0", "other hosts")]
)
def test_a_port_needs_a_token(address: str, who: str) -> None:
    with pytest.raises(
        InputFileError, match=f"can be reached by {who}: set token_file, or remove port"
    ):
        check_table({"port": 9100, "address": address}, MetricsConfig, "test")
    with pytest.raises(InputFileError, match="expected an IP address to listen on"):
        check_table(
            {"port": 9100, "address": "node01", "token_file": "token"}, MetricsConfig, "test"
        )


def test_a_port_that_is_taken_is_said(store: Store, tmp_path: Path) -> None:
    token = given_token(tmp_path)
    with served(store, MetricsConfig(port=0, token_file=token, socket=False), tmp_path) as (place,):
        port = port_of(place)
        with pytest.raises(
            UserError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"
        ):
            MetricsServer(
                Metrics(Registry(store)), MetricsConfig(port=port, token_file=token), tmp_path
            )


def places_of(on: Machine) -> list[str]:
    """Where the pilot serves, the port first."""
    return [str(row["text"]) for row in on.rows("events", "-n", 1000) if row["kind"] == "metrics"]


def test_a_real_pilot_answers_and_its_log_has_a_line_per_decision(tmp_path: Path) -> None:
    config = CONFIG + '[metrics]\nport = 0\ntoken_file = "token"\n[log]\nformat = "json"\n'
    with machine(tmp_path, "n1 n2", config) as on:
        given_token(on.state)
        token = {"Authorization": "Bearer 0123456789abcdef"}
        on.submit("a", 100_000)
        pilot = on.pilot()
        eventually(lambda: on.status("a") == "running", 40)
        address, socket_path = places_of(on)
        port = port_of(address)
        eventually(
            lambda: numbers(get(port, **token)[1]).get("bftrainer_trainer_nodes{trainer=a}") == 2,
            20,
        )
        found = numbers(get(port, **token)[1])
        assert numbers(get_from_socket(Path(socket_path))[1])["bftrainer_nodes_held"] == 2
        assert get(port)[0] == 401
        assert found["bftrainer_nodes_held"] == found["bftrainer_nodes_allocated"] == 2
        on.end(pilot)
        lines = [json.loads(line) for line in (on.work / "pilot.log").read_text().splitlines()]
        with closing(sqlite3.connect(on.state / "pilot.db")) as db:
            ((decisions,),) = db.execute("SELECT count(*) FROM journal").fetchall()
        told = [line for line in lines if line["event"] == "decision"]
        assert len(told) == decisions
        assert told[-1]["counts"].keys() <= {"a"}
        assert {"pilot", "decision", "trainer", "node"} <= {line["event"] for line in lines}
        assert (
            sum(found[name] for name in found if name.startswith("bftrainer_decisions_total"))
            <= decisions
        )


def test_the_dashboard_asks_only_for_what_there_is(store: Store) -> None:
    there = {
        family.name
        for family in text_string_to_metric_families(Metrics(Registry(store)).text().decode())
    }
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    assert len(queries) >= 10
    for query in queries:
        for name in re.findall(r"bftrainer_\w+", query):
            assert re.sub(r"_(total|bucket|count|sum)$", "", name) in there, query
