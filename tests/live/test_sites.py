"""Sites are found by entry point, and what they share holds for each of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from command_line import bftrainer, complaint
from patience import PATIENCE

from bftrainer.config.pilot import PilotConfig, commented_default, read_config
from bftrainer.config.validation import check_table
from bftrainer.errors import InputFileError, UnknownNameError
from bftrainer.live import site as sites
from bftrainer.live.site import batch_systems, build_site, find_site, observed_site
from bftrainer.plugins import site_names
from bftrainer.system.clock import SystemClock
from bftrainer_adapters.allocation import SITE as ALLOCATION
from bftrainer_adapters.lsf.site import LsfBatch
from bftrainer_adapters.slurm.site import SlurmBatch


def test_the_installed_sites() -> None:
    assert site_names() == ("allocation", "lsf", "slurm", "trace")
    assert [name for name, _ in batch_systems()] == ["lsf", "slurm"]
    assert {name for name in site_names() if find_site(name).runs_here} == {"trace"}


def test_a_name_that_is_not_installed_lists_those_that_are(tmp_path: Path) -> None:
    config = check_table({"nodes": {"holder": "slrum"}}, PilotConfig, "test")
    with pytest.raises(
        UnknownNameError, match=r"unknown holder 'slrum', did you mean 'slurm'\? valid: allocation, lsf"
    ):
        build_site(config, tmp_path, SystemClock())
    with pytest.raises(UnknownNameError, match="unknown scheduler 'trace'; valid: lsf, slurm"):
        observed_site("trace", None, "", SystemClock())
    assert "unknown holder 'pbs'" in complaint(bftrainer("init", "--holder", "pbs", "--state", tmp_path / "s"))


@pytest.mark.parametrize("name", site_names())
def test_init_writes_a_configuration_that_can_be_read(name: str, tmp_path: Path) -> None:
    assert bftrainer("init", "--holder", name, "--state", tmp_path / "s").status == 0
    path = tmp_path / "s" / "bftrainer.toml"
    assert read_config(path).nodes.holder == name
    model = find_site(name).table
    assert (f"[{name}]  # " in path.read_text()) is (model is not None or name == "trace")
    for key in () if model is None else model.model_fields:
        assert f"#{key} = " in path.read_text()


def test_a_table_is_a_sites_or_an_error() -> None:
    config = check_table({"lsf": {"queue": "idle"}}, PilotConfig, "test")
    assert (config.site_table("lsf"), config.site_table("slurm")) == ({"queue": "idle"}, {})
    with pytest.raises(InputFileError, match="test: unknown key 'slrum', did you mean 'slurm'"):
        check_table({"slrum": {}}, PilotConfig, "test")
    with pytest.raises(InputFileError, match="test: slurm: expected a table, got 3"):
        check_table({"slurm": 3}, PilotConfig, "test")
    assert "[slurm]" not in commented_default()


@pytest.mark.parametrize(
    ("environment", "nodes", "prefix"),
    [
        ({}, ("localhost",), []),
        ({"SLURM_JOB_ID": "12"}, ("localhost",), ["srun", "--jobid=12"]),
        (
            {"SLURM_JOB_NODELIST": "node[01-02,5],login1", "SLURM_JOB_ID": "12"},
            ("login1", "node01", "node02", "node5"),
            ["srun", "--jobid=12"],
        ),
        ({"LSB_DJOB_HOSTFILE": "hosts", "SLURM_JOB_ID": "12"}, ("a", "b"), ["blaunch", "{node}"]),
    ],
)
def test_the_nodes_of_the_job_around(
    environment: Mapping[str, str],
    nodes: tuple[str, ...],
    prefix: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LSB_DJOB_HOSTFILE", "SLURM_JOB_ID", "SLURM_JOB_NODELIST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    Path("hosts").write_text("a\na\nb\n")
    site = ALLOCATION.build(PilotConfig(), tmp_path, SystemClock())
    assert tuple(node.name for node in site.scheduler.observe().nodes) == nodes
    words = site.driver["prefix"]
    assert isinstance(words, list)
    assert words[:2] == prefix


@pytest.mark.parametrize(
    ("by_lsf", "by_slurm", "expected"),
    [(None, None, None), (True, None, True), (None, True, True), (True, False, False), (False, True, False)],
)
def test_outside_of_a_job_a_scheduler_that_lists_the_other_pilots_job_has_the_last_word(
    by_lsf: bool | None, by_slurm: bool | None, expected: bool | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(LsfBatch, "job_is_gone", lambda self, job: by_lsf)
    monkeypatch.setattr(SlurmBatch, "job_is_gone", lambda self, job: by_slurm)
    job = sites.batch_job({}, "trace", tmp_path, SystemClock())
    assert (job.id, job.own, job.is_gone("7")) == ("", None, expected)


def test_a_site_that_cannot_be_imported_is_one_line_and_a_finding(tmp_path: Path) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[bftrainer.sites]\npbs = no_such_module:SITE\n")

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "bftrainer", *map(str, arguments)], env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True, text=True, check=False, timeout=60 * PATIENCE,
        )  # fmt: skip

    said = run("init", "--holder", "pbs", "--state", tmp_path / "s")
    assert said.returncode == 2
    assert said.stderr.startswith("bftrainer: site 'pbs' (no_such_module:SITE) cannot be loaded: ModuleNotFoundError")
    assert run("init", "--holder", "slurm", "--state", tmp_path / "s").returncode == 0
    checks = {check["name"]: check for check in json.loads(run("doctor", "--json").stdout)["checks"]}
    assert (checks["pbs"]["state"], checks["pbs"]["required"]) == ("BROKEN", False)
