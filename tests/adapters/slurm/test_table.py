"""The table [slurm] of a configuration: errors in it, and the options that a holder requests by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bftrainer.config.validation import check_table
from bftrainer.domain.cluster import NodeRequest
from bftrainer.errors import InputFileError
from bftrainer_adapters.slurm.config import SlurmSettings
from bftrainer_adapters.slurm.jobs import submit_argv


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, "need a partition or a qos"),
        ({"partition": "s", "max_pendin": 3}, "did you mean 'max_pending'"),
        ({"partition": "s", "start_within_s": 0}, "start_within_s"),
        ({"qos": "s", "backend": "rest"}, "backend"),
        ({"qos": "s", "gres": "gpu:4", "options": ["--gpus-per-node=4"]}, "both request GRES; remove one"),
        ({"qos": "s", "gres": "nvme:1,shard:8"}, "hold whole GPUs"),
        ({"qos": "s", "options": ["--gres=shard:8"]}, "slurm: gres=shard:8 requests shards"),
        ({"qos": "s", "options": ["--tres-per-task", "cpu=2,gres/shard=8"]}, "hold whole GPUs"),
        ({"qos": "s", "options": ["--gres=ssd:1"]}, 'would replace the request for the GPUs .* "gpu:N,ssd:1"'),
    ],
)
def test_a_table_that_is_wrong_is_one_line(table: dict[str, object], words: str) -> None:
    with pytest.raises(InputFileError, match=words) as caught:
        check_table(table, SlurmSettings, "configuration: slurm")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("gpus", "gres", "asked"), [(0, "", []), (4, "", ["--gres=gpu:4"]), (4, "gpu:2,ssd", ["--gres=gpu:2,ssd"])]
)
def test_a_holder_asks_for_all_gpus_of_its_node(gpus: int, gres: str, asked: list[str]) -> None:
    settings = SlurmSettings(partition="scavenge", gres=gres)
    argv = submit_argv(settings, NodeRequest("node1", 600.0, gpus), "said", ("holder",), Path("log"))
    assert [word for word in argv if word.startswith("--gres")] == asked


@pytest.mark.parametrize(
    "options",
    [
        ("--gpus-per-node=4",), ("--gpus=4",), ("-G4",), ("-G", "4"), ("--gpus-per-node", "4"), ("--gpus-per-task=4",),
        ("--gres", "gpu:a100:4,ssd"), ("--tres-per-task=cpu=2,gres/gpu=4",),
    ],
)  # fmt: skip
def test_gpus_in_the_options_replace_the_automatic_request(options: tuple[str, ...]) -> None:
    """Slurm (22.05.8 to 26.05.5) refuses a job with --gres=gpu:4 and --gpus-per-node=4."""
    settings = SlurmSettings(partition="scavenge", options=(*options, "--constraint=ib"))
    argv = submit_argv(settings, NodeRequest("node1", 600.0, 4), "said", ("holder",), Path("log"))
    assert "--gres=gpu:4" not in argv
    assert set(options) <= set(argv)


def test_an_option_for_something_else_does_not_replace_the_request_for_gpus() -> None:
    settings = SlurmSettings(partition="scavenge", options=("--tres-per-task=cpu=2",))
    argv = submit_argv(settings, NodeRequest("node1", 600.0, 4), "said", ("holder",), Path("log"))
    assert "--gres=gpu:4" in argv
