"""`bftrainer adapt` on the scripts of docs/examples and on scripts of public shape: few lines, and
they train right.

The scripts in shapes/ are written in the style of well-known examples, not in ours: so they have
another ending.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from support.command_line import bftrainer, complaint
from support.horovod_trainer import Trainer
from support.needs import need_package
from support.training_schedules import Kind, train

from bftrainer.console.client.adapt import adapted
from bftrainer.errors import UserError

SHAPES = Path(__file__).parent / "shapes"
SCRIPTS = Path(__file__).parents[2] / "docs/examples/scripts"
LINES = {
    "ddp_tutorial": 11,
    "mnist": 14,
    "alone": 14,
    "nanogpt": 12,
    "accelerate_nlp": 17,
    "hf_trainer": 4,
    "horovod_mnist": 7,
    "torch": 5,
    "accelerate": 5,
    "lightning": 4,
    "transformers": 5,
}
"""Changed lines."""
NOTES = {
    "mnist": "kept in the checkpoint: scheduler",
    "accelerate_nlp": (
        "line 68: lr_scheduler.step() follows each step, so the global batch is the same at every "
        "size (docs/training.md#batch) line 67: optimizer.step() does not follow every batch"
    ),
    "nanogpt": "random batches have no order to keep",
    "horovod_mnist": "no factor hvd.size(), no callback that sets it",
    "hf_trainer": "`submit` allows powers of two",
}
LOOP = (
    "import torch\nfor i in range(3):\n    for x in data:\n        loss = model(x)\n        "
    "loss.backward()\n        {}\n"
)
EPOCHS = """import torch
model = DDP(Net())
for epoch in range(3):
    for x in data:
        loss = model(x)
        {}
"""
STEPS = """import torch
sampler = DistributedSampler(data)
done = 0
model.train()
while done < args.max_steps:
    for i, batch in enumerate(DataLoader(data, args.train_batch_size)):
        loss = model(batch)
        loss.backward()
        if i % 2:
            optimizer.step()
            scheduler.step()
            done += 1
