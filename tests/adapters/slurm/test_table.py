"""The table [slurm] of a configuration: errors in it, and the options that a holder requests by
it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bftrainer.cluster.model import NodeRequest
from bftrainer.config.validation import check_table
from bftrainer.errors import InputFileError, SchedulerError, UserError
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.jobs import SubmittedJob, parse_submitted, submit_argv


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, "need a partition or a qos"),
        ({"partition": "s", "max_pendin": 3}, "did you mean 'max_pending'"),
        ({"partition": "s", "start_within_s": 0}, "start_within_s"),
        ({"qos": "s", "backend": "rest"}, "backend"),
        (
            {"qos": "s", "gres": "gpu:4", "options": ["--gpus-per-node=4"]},
            "both request GRES; remove one",
        ),
        ({"qos": "s", "gres": "nvme:1,shard:8"}, "hold whole GPUs"),
        ({"qos": "s", "options": ["--gres=shard:8"]}, "slurm: gres=shard:8 requests shards"),
        ({"qos": "s", "options": ["--tres-per-task", "cpu=2,gres/shard=8"]}, "hold whole GPUs"),
        (
            {"qos": "s", "options": ["--gres=ssd:1"]},
            'would replace the request for the GPUs .* "gpu:N,ssd:1"',
        ),
    ],
)
def test_a_table_that_is_wrong_is_one_line(table: dict[str, object], words: str) -> None:
    with pytest.raises(InputFileError, match=words) as caught:
        check_table(table, SlurmSettings, "configuration: slurm")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("gpus", "gres", "asked"),
    [(0, "", []), (4, "", ["--gres=gpu:4"]), (4, "gpu:2,ssd", ["--gres=gpu:2,ssd"])],
)
def test_a_holder_asks_for_all_gpus_of_its_node(gpus: int, gres: str, asked: list[str]) -> None:
    settings = SlurmSettings(partition="scavenge", gres=gres)
    argv = submit_argv(
        settings, NodeRequest("node1", 600.0, gpus), "said", ("holder",), Path("log")
    )
    assert [word for word in argv if word.startswith("--gres")] == asked


@pytest.mark.parametrize(
    "options",
    [
        ("--gpus-per-node=4",),
        ("--gpus=4",),
        ("-G4",),
        ("-G", "4"),
        ("--gpus-per-node", "4"),
        ("--gpus-per-task=4",),
        ("--gres", "gpu:a100:4,ssd"),
        ("--tres-per-task=cpu=2,gres/gpu=4",),
    ],
)
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


MEMORY = [
    ({}, ["--mem=0"]),
    ({"mem": ""}, []),
    ({"mem": "180G"}, ["--mem=180G"]),
    ({"options": ["--mem-per-cpu=4000M"]}, ["--mem-per-cpu=4000M"]),
    ({"options": ["--mem=100G"]}, ["--mem=100G"]),
    ({"options": ["--mem-per-gpu", "40G"]}, ["--mem-per-gpu"]),
    ({"options": ["--mem-bind=local"]}, ["--mem=0", "--mem-bind=local"]),
]


@pytest.mark.parametrize(("table", "words"), MEMORY)
def test_the_users_request_for_memory_replaces_that_for_all_of_it(
    table: dict[str, object], words: list[str]
) -> None:
    """Slurm refuses two of them (22.05.8 to 26.05.5), and filters of some sites refuse --mem."""
    settings = check_table({"partition": "scavenge", **table}, SlurmSettings, "slurm")
    argv = submit_argv(settings, NodeRequest("node1", 600.0), "said", ("holder",), Path("log"))
    assert [word for word in argv if word.startswith("--mem")] == words
    assert "--exclusive" in argv


def test_holders_of_parts_request_their_own_memory() -> None:
    settings = SlurmSettings(partition="a", parts_partition="b", options=("--mem-per-cpu=4G",))
    with pytest.raises(
        UserError, match=r"request slurm\.mem_per_gpu; remove --mem-per-cpu=4G from options"
    ):
        settings.check_unit_gpu("bftrainer.toml")
    argv = submit_argv(
        SlurmSettings(partition="a", mem=""),
        NodeRequest("n", 600.0, gpus=1, cpus=2, mib=300),
        "said",
        ("holder",),
        Path("log"),
    )
    assert [word for word in argv if word.startswith("--mem")] == ["--mem=300"]


BANNER = """
-----------------------------------------------------------------
          Welcome to the Example Supercomputer
-----------------------------------------------------------------

No reservation for this job
--> Verifying valid submit host (login4)...OK
--> Checking available allocation (AB-123)...OK
"""


@pytest.mark.parametrize(
    ("last", "submission"),
    [("5000\n", SubmittedJob("5000")), ("5000;b\n\n \n", SubmittedJob("5000", "b"))],
)
def test_the_last_line_of_sbatch_is_the_job(last: str, submission: SubmittedJob) -> None:
    """Filters of some sites print checks before it."""
    assert parse_submitted(BANNER + last) == parse_submitted(last) == submission


@pytest.mark.parametrize(
    ("printed", "quoted"),
    [
        (BANNER, "--> Checking available allocation (AB-123)...OK"),
        ("", ""),
        ("5000", "5000"),
        ("5000\nbye\n", "bye"),
    ],
)
def test_where_sbatch_prints_no_job_its_last_line_is_quoted(printed: str, quoted: str) -> None:
    with pytest.raises(SchedulerError) as caught:
        parse_submitted(printed)
    assert (
        str(caught.value) == f"the last line that sbatch printed is {quoted!r}, expected a job ID"
    )
