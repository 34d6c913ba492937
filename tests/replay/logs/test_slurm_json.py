"""``sacct --json`` from 22.05 to 26.05. The texts are made here after real ones, which the tests
marked ``data`` read.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from support.data import data_file
from support.reading_logs import PLAIN, changes, read, totals

from bftrainer.errors import InputFileError
from bftrainer_replay.logs.open import open_log

T = 1_769_904_000


def job(
    start: int, end: int, nodes: str, count: int, old: bool, state: str = "COMPLETED"
) -> dict[str, object]:
    """22.05 writes plain values; later versions lists of states and, for some numbers, {set,
    infinite, number}.
    """
    times: dict[str, object] = {
        "submission": start - 60,
        "eligible": start - 60,
        "start": start,
        "end": end,
    }
    if not old:
        times = {
            key: {"set": True, "infinite": False, "number": value} for key, value in times.items()
        }
    return {
        "job_id": start or 1,
        "allocation_nodes": count,
        "nodes": nodes,
        "time": times,
        "name": 'a"]}{\n',
        "state": {"current": state if old else [state]},
        "steps": [{"step": {"id": "1.batch"}}],
        "tres": {"requested": [{"type": "node", "count": 2}]},
    }


def output(jobs: list[dict[str, object]], indent: int | None = None) -> str:
    return json.dumps({"meta": {"slurm": {}}, "jobs": jobs, "errors": []}, indent=indent)


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("indent", [None, 2])
def test_old_and_new_versions(tmp_path: Path, old: bool, indent: int | None) -> None:
    waiting = job(0, 0, "None assigned", 0, old, "PENDING")
    waiting["time"] = {"submission": T, "eligible": T, "start": 0, "end": 0}
    jobs = [
        job(T, T + 100, "cn1", 1, old),
        job(T, T + 300, "cn[2-3]", 2, old),
        job(T + 200, T + 250, "cn1", 1, old),
        waiting,
        job(T + 400, 0, "cn1", 1, old, "RUNNING"),
    ]
    jobs[1]["job_id"] = 2
    found = read(tmp_path, output(jobs, indent))
    assert changes(found) == [
        (0, ["cn1"], []),
        (100, [], ["cn1"]),
        (150, ["cn1"], []),
        (200, ["cn2", "cn3"], []),
        (300, [], []),
    ]
    assert totals(found) == (5, 5, 0, 0)
    assert sorted(found.log.queue.nodes.tolist()) == [1, 1, 1, 2, 2]


def test_a_name_forges_no_job(tmp_path: Path) -> None:
    jobs = [job(T, T + 100, "cn1", 1, False), job(T + 200, T + 300, "cn1", 1, False)]
    plain = changes(read(tmp_path, output(jobs)))
    jobs[0]["name"] = f'x"}}, {json.dumps(job(T, T + 900, "x[1-8]", 8, False))}, {{"name": "\n'
    assert changes(read(tmp_path, output(jobs, 1))) == plain


def test_runs_of_a_requeued_job_and_changes_of_nodes(tmp_path: Path) -> None:
    first, last = job(T, T + 100, "cn[1-2]", 2, False), job(T, T + 300, "cn1", 1, False)
    first["state"], first["job_id"], last["job_id"] = {"current": ["COMPLETED", "RESIZING"]}, 7, 7
    last["time"] = {"submission": T + 100, "eligible": T + 100, "start": T, "end": T + 300}
    closing = job(T + 400, T + 500, "cn[1-2]", 2, False)
    found = read(tmp_path, output([first, last, closing]))
    assert changes(found)[:2] == [(0, ["cn2"], []), (200, ["cn1"], [])]
    assert any("sacct ran without -D" in text for text in found.remarks)
    first["state"] = {"current": ["REQUEUED"]}
    assert not any("-D" in text for text in read(tmp_path, output([first, last, closing])).remarks)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"meta": {}, "jobs": [', "ends within the list"),
        ('{"meta": {}, "jobs": [{"a": 1', "ends within a job"),
        ('{"meta": {}}', 'has no list "jobs"'),
        ('{"meta": {}, "jobs": []}', "none of its 0 records is a job"),
        ('{"meta": {}, "jobs": [{"a": }]}', "is not JSON"),
        ('{"meta": {}, "jobs": [[]]}', "expected an object"),
        ('{"meta": {}, "jobs": [{}]}', 'has no "time"'),
        ('{"meta": {}, "jobs": [{"time": {}, "state": []}]}', "has no state"),
        ('{"meta": {}, "jobs": [' + "[" * 100_000 + "]" * 100_000 + "]}", "log"),
        ('{"nodes": []}', "is JSON without a list of jobs; for Slurm, run the sacct command"),
    ],
)
def test_broken_json(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InputFileError, match=problem):
        read(tmp_path, text)


@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    ["after_preempt", "planned", "future_resv", "planned_with_placeholders", "pyslurm_moment"],
)
def test_json_and_text_of_one_cluster_agree(name: str) -> None:
    """Slurm 22.05.8 printed both."""
    folder = data_file("../samples/slurm-22.05.8")
    text, as_json = (open_log(folder / f"{name}.sacct.{kind}", PLAIN) for kind in ("txt", "json"))
    assert text.log.events == as_json.log.events
    assert (text.log.queue is None) == (as_json.log.queue is None)


@pytest.mark.data
def test_real_json_of_23_11(tmp_path: Path) -> None:
    with tarfile.open(data_file("slurm-formats/scheduler-output-samples.tar.gz")) as archive:
        members = [
            m
            for m in archive.getmembers()
            if "sarc-sacct-json" in m.name and m.name.endswith("00.json")
        ]
        assert len(members) > 10
        for member in members:
            content = archive.extractfile(member)
            assert content is not None
            data = content.read()
            found = read(tmp_path, data)
            assert totals(found)[0] == len(json.loads(data)["jobs"]), member.name
            assert totals(found)[3] == 0, found.totals


@pytest.mark.data
@pytest.mark.parametrize("version", ["v41", "v42", "v43", "v44", "v45"])
def test_the_fields_are_those_of_slurms_own_specifications(version: str) -> None:
    """24.05 (v41) to 26.05 (v45)."""
    with tarfile.open(data_file("slurm-formats/slurm-openapi-specs-v41-v45.tar.gz")) as archive:
        content = archive.extractfile(f"slurm-openapi-specs/openapi_spec_{version}.json")
        assert content is not None
        schemas = json.load(content)["components"]["schemas"]
    fields = schemas[f"v0.0.{version[1:]}_job"]["properties"]
    assert {
        "cluster",
        "user",
        "time",
        "state",
        "job_id",
        "nodes",
        "allocation_nodes",
        "array",
        "tres",
    } <= set(fields)
    assert {"submission", "eligible", "start", "end", "elapsed", "limit"} <= set(
        fields["time"]["properties"]
    )
    assert {"current", "reason"} <= set(fields["state"]["properties"])