"""
CHECKPOINT = 'checkpoint="{name}-training.pt"'
REFUSED = {
    "fsdp2": (None, "shards its weights"),
    "torchft_ddp": (None, "has a Manager of torchft"),
    "lightning_cli": (None, "line 34: LightningCLI makes the Trainer"),
    "none": (LOOP.format("pass"), "found no optimizer.step()"),
    "two-loops": (
        LOOP.format("optimizer.step()").replace("model(x)", "net.train()(x)")
        + LOOP.format("optimizer.step()").partition("\n")[2],
        "trains in two loops (lines 3 and 8)",
    ),
    "deepspeed": (
        "import torch\nimport deepspeed\n",
        "line 2: DeepSpeed has its own optimizer and checkpoints",
    ),
    "spawn": (
        "import torch.multiprocessing as mp\nimport torch\nmp.spawn(work, nprocs=4)\n",
        "line 3: starts processes of its own",
    ),
    "groups": (
        EPOCHS.format("loss.backward(); optimizer.step()")
        + "    optimizer.add_param_group({'params': net.parameters()})\n",
        "line 7: adds weights to the optimizer in the loop",
    ),
    "loader-of-an-epoch": (
        EPOCHS.replace("    for x", "    data = DataLoader(rows)\n    for x").format(
            "loss.backward(); optimizer.step()"
        ),
        "line 4: data is made in each epoch; make it before the loop",
    ),
    "prefetcher": (
        EPOCHS.replace("in data", "in DataPrefetcher(data)").format(
            "loss.backward(); optimizer.step()"
        ),
        "line 4: DataPrefetcher reads batches ahead of the step",
    ),
    "no-model": (
        LOOP.format("optimizer.step()"),
        "found no model that the loop calls, as in model(inputs)",
    ),
    "no-epochs": (
        "import torch\ndef step():\n    for x in loader:\n        model(x).backward()\n"
        "        optimizer.step()\n",
        "line 3: found no `for epoch",
    ),
    "no-epochs-of-horovod": (
        "import horovod.torch as hvd\nstate = hvd.elastic.TorchState()\nfor x in loader:\n    "
        "optimizer.step()\n",
        "copy the lines of docs/horovod.md#adapt-the-script",
    ),
    "no-loop": (
        "import torch\noptimizer.step()\n",
        "line 2: found no loop around optimizer.step()",
    ),
    "other": (
        "import jax\n",
        "uses no framework that adapt knows; copy the lines of docs/recipes.md#any-other-script",
    ),
    "ours": ("import bftrainer\n", "imports bftrainer already"),
    "no-python": ("import torch\nif:\n", "is no Python script with imports"),
}
TRAINED = {
    "ddp_tutorial": (512, 4, 3, ("3",)),
    "mnist": (512, 8, 4, ("--epochs=4",)),
    "accelerate_nlp": (256, 16, 12, ("--cpu", "--epochs=12")),
    "alone": (512, 8, 4, ("--epochs=4",)),
    "horovod_mnist": (512, 8, 4, ("--epochs=4",)),
}
"""Samples, batch of a worker, epochs, and the arguments for them."""


def script(folder: Path, name: str, text: str | None = None) -> Path:
    path = folder / f"{name}.py"
    if name == "alone":  # forms no process group
        text = (SHAPES / "mnist.txt").read_text()
        text = text.replace('dist.init_process_group("gloo")', "pass").replace(
            "DDP(Net()", "(Net()"
        )
    own = SHAPES / f"{name}.txt"
    path.write_text(text or (own if own.exists() else SCRIPTS / f"{name}_plain.py").read_text())
    return path


@pytest.mark.parametrize("name", LINES)
def test_few_lines_change_and_notes_say_what_is_left(name: str, tmp_path: Path) -> None:
    found = adapted(script(tmp_path, name))
    compile(found.after, name, "exec")
    assert found.changed_lines == LINES[name], found.diff(name)
    assert NOTES.get(name, "") in " ".join(found.notes)


ONE_LINE = {
    "last": "loss.backward(); optimizer.step()",
    "first": "loss.backward(); optimizer.step(); seen += 1",
    "semicolon": "loss.backward(); optimizer.step();  # update",
    "continued": "loss.backward(); optimizer.step(); \\\n        seen += 1",
    "branch": "loss.backward()\n        if epoch: optimizer.step(); seen += 1",
    "both": "if epoch: loss.backward(); optimizer.step()",
}


RANGES = {
    "range(0, 6, 2)": [0, 2, 4],
    "range(6, 0, -2)": [6, 4, 2],
    "range(1, 4)": [1, 2, 3],
    "range(1, 5 if model else 2)": [1, 2, 3, 4],
}


@pytest.mark.parametrize("numbers", RANGES)
def test_epochs_have_the_numbers_of_the_script(numbers: str, tmp_path: Path) -> None:
    text = EPOCHS.format("loss.backward(); optimizer.step()").replace("range(3)", numbers)
    after = adapted(script(tmp_path, "ranges", text)).after
    head = next(line for line in after.splitlines() if line.startswith("for epoch in "))

    class Training:
        """Counts epochs as the library's class does."""

        epochs = staticmethod(range)

    expression = head.removeprefix("for epoch in ").removesuffix(":")
    assert list(eval(expression, {"training": Training, "model": True})) == RANGES[numbers]


def test_a_range_with_a_step_from_a_variable_is_refused_with_its_line(tmp_path: Path) -> None:
    text = EPOCHS.format("loss.backward(); optimizer.step()")
    text = text.replace("range(3)", "range(first, 6, 2)")
    with pytest.raises(UserError, match=r"line 3: .* has to begin at a number"):
        adapted(script(tmp_path, "ranges", text))


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("indentation", ["    ", "\t"])
@pytest.mark.parametrize("name", ONE_LINE)
def test_statements_that_share_a_line_stay_in_order(
    name: str, indentation: str, newline: str, tmp_path: Path
) -> None:
    text = EPOCHS.format(ONE_LINE[name]).replace("    ", indentation).replace("\n", newline)
    path = tmp_path / "train.py"
    path.write_bytes(text.encode())
    after = adapted(path).after
    compile(after, name, "exec")
    assert ("\r\n" in after) == ("\r\n" in text)
    assert "\n" not in after.replace("\r\n", "") or newline == "\n"
    assert ("    " in after) == (indentation == "    ")
    (loop,) = (
        it
        for it in ast.walk(ast.parse(after))
        if isinstance(it, ast.For) and ast.unparse(it.target) == "x"
    )
    order = [ast.unparse(it) for it in ast.walk(loop) if isinstance(it, ast.Expr | ast.AugAssign)]
    assert "optimizer.step()" in order
    assert after.index("training.backward(loss)") < after.index("optimizer.step()")


def test_a_loop_on_one_line_is_adapted(tmp_path: Path) -> None:
    text = EPOCHS.replace(
        "\n        loss = model(x)\n        {}",
        " loss = model(x); loss.backward(); optimizer.step()",
    )
    after = adapted(script(tmp_path, "one", text)).after
    assert (
        "for x in training.step_loader: loss = model(x); training.backward(loss); "
        "optimizer.step()\n" in after
    )


