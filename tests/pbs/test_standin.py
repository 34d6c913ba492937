"""The stand-in PBS beside recordings of a real one: the same fields, words and exit statuses."""

from __future__ import annotations

import json
import time

import pytest
from support.pbs_under_test import QUEUE, StandInPbs
from support.recorded_pbs import recorded, status_of

from bftrainer.system import command
from bftrainer_clusters.pbs import jobs
from bftrainer_clusters.pbs.queue import parse_queues, parse_schedulers, parse_server
from bftrainer_clusters.pbs.text import attributes_of, parse_nodes


def outcome(pbs: StandInPbs, *argv: str, **variables: str) -> command.Output:
    return command.outcome(argv, timeout_s=60, env={**pbs.lab.env, **variables})


def test_jobs_have_fields_that_a_real_server_prints(pbs: StandInPbs) -> None:
    pbs.lab.main_job(4)
    pbs.lab.main_job(1)
    real = {
        key
        for name in ("busy.qstat-f.dsv", "injected.qstat-f.dsv", "odd-values.qstat-f.dsv")
        for record in jobs.parse_jobs(recorded(name))
        for key in record.attributes
    }
    records = jobs.parse_jobs(outcome(pbs, "qstat", "-f", "-F", "dsv").out)
    assert [record.get("job_state") for record in records] == ["R", "Q"]
    assert {key for record in records for key in record.attributes} <= real
    assert records[1].get("estimated.start_time")


def test_nodes_queues_server_and_schedulers_have_the_fields_of_a_real_one(pbs: StandInPbs) -> None:
    nodes = outcome(pbs, "pbsnodes", "-a", "-v", "-F", "json").out
    real = json.loads(recorded("busy.pbsnodes-av.json"))
    mine = json.loads(nodes)
    assert set(mine) == set(real)
    assert set(mine["nodes"]["node01"]) <= set(real["nodes"]["n1"])
    assert len(parse_nodes(nodes).views) == 4
    (scheduler,) = parse_schedulers(outcome(pbs, "qmgr", "-c", "list sched").out)
    assert scheduler.order == "D"
    shown = dict(attributes_of(outcome(pbs, "qmgr", "-c", "list sched").out, "Sched "))
    real_schedulers = dict(attributes_of(recorded("idle.qmgr-list-sched.txt"), "Sched "))
    assert set(shown["default"]) <= set(real_schedulers["default"])
    assert {
        each.name for each in parse_queues(outcome(pbs, "qstat", "-Q", "-f", "-F", "dsv").out)
    } == {
        "main",
        QUEUE,
    }
    assert parse_server(outcome(pbs, "qstat", "-B", "-f", "-F", "json").out).shows_jobs


@pytest.mark.parametrize(
    ("recording", "argv"),
    [
        ("error.qdel-unknown.txt", ("qdel", "99999.head")),
        ("error.qsub-unknown-queue.txt", ("qsub", "-q", "nosuch", "--", "/bin/true")),
        ("error.qsub-no-script.txt", ("qsub", "/nonexistent")),
    ],
)
def test_errors_have_the_words_and_the_status_of_a_real_server(
    pbs: StandInPbs, recording: str, argv: tuple[str, ...]
) -> None:
    output = outcome(pbs, *argv)
    assert output.err.strip() == recorded(f"{recording}.err").strip()
    assert output.status != 0


def test_a_user_on_another_host_is_refused_in_the_words_of_a_real_server(pbs: StandInPbs) -> None:
    id_ = pbs.lab.main_job()
    output = outcome(pbs, "qdel", id_)  # uma's word, and max's job
    real = recorded("error.qdel-same-user-other-host.txt.err")
    assert output.err.strip() == real.strip().replace("2071", id_)
    assert output.status == status_of("error.qdel-same-user-other-host.txt")


def test_a_server_that_is_down_answers_as_a_real_one(pbs: StandInPbs) -> None:
    pbs.lab.fault("*", "down")
    for recording, argv in (
        ("error.server-down.qstat.txt", ("qstat", "-f", "-F", "json")),
        ("error.server-down.qdel.txt", ("qdel", "1")),
        ("error.server-down.pbsnodes.txt", ("pbsnodes", "-av")),
    ):
        output = outcome(pbs, *argv)
        assert output.status == status_of(recording)
        assert "Connection refused" in output.err
        assert "Connection refused" in recorded(f"{recording}.err")


def test_it_suspends_by_default_and_hides_that_on_the_node(pbs: StandInPbs) -> None:
    pbs.lab.order("SCR")
    argv = ("qsub", "-q", QUEUE, "-l", "select=1:host=node01", "--", "/bin/sleep", "99")
    id_ = pbs.lab.run(*argv).partition(".")[0]
    pbs.until(lambda: pbs.lab.job(id_)["leader"], "the job to run")
    main = pbs.lab.main_job(host="node01", seconds=1)
    pbs.until(lambda: pbs.lab.started_s(main), "the main job to start")
    assert pbs.lab.job(id_)["state"] == "S"
    document = json.loads(outcome(pbs, "pbsnodes", "-av", "-F", "json").out)
    assert f"{id_}.head" not in document["nodes"]["node01"].get("jobs", ())


def test_it_preempts_for_one_main_job_at_a_time(pbs: StandInPbs) -> None:
    """On the real server, three started after 1.1, 2.2 and 3.3 s."""
    for node in pbs.nodes:
        pbs.lab.run("qsub", "-q", QUEUE, "-l", f"select=1:host={node}", "--", "/bin/sleep", "99")
    pbs.until(lambda: all(j["leader"] for j in pbs.lab.state()["jobs"].values()), "the jobs to run")
    mains = [pbs.lab.main_job() for _ in range(3)]
    pbs.until(lambda: all(map(pbs.lab.started_s, mains)), "the main jobs to start")
    log = [line.split()[0] for line in pbs.lab.state()["log"]]
    assert log == ["preempt", "end"] * 3


def test_the_zone_of_the_pilot_plays_no_part(
    pbs: StandInPbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PBS prints times in the zone of its commands, which therefore run in UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        pbs.lab.main_job(4, minutes=60)
        waiting = pbs.lab.main_job(4)
        (job,) = pbs.scheduler.observe().pending
        assert job.id == waiting
        assert job.starts_s is not None
        assert 3000 < job.starts_s - time.time() <= 3601
    finally:
        monkeypatch.undo()
        time.tzset()
