"""The wheels of a commit, built twice: ``packaging/wheels.py``."""

from __future__ import annotations

import io
import os
import runpy
import sys
import tarfile
from pathlib import Path

import pytest
from support.needs import need
from support.ran import ran

ROOT = Path(__file__).parents[2]
WHEELS = runpy.run_path(str(ROOT / "packaging" / "wheels.py"))

PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "sample"
version = "1"
"""
BACKEND = '''\
"""A backend whose wheel shows {shows}."""
import os, zipfile


def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "sample-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{{directory}}/{{name}}", "w") as wheel:
        for path, text in (
            ("sample.py", str({shows})),
            ("sample-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: sample\\nVersion: 1\\n"),
            ("sample-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"),
            ("sample-1.dist-info/RECORD", ""),
        ):
            wheel.writestr(zipfile.ZipInfo(path), text)
    return name
'''


def archive(shows: str) -> bytes:
    """A tar archive of a project whose wheel contains the value of an expression."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text in (
            ("pyproject.toml", PYPROJECT),
            ("backend.py", BACKEND.format(shows=shows)),
        ):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o644
            tar.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def test_equal_builds_are_accepted(tmp_path: Path) -> None:
    built = WHEELS["built_twice"](archive('os.environ["SOURCE_DATE_EPOCH"]'), "7", tmp_path)
    assert [path.name for path in built.iterdir()] == ["sample-1-py3-none-any.whl"]


@pytest.mark.parametrize("shows", ["os.getcwd()", 'os.stat("backend.py").st_mtime', "os.getpid()"])
def test_a_wheel_that_shows_its_folder_time_or_process_is_refused(
    tmp_path: Path, shows: str
) -> None:
    with pytest.raises(WHEELS["BuildError"], match=r"differ: sample-1-py3-none-any\.whl"):
        WHEELS["built_twice"](archive(shows), "7", tmp_path)


@pytest.mark.slow
def test_wheels_of_the_last_commit_are_reproducible(tmp_path: Path) -> None:
    need("" if (ROOT / ".git").exists() else "not a checkout of git")
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    out = tmp_path / "dist"
    done = ran(sys.executable, ROOT / "packaging/wheels.py", "--out", out, limit_s=300, env=kept)
    assert done.returncode == 0, done.stderr
    sums = (out / "SHA256SUMS").read_text()
    assert sorted(line.split()[1] for line in sums.splitlines()) == sorted(
        path.name for path in out.glob("*.whl")
    )