def test_the_last_line_may_have_no_end(tmp_path: Path) -> None:
    found = adapted(script(tmp_path, "open", STEPS.removesuffix("\n")))
    compile(found.after, "open", "exec")
    assert found.after.endswith("\ntraining.end()")
    assert "\\ No newline at end of file" in found.diff("open")


def test_a_name_of_the_script_is_not_taken(tmp_path: Path) -> None:
    text = EPOCHS.format("loss.backward()\n        optimizer.step()").replace(
        "import torch\n", "import torch\ntraining = 3\n"
    )
    assert "for epoch in idle_training.epochs(3):" in adapted(script(tmp_path, "taken", text)).after


def test_a_result_that_does_not_compile_is_never_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script(tmp_path, "mnist")
    before = path.read_text()
    monkeypatch.setattr(
        "bftrainer.console.client.adapt.source.ScriptSource.text", lambda _: "if:\n"
    )
    assert "would not compile (line 1 of it: invalid syntax), so nothing is changed" in complaint(
        bftrainer("adapt", path, "--apply")
    )
    assert path.read_text() == before
    assert [it.name for it in tmp_path.iterdir()] == [path.name]


def test_bytes_mode_and_link_of_the_script_are_kept(tmp_path: Path) -> None:
    text = b"\xef\xbb\xbf" + (SHAPES / "mnist.txt").read_bytes().replace(b"\n", b"\r\n")
    real, path = tmp_path / "real.py", tmp_path / "train.py"
    real.write_bytes(text)
    real.chmod(0o755)
    path.symlink_to(real)
    assert "\r\n+    training = Training(" in bftrainer("adapt", path).out
    assert bftrainer("adapt", path, "--apply", "--no-start").status == 0
    assert (tmp_path / "train.py.orig").read_bytes() == text
    assert path.is_symlink()
    assert real.read_bytes().startswith(b"\xef\xbb\xbf")
    assert b"\n" not in real.read_bytes().replace(b"\r\n", b"")
    assert real.stat().st_mode & 0o777 == 0o755
    real.write_bytes("# caf\u00e9\nimport torch\n".encode("latin-1"))
    assert "expected a script in UTF-8" in complaint(bftrainer("adapt", path))


def test_a_while_loop_counts_steps_or_epochs(tmp_path: Path) -> None:
    found = adapted(script(tmp_path, "steps", STEPS))
    loader = "DataLoader(data, args.train_batch_size)"
    assert f"    {loader},\n    {CHECKPOINT},\n" in found.after
    assert 'keep={"scheduler": scheduler}' in found.after
    assert '(done,) = training.values(lambda: {"done": done})\nwhile done < args.max' in found.after
    assert "in enumerate(training.step_loader, training.batch_number):" in found.after
    assert "scaling=Scaling.STRONG" in found.after, "steps have as many samples at every size"
    assert found.after.endswith("\ntraining.end()\n")

    text = (
        (SHAPES / "horovod_mnist.txt")
        .read_text()
        .replace("state = hvd", "hvd.broadcast(seed, 0)\nstate = hvd")
    )
    loop = next(line for line in text.splitlines() if "for state.epoch in range(" in line)
    found = adapted(
        script(tmp_path, "epochs", text.replace(loop, "    while (state.epoch < args.epochs):"))
    )
    assert "\n    for state.epoch in training.epochs(args.epochs):\n" in found.after
    assert "hvd.broadcast is not run again by the workers that stay" in found.notes[1]


def test_a_file_that_all_workers_would_write_gets_a_note(tmp_path: Path) -> None:
    path = script(tmp_path, "alone")
    path.write_text(
        path.read_text().replace("torch.distributed", "other") + "torch.save(None, 'best.pt')\n"
    )
    assert "torch.save runs in every worker; `if training.rank == 0:`" in adapted(path).notes[-1]


def test_a_scheduler_of_lightning_is_refused(tmp_path: Path) -> None:
    text = (
        SCRIPTS / "lightning_plain.py"
    ).read_text() + "\nscheduler = torch.optim.lr_scheduler.StepLR(None, 1)\n"
    with pytest.raises(UserError, match=r"line 42: StepLR would have no effect"):
        adapted(script(tmp_path, "lightning", text))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_found_is_told_in_one_line(name: str, tmp_path: Path) -> None:
    text, words = REFUSED[name]
    assert words in complaint(bftrainer("adapt", script(tmp_path, name, text)))


