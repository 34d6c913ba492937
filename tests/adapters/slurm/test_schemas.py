"""Slurm's own schemas: every word for a state that the versions up to 26.05 may write is known."""

from __future__ import annotations

import json

import pytest
from support.recorded_slurm import foreign

from bftrainer_clusters.slurm.jobs import JOB_PHASES
from bftrainer_clusters.slurm.states import flags_of


@pytest.mark.data
@pytest.mark.parametrize("version", range(41, 46))
def test_every_word_of_a_schema_is_known(version: int) -> None:
    """From 24.05 (v0.0.41) to 26.05 (v0.0.45), with the fields that are read."""
    schemas = json.loads(foreign("slurm-openapi-specs-v41-v45", f"openapi_spec_v{version}.json"))[
        "components"
    ]["schemas"]

    def schema(name: str) -> dict[str, dict[str, object]]:
        return schemas[f"v0.0.{version}_{name}"]["properties"]

    def words(field: dict[str, object]) -> list[str]:
        while "$ref" in field:
            field = schemas[str(field["$ref"]).rpartition("/")[2]]
        return field["items"]["enum"]

    assert {"name", "state", "partitions", "active_features", "gres", "cpus"} <= schema(
        "node"
    ).keys()
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
