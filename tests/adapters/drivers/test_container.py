"""Workers in containers. What stands for Apptainer and pyxis here: a program, and the options of
pyxis by name.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from support.horovod_trainer import Trainer

from bftrainer.config.trainer_file import TrainerSpec, settle
from bftrainer.config.validation import check_table
from bftrainer.errors import InputFileError
from bftrainer.pilot.trainers.trainer_message import trainer_message
from bftrainer_clusters.slurm.doctor import containers
from bftrainer_drivers.common.command_line import container

PYXIS = """
      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH
      --container-mounts=SRC:DST[:FLAGS][,SRC:DST...]
      --container-workdir=PATH
"""
"""Of pyxis' part of `srun --help` (its README, 0.11 to 0.20)."""
APPTAINER = f"""#!{sys.executable}
import os, sys
words, given, binds = sys.argv[1:], list(sys.argv), {{}}
assert words.pop(0) == "exec"
while words[0].startswith("-"):
    option = words.pop(0)
    if option == "--bind":
        source, target, *flags = words.pop(0).split(":")
        assert os.path.isdir(source), source
        binds[target] = source
    elif option == "--pwd":
        os.chdir(words.pop(0))
image = words.pop(0)
assert open(image).read() == "image"
assert os.environ["BFTRAINER_TRAINER_DIR"] in binds
packages = os.environ["PYTHONPATH"].split(":")[0]
os.environ["PYTHONPATH"] = os.path.dirname(binds[packages + "/bftrainer"])
print("in the container", flush=True)
os.execvp(words[0], words)
"""
"""Checks the command line of `apptainer exec`, and runs the command outside, with bftrainer where
it is bound.
"""
SCRIPT = """
import os, time
from bftrainer.progress import Reporter
report, size, step = Reporter(), int(os.environ["WORLD_SIZE"]), 0
while True:
    step += 1
    time.sleep(0.02)
    if report.step(step=step, samples=step, world_size=size, force=True):
        report.leave()
"""


def test_a_worker_is_started_by_apptainer_warm_and_cold_from_an_image_that_is_staged_once_per_node(
    tmp_path: Path,
) -> None:
    for folder, name, text in (
        ("bin", "apptainer", APPTAINER),
        ("work", "t.sif", "image"),
        ("work", "t.py", SCRIPT),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(text)
    (tmp_path / "bin/apptainer").chmod(0o755)
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    table = {
        "name": "a",
        "command": [Path(sys.executable).name, "t.py"],
        "max_nodes": 2,
        "image": "staged.sif",
        "stage_in": ["cp t.sif staged.sif", "echo $BFTRAINER_FRAGMENT >> nodes"],
        "setup": ["true"],  # its login shell keeps PATH
        "cwd": "work",
    }
    spec = settle(
        check_table(table, TrainerSpec, "test"),
        "test",
        tmp_path,
        {"PATH": path, "PYTHONPATH": "/host"},
    )
    with Trainer(tmp_path / "a", driver="restart", warm=True) as trainer:
        told = json.loads(trainer.directory.trainer.read_text())
        message = trainer_message(spec)
        told |= {
            "command": message.command,
            "cwd": str(message.cwd),
            "image": message.image,
            "setup": message.setup,
            "environment": dict(message.environment),
        }
        trainer.directory.trainer.write_text(json.dumps(told))
        trainer.start("n1:2:1")
        trainer.steps(2)
        at_s = trainer.hosts("n1:2:1 n2:1:2")
        trainer.event("running", at_s, world_size=3)
        trainer.steps(3)
        assert sorted((tmp_path / "work/nodes").read_text().split()) == ["1", "2"]
        logs = [log.read_text() for log in (tmp_path / "a").glob("logs/[0-9]*/*.log")]
        assert len(logs) == 5
        assert all("in the container" in log for log in logs)


def test_what_is_asked_of_srun_is_what_pyxis_knows_and_doctor_finds_it() -> None:
    box = container("/images/t.sqsh", Path("/work"), Path("/state/trainers/a"), {})
    assert [word.partition("=")[0] for word in box.srun_options] == re.findall(
        r"--container-\w+", PYXIS
    )
    assert box.srun_options[0] == "--container-image=/images/t.sqsh"
    assert "/state/trainers/a:/state/trainers/a,/work:/work," in box.srun_options[1]
    assert (box.runtime, box.arguments) == ("", ())
    assert containers(PYXIS, None).detail == ".sqsh images: srun has pyxis"
    assert (
        containers("--container=PATH  OCI bundle", "/usr/bin/apptainer").detail
        == ".sif images: /usr/bin/apptainer"
    )
    assert not containers("--container=PATH  OCI bundle", None).required


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("pytorch/pytorch:2.9", "apptainer pull torch.sif docker://pytorch/pytorch:2.9`"),
        ("gone.sif", "gone.sif does not exist"),
    ],
)
def test_an_image_that_is_no_file_is_refused(image: str, words: str, tmp_path: Path) -> None:
    spec = check_table(
        {"name": "a", "command": ["python"], "max_nodes": 1, "image": image}, TrainerSpec, "a.toml"
    )
    with pytest.raises(InputFileError, match=r"a.toml: image") as refused:
        settle(spec, "a.toml", tmp_path, {})
    assert words in str(refused.value)
