"""Slurm's JSON outputs: the layouts of 22.05, 23.11, 24.05, and the words that the schemas up to 26.05 allow."""

from __future__ import annotations

import json

import pytest
from recorded_slurm import foreign, recorded

from bftrainer.errors import SchedulerError
from bftrainer_adapters.slurm import json as slurm_json
from bftrainer_adapters.slurm.jobs import JOB_PHASES
from bftrainer_adapters.slurm.states import flags_of


def test_a_job_list_without_plans_is_refused() -> None:
    text = json.dumps({"errors": [], "jobs": [{"job_id": 7, "job_state": "PENDING", "start_time": 5}]})
    with pytest.raises(SchedulerError, match=r"before 23\.11"):
        slurm_json.parse_pending(text)


def test_slurms_own_errors_are_not_an_empty_answer() -> None:
    for errors in ([{"description": "Unable to contact slurm controller"}], ["strange"]):
        with pytest.raises(SchedulerError, match="Slurm reports an error"):
            slurm_json.parse_nodes(json.dumps({"errors": errors, "nodes": []}))


def test_cut_json_is_refused() -> None:
    text = recorded("moment-pyslurm_moment.sinfo.json")
    for end in (0, 10, len(text) // 2, len(text) - 3):
        with pytest.raises(SchedulerError):
            slurm_json.parse_nodes(text[:end])


@pytest.mark.data
def test_jobs_of_23_11() -> None:
    text = foreign("scheduler-output-samples", "V0040OpenapiJobInfoResp.json")
    answer = json.loads(text)
    assert {word for job in answer["jobs"] for word in job["job_state"]} <= set(JOB_PHASES)
    for job in answer["jobs"]:
        job.update(job_state=["PENDING"], scheduled_nodes="node[1-2]")
    found = slurm_json.parse_pending(json.dumps(answer))
    assert len(found) == len(answer["jobs"])
    assert found[0].id == "7745162"
    assert (found[0].starts_s, found[0].nodes, found[0].size) == (1722274361.0, {"node1", "node2"}, 1)
    # As recorded, none waits.
    waiting = [job for job in json.loads(text)["jobs"] if "PENDING" in job["job_state"]]
    assert len(slurm_json.parse_pending(text)) == len(waiting)


@pytest.mark.data
def test_nodes_of_23_11() -> None:
    nodes = slurm_json.parse_nodes(foreign("scheduler-output-samples", "V0040OpenapiNodesResp.json"))
    assert nodes[0].name == "dtn1"
    assert nodes[0].state == "DOWN+NOT_RESPONDING"


@pytest.mark.data
@pytest.mark.parametrize("version", range(41, 46))
def test_every_word_of_a_schema_is_known(version: int) -> None:
    """From 24.05 (v0.0.41) to 26.05 (v0.0.45), with the fields that are read."""
    schemas = json.loads(foreign("slurm-openapi-specs-v41-v45", f"openapi_spec_v{version}.json"))["components"][
        "schemas"
    ]

    def schema(name: str) -> dict[str, dict[str, object]]:
        return schemas[f"v0.0.{version}_{name}"]["properties"]

    def words(field: dict[str, object]) -> list[str]:
        while "$ref" in field:
            field = schemas[str(field["$ref"]).rpartition("/")[2]]
        return field["items"]["enum"]

    assert {"name", "state", "partitions", "active_features", "gres", "cpus"} <= schema("node").keys()
    job = schema("job_info")
    assert {
        "job_id",
        "user_name",
        "partition",
        "node_count",
        "start_time",
        "scheduled_nodes",
        "job_state",
        "name",
    } <= job.keys()
    assert {"name", "start_time", "end_time", "node_list"} <= schema("reservation_info").keys()
    for state in words(schema("node")["state"]):
        assert flags_of(state)
    assert set(words(job["job_state"])) <= set(JOB_PHASES)
