"""Build the wheels of a release, each twice, and compare them byte by byte: ``make wheels``.

The source is the commit HEAD, not the working tree. The two copies of it lie in different folders,
with different times and permissions of their files, which no wheel may show. SOURCE_DATE_EPOCH is
the time of the commit. With ``--out dist``, the wheels are left there, with
their SHA-256 in ``SHA256SUMS``.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = (".", "packaging/train")
"""Folders with a pyproject.toml, each of which makes one wheel."""


class BuildError(Exception):
    """A command failed, or two builds differ."""


def run(*command: str, **variables: str) -> bytes:
    """Standard output of a command; if it fails, the last line of its errors as an exception."""
    done = subprocess.run(  # noqa: S603  # our own arguments
        command, env=os.environ | variables, capture_output=True, check=False
    )
    if done.returncode != 0:
        last_line = done.stderr.decode().strip().rpartition("\n")[2]
        raise BuildError(f"{' '.join(command)}: {last_line}")
    return done.stdout


def git(*arguments: str) -> bytes:
    """Output of git in this checkout, whoever owns it."""
    return run("git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments)


def unpack(archive: bytes, folder: Path) -> None:
    """Lay out the files of a tar archive."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")


def make_different(folder: Path) -> None:
    """Change what a clone at another time by another user would have different."""
    for path in folder.rglob("*"):
        if path.is_file():
            executable = path.stat().st_mode & 0o111
            path.chmod(0o700 if executable else 0o600)
            os.utime(path, (1_000_000_000, 1_000_000_000))


def build(source: Path, out: Path, epoch: str) -> None:
    """Build the wheel of every project in a copy of the repository."""
    variables = {"SOURCE_DATE_EPOCH": epoch, "BFTRAINER_RELEASE": "1"}
    for project in PROJECTS:
        folder = source / project
        if not (folder / "pyproject.toml").exists():
            continue
        options = ("--no-deps", "--no-build-isolation", "--no-cache-dir", "--quiet")
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel")
        run(*pip, *options, "--wheel-dir", str(out), str(folder), **variables)


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 by file name."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
    }


def built_twice(archive: bytes, epoch: str, scratch: Path) -> Path:
    """The folder of the first build, which the second one equals."""
    for name in ("first", "second"):
        source = scratch / f"{name}-source"
        unpack(archive, source)
        if name == "second":
            make_different(source)
        (scratch / name).mkdir()
        build(source, scratch / name, epoch)
    first, second = digests(scratch / "first"), digests(scratch / "second")
    if first != second:
        names = sorted(name for name in first | second if first.get(name) != second.get(name))
        raise BuildError(f"two builds differ: {', '.join(names)}")
    return scratch / "first"


def main() -> int:
    """Return 0 if all builds are equal, 1 with one line if they are not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="a folder for the wheels, emptied first")
    options = parser.parse_args()
    try:
        archive = git("archive", "--format=tar", "HEAD")
        epoch = git("log", "-1", "--format=%ct", "HEAD").decode().strip()
        with tempfile.TemporaryDirectory(prefix="bftrainer-wheels.") as scratch:
            wheels = built_twice(archive, epoch, Path(scratch))
            sums = digests(wheels)
            if options.out is not None:
                shutil.rmtree(options.out, ignore_errors=True)
                shutil.copytree(wheels, options.out)
                lines = [f"{digest}  {name}\n" for name, digest in sums.items()]
                (options.out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    except (BuildError, FileNotFoundError) as error:
        print(f"wheels: {error}", file=sys.stderr)
        return 1
    for name, digest in sums.items():
        print(f"{digest}  {name}: two builds are equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
