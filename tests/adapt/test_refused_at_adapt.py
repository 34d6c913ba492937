"""`bftrainer adapt` refuses, with the line, what Training would refuse at the first start, and keeps
what a loop needs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import bftrainer
from support.needs import need_package

from bftrainer.console.client.adapt import adapted
from bftrainer.errors import UserError

SCRIPT = """import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset
{head}
data = TensorDataset(torch.ones(16, 2))
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
{loader}
model.train()
for epoch in range(3):
{epoch}    for inputs in loader:
        loss = model(inputs[0]).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
{end}"""
LOADER = "loader = DataLoader(data, 4)"
STREAM = "class Stream(IterableDataset):\n    def __iter__(self):\n        yield torch.ones(2)\n"
ENDLESS = "class Endless(Dataset):\n    def __getitem__(self, i):\n        return torch.ones(2)\n"
CHUNKS = """class Chunks:
    def __init__(self, count, batch_size):
        self.count, self.batch_size = count, batch_size

    def __iter__(self):
        yield torch.ones(self.batch_size, 2)

def make_iterator(count, batch_size, device):
    return Chunks(count, batch_size)

batch_size = 4
"""
REFUSED = {
    "replacement": (
        "",
        "sampler = torch.utils.data.RandomSampler(data, replacement=True, num_samples=64)\n"
        "loader = DataLoader(data, 4, sampler=sampler)",
        "line 8: RandomSampler chooses samples",
    ),
    "weights": (
        "",
        "loader = DataLoader(data, 4, sampler=torch.utils.data.WeightedRandomSampler([1], 16))",
        "line 7: WeightedRandomSampler chooses samples",
    ),
    "iterable": (STREAM, "loader = DataLoader(Stream(), 4)", "Stream is an IterableDataset"),
    "no-length": (ENDLESS, "loader = DataLoader(Endless(), 4)", "Endless has no length"),
    "own-iterator": (
        CHUNKS,
        'loader = make_iterator(96, batch_size, "cpu")',
        "line 11: Chunks has no position",
    ),
}


def written(folder: Path, **parts: str) -> Path:
    """Write the script with some of its parts."""
    script = folder / "train.py"
    defaults = {"head": "", "loader": LOADER, "epoch": "", "end": ""}
    script.write_text(SCRIPT.format(**{**defaults, **parts}))
    return script


@pytest.mark.parametrize("name", REFUSED)
def test_data_without_a_position_are_refused_with_their_line(name: str, tmp_path: Path) -> None:
    head, loader, words = REFUSED[name]
    with pytest.raises(UserError) as caught:
        adapted(written(tmp_path, head=head, loader=loader))
    assert words in str(caught.value)


def test_an_imported_data_set_without_length_is_refused(tmp_path: Path) -> None:
    (tmp_path / "stream.py").write_text(f"import torch\nfrom torch.utils.data import *\n{STREAM}")
    script = written(
        tmp_path, head="from stream import Stream", loader="loader = DataLoader(Stream(), 4)"
    )
    with pytest.raises(UserError, match="line 7: Stream is an IterableDataset"):
        adapted(script)


def test_a_sampler_that_takes_each_sample_is_adapted(tmp_path: Path) -> None:
    loader = "loader = DataLoader(data, 4, sampler=torch.utils.data.RandomSampler(data))"
    assert "in training.step_loader:" in adapted(written(tmp_path, loader=loader)).after


def test_a_variable_of_one_branch_is_no_state(tmp_path: Path) -> None:
    end = '    checkpoint = {"model": model.state_dict()}\nprint(checkpoint)\n'
    head = "import sys\nif len(sys.argv) > 1:\n    checkpoint = torch.load(sys.argv[1])\n"
    after = adapted(written(tmp_path, head=head, end=end)).after
    assert '"checkpoint":' not in after


def test_a_scheduler_of_the_first_epoch_is_kept_or_refused(tmp_path: Path) -> None:
    made = "    if epoch == 0:\n        warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1)\n"
    end = "        if epoch == 0:\n            warm.step()\n"
    with pytest.raises(UserError, match=r"line 11: warm is made in some epochs only"):
        adapted(written(tmp_path, epoch=made, end=end))
    after = adapted(written(tmp_path, epoch=f"    warm = None\n{made}", end=end)).after
    assert '(warm,) = training.epoch_values(lambda: {"warm": warm})' in after


def test_a_generator_of_the_scripts_own_is_named(tmp_path: Path) -> None:
    head = (
        "import numpy as np\nclass Noisy(Dataset):\n    def __init__(self):\n"
        "        self.rng = np.random.default_rng(0)\n\n    def __len__(self):\n"
        "        return 16\n\n    def __getitem__(self, i):\n"
        "        return torch.ones(2) * self.rng.random()\n"
    )
    script = written(tmp_path, head=head, loader="loader = DataLoader(Noisy(), 4)")
    notes = " ".join(adapted(script).notes)
    assert "line 6: np.random.default_rng() is a generator whose state no checkpoint has" in notes


TRAINER = """import torch
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, **kwargs):
        self.model = kwargs["model"]
        self.optimizer = kwargs["optimizer"]
        self.scheduler = kwargs["scheduler"]
        self.last_loss = None

    def fit(self, loader):
        self.model.train()
        for epoch in range(3):
            for (inputs,) in loader:
                self.train_step(inputs)
            self.scheduler.step()

    def train_step(self, inputs):
        loss = self.model(inputs).sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.last_loss = loss.item()
"""
MAIN = """import torch
from torch.utils.data import DataLoader, TensorDataset
from trainer import Trainer

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
trainer = Trainer(model=model, optimizer=optimizer, scheduler=scheduler)
trainer.fit(DataLoader(TensorDataset(torch.ones(8, 2)), 4))
print(f"{trainer.last_loss:.4f}")
"""


def test_a_trainer_object_in_a_module_keeps_its_scheduler_and_notes_appear(tmp_path: Path) -> None:
    (tmp_path / "trainer.py").write_text(TRAINER)
    script = tmp_path / "main.py"
    script.write_text(MAIN)
    result = adapted(script)
    assert 'keep={"scheduler": self.scheduler}' in result.modules[0].after
    notes = " ".join(result.notes)
    assert "trainer.py: kept in the checkpoint: self.scheduler" in notes
    assert "main.py, line 10: trainer.last_loss has no value in a start after the last" in notes


LAZY = """
class Learner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.online = torch.nn.Linear(2, 1)
        self.target = None

    def forward(self, inputs):
        if self.target is None:
            self.target = {made}
        return self.online(inputs) - self.target(inputs).detach()
"""


@pytest.mark.slow
def test_a_changed_script_that_fails_where_the_original_starts_says_so(tmp_path: Path) -> None:
    """The model makes a part in its first forward pass, so a restart could not load it."""
    need_package("torch")
    script = written(
        tmp_path, head=f"import copy\n{LAZY.format(made='copy.deepcopy(self.online)')}"
    )
    text = script.read_text().replace("model = torch.nn.Linear(2, 1)", "model = Learner()")
    script.write_text(text)
    end = bftrainer("adapt", script, "--apply", "--start-s", "500")
    assert end.status == 2
    message = end.err.splitlines()[-1]
    assert "the model has further weights since Training(...) was made (target.bias" in message
    assert "without the changes it starts" in message
    assert script.read_text() == text
