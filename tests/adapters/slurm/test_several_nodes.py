"""Where holders of several nodes are refused, and how each refusal is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from bftrainer.decide.domain.checks import CheckStatus
from bftrainer.errors import InvalidValueError, UserError
from bftrainer.system.installed import Installed, installed_file
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.several_nodes import check_settings, several_nodes


def settings(**more: object) -> SlurmSettings:
    return SlurmSettings.model_validate({"partition": "p", "nodes_per_holder": 4, **more})


@pytest.mark.parametrize("nodes", [0, 65, 1.5])
def test_bounds(nodes: float) -> None:
    with pytest.raises(ValueError, match="nodes_per_holder"):
        settings(nodes_per_holder=nodes)


def test_gpus_are_requested_per_node() -> None:
    settings(options=("--gpus-per-node=4",))
    for option in ("-G4", "--gpus=4", "--tres-per-job=gres/gpu:4"):
        with pytest.raises((InvalidValueError, ValueError), match="counts the GPUs of a whole job"):
            settings(options=(option,))


def test_what_would_count_or_hold_one_node_is_refused(tmp_path: Path) -> None:
    check_settings(settings(), None, "c.toml")
    check_settings(settings(nodes_per_holder=1), 8, "c.toml")
    with pytest.raises(
        UserError,
        match=r"c.toml: slurm.nodes_per_holder is 4, and peer pilots count a job as one node",
    ):
        check_settings(settings(), 8, "c.toml")
    script = tmp_path / "own.slurm"
    script.write_text(installed_file(Installed.JOBSCRIPT, "holder.slurm").read_text())
    check_settings(settings(holder_script=script), None, "c.toml")
    script.write_text('srun -n1 -J bftrainer-payload "$1" "$2"')
    with pytest.raises(UserError, match="starts its payload on one node"):
        check_settings(settings(holder_script=script), None, "c.toml")


def test_doctor_says_what_they_cost() -> None:
    (check,) = several_nodes(settings())
    assert check.state is CheckStatus.OK
    assert "a main job that takes one of them ends all" in check.detail
    assert list(several_nodes(settings(nodes_per_holder=1))) == []
