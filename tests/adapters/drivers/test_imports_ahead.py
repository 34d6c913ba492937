"""What is imported before a worker runs its script: read from the script, without running it."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pytest

from bftrainer.protocol.hosts import HostSlots
from bftrainer.protocol.messages import TrainerMessage
from bftrainer_adapters.drivers.common import warm_start
from bftrainer_adapters.drivers.common.forking.script import beginning_of, parse
from bftrainer_adapters.drivers.torchrun.main import TorchProgram


@pytest.mark.parametrize(
    "command", [["bash", "x.sh"], ["python", "-c", "pass"], ["python", "-X", "dev", "x.py"], ["x.py"]]
)
def test_other_commands_are_started_plainly(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("import os")
    assert beginning_of(command, tmp_path) is None


def test_the_modules_of_a_script_and_of_a_module_without_importing_anything(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "train.py").write_text(
        "import torch, os.path as p\nfrom a.b import c\nfrom . import d\nif 1:\n    import e"
    )
    for command in (["python3", "-u", "-m", "pack.train"], ["python", "pack/train.py"]):
        found = beginning_of(command, tmp_path)
        assert found is not None
        assert found.modules == ("torch", "os.path", "a.b")
    assert beginning_of(["python", "missing.py"], tmp_path) is None


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("'a docstring'", True),
        ("SIZE = 3", True),
        ("def f():\n    print()", True),
        ("os.environ['A'] = '1'", True),
        ("os.environ.setdefault('A', '1')", True),
        ("os.environ['A'] = str(1)", False),
        ("sys.path.insert(0, 'src')", False),
        ("matplotlib.use('agg')", False),
        ("x = f()", False),
        ("sys.dont_write_bytecode = True", False),
        ("if 1:\n    pass", False),
        ("@f\ndef g(): pass", False),
        ("class A(f()): pass", False),
        ("del os", False),
    ],
)
def test_imports_after_a_statement_that_could_matter_to_them_are_left_to_the_script(first: str, then: bool) -> None:
    assert parse(f"import os\n{first}\nimport torch").modules == (("os", "torch") if then else ("os",))


def test_what_is_imported_ahead_is_not_searched_for_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "probe_of_gc.py").write_text("import gc\nis_on = gc.isenabled()\n")
    (tmp_path / "train.py").write_text("import probe_of_gc\n")
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    kept: list[object] = []
    kept.append(kept)
    try:
        warm_start.warm_up(str(tmp_path / "train.py"), str(tmp_path / "own"))
        assert (sys.modules["probe_of_gc"].is_on, gc.isenabled()) == (False, True)
        assert gc.get_freeze_count() > 0, "nor at the end of the process"
        later: list[object] = []
        later.append(later)
        assert any(it is later for it in gc.get_objects()), "what the script makes is searched"
        assert not any(it is kept for it in gc.get_objects())
    finally:
        gc.unfreeze()


@pytest.mark.parametrize(
    ("slots", "set_by_user", "given"), [(2, {}, "1"), (1, {}, None), (2, {"OMP_NUM_THREADS": "4"}, None)]
)
def test_warm_torchrun_workers_import_torch_with_the_number_of_threads(
    slots: int, set_by_user: dict[str, str], given: str | None
) -> None:
    """OpenMP reads the variable when it is loaded."""
    trainer = TrainerMessage("t", ("python", "x.py"), Path(), 1, 1, environment=set_by_user)
    program = TorchProgram(trainer, "lo", None, ())
    assert program.first_variables(HostSlots("n1", slots, "f1")).get("OMP_NUM_THREADS") == given