def test_the_original_is_kept_and_never_written_over(tmp_path: Path) -> None:
    path = script(tmp_path, "mnist")
    before = path.read_text()
    assert "+    training = Training(\n+        model,\n" in bftrainer("adapt", path).out
    assert path.read_text() == before
    assert (
        bftrainer("adapt", path, "--apply", "--no-start").out
        == f"changed 14 lines of {path}; the original is mnist.py.orig; not started: --no-start\n"
    )
    assert (tmp_path / "mnist.py.orig").read_text() == before
    assert "training.epochs(args.epochs)" in path.read_text()
    path.write_text(before)
    assert "mnist.py.orig exists" in complaint(bftrainer("adapt", path, "--apply"))


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_the_result_trains_on_each_sample_once_over_rescales(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    driver = "horovod" if name.startswith("horovod") else "torchrun"
    if driver == "horovod":
        request.getfixturevalue("elastic_horovod")
    need_package("torch", *["accelerate", "transformers"] * name.startswith("accelerate"))
    samples, batch, epochs, arguments = TRAINED[name]
    path = script(tmp_path, name)
    slow = path.read_text().replace("import torch\n", "import time\nimport torch\n", 1)
    path.write_text(slow.replace(".zero_grad()", ".zero_grad(); time.sleep(0.05)", 1))
    path.write_text(adapted(path).after)
    monkeypatch.setattr("support.training_schedules.BATCH", batch)
    kind = Kind(driver, (str(path), *arguments))
    run = train(name, tmp_path / "trainer", 1, None, epochs, kind, samples)
    assert run.rescales >= 1
    assert not [*tmp_path.rglob("*{name}*")]
    assert run.compared >= 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "batch"),
    [
        ("nanogpt", (), 4),
        (
            "hf_trainer",
            ("--output_dir=out", "--num_train_epochs=1000", "--report_to=none", "--use_cpu=True"),
            8,
        ),
    ],
)
def test_a_loop_that_counts_steps_resumes_where_it_was(
    name: str, arguments: tuple[str, ...], batch: int, tmp_path: Path
) -> None:
    need_package("torch", *["accelerate", "transformers"] * (name == "hf_trainer"))
    path = script(tmp_path, name)
    path.write_text(adapted(path).after)
    command = [sys.executable, str(path), *arguments]
    with Trainer(
        tmp_path / "trainer", command, driver="torchrun", environment={"MAX_ITERS": "1000000"}
    ) as trainer:
        trainer.start("a:1:1 b:1:2")
        trainer.steps(2)
        trainer.hosts("a:1:1")
        trainer.steps(1)
        saved = [
            line
            for line in trainer.progress
            if (line["phase"], line["incarnation"]) == ("checkpointed", 1)
        ][-1]
        resumed = next(
            line
            for line in trainer.progress
            if line["incarnation"] == 2 and line["phase"] == "running"
        )
        assert resumed["step"] == saved["step"] + 1
        assert resumed["samples"] == saved["samples"] + batch


LAST_LINE = """import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(TensorDataset(torch.ones(8, 2)), batch_size=4)
{before}for epoch in range(3):
    for (inputs,) in loader:
        loss = model(inputs).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    last = loss.item()
model.eval()
for (inputs,) in loader:
    print(model(inputs).sum(), last)
"""


def test_a_name_that_only_the_loop_sets_is_named_or_kept(tmp_path: Path) -> None:
    """A start after the last step, such as one that was killed in a test at the end, makes no
    pass.
    """
    script = tmp_path / "train.py"
    script.write_text(LAST_LINE.format(before=""))
    notes = [note for note in adapted(script).notes if "no value" in note]
    assert notes == [
        "line 16: last has no value in a start after the last step, which makes no pass of the "
        "loop: set it before the loop as well"
    ]
    script.write_text(LAST_LINE.format(before="last = 0.0\n"))
    result = adapted(script)
    assert not [note for note in result.notes if "no value" in note]
    assert '(last,) = training.values(lambda: {"last": last})' in result.after


def test_what_workers_must_decide_alike_is_named(tmp_path: Path) -> None:
    """Each worker has the losses of its own share: one that stops early leaves the others waiting."""
    script = tmp_path / "train.py"
    text = LAST_LINE.format(
        before="scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\nlast = 0.0\n"
    )
    decisions = "    scheduler.step(last)\n    if last < 0.1:\n        break\n"
    script.write_text(text.replace("model.eval()\n", f"{decisions}model.eval()\n"))
    notes = [note for note in adapted(script).notes if "decide alike" in note]
    assert [note.partition(": all")[0] for note in notes] == [
        "line 16: scheduler.step(last)",
        "line 18: break",
    ]
    script.write_text(LAST_LINE.format(before=""))
    assert not [note for note in adapted(script).notes if "decide alike" in note]
