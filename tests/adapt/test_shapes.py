"""`bftrainer adapt` on scripts of many shapes: each trains as without interruption, or is refused.

Each script is stopped after every step, and each third start is killed. Then its last line, which
has weights, rates, best values and histories, equals that of an uninterrupted run to the last bit.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import bftrainer
from support.forked_scripts import ForkedScripts, ScriptRuns
from support.needs import need_package

from bftrainer.console.client.adapt import adapted
from bftrainer.errors import UserError

SHAPES = Path(__file__).parent / "shapes"
TRAINED = {
    "onecycle_ema": 15,
    "cyclic_tqdm": 17,
    "plateau_stop": 8,
    "phases": 15,
    "imagenet": 15,
    "detr": 15,
    "hf_no_trainer": 36,
    "gan": 10,
    "while_steps": 28,
    "iterator": 17,
    "diffusion": 18,
    "run_epoch": 15,
    "seq2seq": 18,
    "trainer_class": 12,
    "mae": 24,
    "unfreeze": 16,
    "trange_bar": 18,
    "closure": 4,
    "one_pass": 8,
    "clashes": 9,
    "dataclass_state": 15,
}
"""Steps at least."""
IN_EACH_RUN = frozenset({"closure", "plateau_stop", "clashes"})
"""Shapes of make test; make nightly trains the others."""
PRELOADED = [
    *["torch", "torch._dynamo", "torch.optim.swa_utils", "numpy", "tqdm.auto", "accelerate"],
    "transformers.optimization",
    *["bftrainer.progress.torch", "bftrainer.progress.accelerate", "bftrainer.progress.trackers"],
]
"""What a start need not import."""
REFUSED = {
    "bptt": "line 10: found no loop over a DataLoader: enumerate(range(0, train_data.size(0) - 1",
    "kfold": "line 6: a loop around the training: the trainings in it would share one checkpoint",
    "generator": "line 17: batches come from the generator iterate_minibatches()",
    "remade_optimizer": "line 10: optimizer is made again in the loop",
    "reinforce": "line 12: env.step has a state that no checkpoint has",
    "two_loaders": "line 11: zip(labeled_loader, unlabeled_loader) has two loaders",
}


def unpacked(name: str, folder: Path) -> Path:
    """Write a shape as the script, or the package, that it is."""
    own = SHAPES / name
    if not own.is_dir():
        script = folder / f"{name}.py"
        script.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(SHAPES / f"{name}.txt", script)
        return script
    for path in own.rglob("*.txt"):
        target = (folder / path.relative_to(own)).with_suffix(".py")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return folder / "main.py"


def apply(script: Path) -> None:
    """Write the changes of all files."""
    for file in adapted(script).files:
        file.path.write_text(file.after)


@pytest.fixture(scope="module")
def scripts() -> Iterator[ForkedScripts]:
    need_package("torch", "tqdm", "accelerate", "transformers")
    process = ForkedScripts(
        ["torch", "numpy", "tqdm.auto", "accelerate", "bftrainer.progress.torch"]
    )
    yield process
    process.end()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in IN_EACH_RUN else pytest.mark.nightly)
        for name in TRAINED
    ],
)
def test_a_script_that_is_stopped_after_each_step_trains_as_without(
    name: str, tmp_path: Path, scripts: ForkedScripts
) -> None:
    script = unpacked(name, tmp_path / "script")
    apply(script)
    whole = ScriptRuns(scripts, script, tmp_path / "whole")
    assert whole.run(stops=False) == 0, whole.log()
    parts = ScriptRuns(scripts, script, tmp_path / "parts")
    steps = parts.to_the_end()
    assert parts.result() == whole.result()
    assert steps == whole.steps()[-1] >= TRAINED[name]
    assert parts.starts > 3
    assert parts.kills >= 1


@pytest.mark.parametrize("name", REFUSED)
def test_a_script_is_refused_with_its_line_and_the_reason(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        adapted(unpacked(name, tmp_path))
    assert REFUSED[name] in str(caught.value)
    assert "copy the lines of docs/" in str(caught.value)


@pytest.mark.slow
def test_a_changed_script_is_started_twice_before_it_is_written(tmp_path: Path) -> None:
    need_package("torch", "tqdm")
    script = unpacked("detr", tmp_path)
    before = {path: path.read_text() for path in tmp_path.rglob("*.py")}
    end = bftrainer("adapt", script, "--apply", "--start-s", "500")
    assert "; started twice, it made steps 1 and 2\n" in end.out
    changed = {path.name for path, text in before.items() if path.read_text() != text}
    assert changed == {"main.py", "misc.py"}
    assert (tmp_path / "util/misc.py.orig").read_text() == before[tmp_path / "util/misc.py"]
    assert not [*tmp_path.rglob("*training*")], "the trial was in a copy"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("    best_loss = float", "    best_loss = threading.Lock() or float", "type lock"),
        ("epochs=args.epochs, steps", "epochs=args.epoch, steps", "AttributeError: 'Namespace'"),
        (
            "    best_loss = float",
            "    print(open('b').read())\n    best_loss = float",
            "FileNotFoundError",
        ),
        ("    for epoch in", "    args.epochs = 0\n    for epoch in", "made no step"),
    ],
)
def test_a_changed_script_that_fails_is_not_written(
    old: str, new: str, words: str, tmp_path: Path
) -> None:
    need_package("torch")
    script = unpacked("onecycle_ema", tmp_path)
    text = (
        script.read_text()
        .replace(old, new)
        .replace("import torch\n", "import torch, threading\n", 1)
    )
    text = text.replace("best_loss = min(best_loss, epoch_loss)", "best_loss = best_loss or 1")
    script.write_text(text)
    end = bftrainer("adapt", script, "--apply", "--start-s", "500")
    message = end.err.splitlines()[-1]
    assert end.status == 2
    assert "nothing is changed: started for one step, the adapted script" in message
    assert words in message
    assert script.read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == [script.name]
