"""What lies in the way of a command: one line, status 2, no waiting."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from support.ran import python

TRAINER = 'name = "t"\ncommand = ["true"]\nmax_nodes = 2\nsamples_per_s = 10\n'


def bftrainer(
    folder: Path, *arguments: str, most_bytes: int = -1, path: str = ""
) -> tuple[int, str]:
    """Status, and what is on stderr. ``most_bytes``: of a file, as on a full disk."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, -1))

    environment = os.environ | {"PYTHONPATH": path}
    found = python("-m", "bftrainer", *arguments, cwd=folder, env=environment, preexec_fn=limit)
    return found.returncode, found.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.toml").write_text(TRAINER)
    (tmp_path / "s").mkdir(mode=0o700)
    (tmp_path / "elsewhere").mkdir()
    return tmp_path


@pytest.mark.parametrize("target", ["elsewhere", "nowhere"])
def test_a_spool_that_is_a_link(folder: Path, target: str) -> None:
    (folder / "s/spool").symlink_to(folder / target)
    status, said = bftrainer(folder, "submit", "--state", "s", "t.toml")
    assert (status, said) == (
        2,
        f"bftrainer: {folder}/s/spool: is not a folder, or a link to one; remove it, and it is "
        "made again\n",
    )


def test_a_configuration_that_is_a_named_pipe(folder: Path) -> None:
    os.mkfifo(folder / "s/bftrainer.toml")
    status, said = bftrainer(folder, "submit", "--state", "s", "t.toml")
    assert (status, said) == (
        2,
        f"bftrainer: {folder}/s/bftrainer.toml: is a named pipe, expected a file\n",
    )


def test_a_trace_pilot_on_a_full_disk(folder: Path) -> None:
    (folder / "s/bftrainer.toml").write_text('[nodes]\nholder = "trace"\n')
    status, said = bftrainer(folder, "pilot", "--state", "s", most_bytes=0)
    assert (status, said) == (
        2,
        f"bftrainer: {folder}/s/holders/beginning.json: cannot be used: File too large\n",
    )


def test_a_broken_prometheus_client(folder: Path) -> None:
    broken = folder / "elsewhere/prometheus_client"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise RuntimeError('half an installation')")
    (folder / "token").write_text("x" * 32)
    (folder / "token").chmod(0o600)
    (folder / "s/bftrainer.toml").write_text('[metrics]\nport = 0\ntoken_file = "../token"\n')
    status, said = bftrainer(folder, "pilot", "--state", "s", path=str(broken.parent))
    assert (status, said.count("\n")) == (2, 1)
    assert "prometheus-client is broken: RuntimeError: half an installation" in said
    (folder / "s/bftrainer.toml").write_text(
        "[trace]\nspeedup = 1e6\ndays = 0.05\n[times]\nshutdown_s = 1.0\n"
    )
    argv = [sys.executable, "-m", "bftrainer", "pilot", "--state", "s"]
    with subprocess.Popen(
        argv,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(broken.parent)},
        stdout=subprocess.PIPE,
        text=True,
    ) as pilot:
        assert pilot.stdout is not None
        assert any(
            "not served: the package prometheus-client is broken" in line for line in pilot.stdout
        )
        pilot.terminate()
