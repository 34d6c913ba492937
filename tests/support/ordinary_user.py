"""Tests run as an ordinary user of this machine, also if root starts pytest: as root a refused
permission does not show.

Root's pytest starts two others at once: one as the user NAME, with a new HOME, and one as root for
the tests marked ``root``, which prints when both have ended. The last lines sum both. The account
NAME is made once and stays. If others may not enter the folder of the checkout or of Python, the
user's pytest sees it at the same path in a mount namespace of its own. An ordinary user's pytest
skips the tests marked ``root``.
"""

from __future__ import annotations

import json
import os
import pwd
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pytest

from support.data import data_folder
from support.left_out import LeftOut
from support.slurm_versions import CACHE

NAME = "bftrainer-tests"
ROOT = Path(__file__).resolve().parents[2]
PART, COUNTS = "BFTRAINER_TESTS_PART", "BFTRAINER_TESTS_COUNTS"
"""Variables of the two that root's pytest starts: "user" or "root", and the file for the numbers of
its tests. What it left out is in a file beside that.
"""
LEFT_OUT = ".left-out"
KINDS = (
    "failed",
    "passed",
    "skipped",
    "deselected",
    "xfailed",
    "xpassed",
    "warnings",
    "error",
    "rerun",
)
NO_TESTS = pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """As root: both parts. None: go on as the user who runs this."""
    only_shows = (
        "help",
        "version",
        "collectonly",
        "showfixtures",
        "show_fixtures_per_test",
        "markers",
        "cacheshow",
    )
    if (
        os.geteuid() != 0
        or PART in os.environ
        or any(config.getoption(name, None) for name in only_shows)
    ):
        return None
    if reason := _why_not():
        if os.environ.get("CI"):
            raise pytest.UsageError(
                f"CI runs tests as an ordinary user, and here it cannot: {reason}"
            )
        print(f"Every test runs as root: {reason}.")
        return None
    return _both(config)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    part = os.environ.get(PART, "")
    if part:
        items[:] = [
            item for item in items if bool(item.get_closest_marker("root")) == (part == "root")
        ]
    elif os.geteuid() != 0:
        for item in items:
            if item.get_closest_marker("root"):
                item.add_marker(pytest.mark.skip(reason="needs root"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if path := os.environ.get(COUNTS):
        counts = {kind: len(terminalreporter.stats.get(kind, ())) for kind in KINDS}
        Path(path).write_text(json.dumps(counts))
        stats = terminalreporter.stats
        LeftOut.of(stats.get("skipped", ()), stats.get("rerun", ())).write(Path(path + LEFT_OUT))


def _why_not() -> str:
    if absent := [name for name in ("useradd", "setpriv") if shutil.which(name) is None]:
        return f"{', '.join(absent)} not found"
    for _ in range(10):  # another process may hold the lock of /etc/passwd
        made = _said("useradd", "--no-create-home", NAME)
        if made.returncode in (0, 9):  # 9: there already
            break
        time.sleep(1)
    else:
        return made.stderr.strip()
    tried = _said(
        *_as_user(
            sys.executable,
            "-c",
            f"import pytest, bftrainer; open({str(ROOT / 'tests/conftest.py')!r})",
        )
    )
    return (
        ""
        if tried.returncode == 0
        else f"the user {NAME} cannot use {ROOT}: {tried.stderr.strip().splitlines()[-1]}"
    )


def _said(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False, cwd="/")


def _both(config: pytest.Config) -> int:
    started_s = time.monotonic()
    arguments, counted = [str(each) for each in config.invocation_params.args], Counter[str]()
    left_out = LeftOut()
    files, given = list(_with_tests_of_root(config.args)), set(config.getoption("file_or_dir"))
    options = [each for each in arguments if each not in given]
    if config.getoption("numprocesses", None):
        options += ["-n", "1"]
    if report := config.getoption("xmlpath"):
        Path(report).parent.mkdir(parents=True, exist_ok=True)
        Path(report).touch()
        shutil.chown(report, NAME)
        options += [f"--junitxml={Path(report).with_suffix('.root.xml')}"]
    with (
        ThreadPoolExecutor(1) as beside,
        tempfile.TemporaryFile("w+") as said,
    ):  # root's tests mostly wait
        root = (
            beside.submit(_part, "root", [*options, *files], counted, left_out, said)
            if files
            else None
        )
        statuses = {_part("user", arguments, counted, left_out)}
        if root is not None:
            statuses.add(root.result())
            said.seek(0)
            print(f"\nas root, the tests that need it: {len(files)} files\n{said.read()}")
            shown = (
                ", ".join(f"{counted[kind]} {kind}" for kind in KINDS if counted[kind])
                or "no tests ran"
            )
            print(f" {shown} in {time.monotonic() - started_s:.2f}s ".center(80, "="))
            for line in left_out.lines():
                print(line)
    return int(max(statuses - {NO_TESTS}, default=NO_TESTS))


def _with_tests_of_root(arguments: Iterable[str]) -> Iterator[str]:
    for each in arguments:
        path = Path(each.partition("::")[0])
        files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
        found = [file for file in files if "pytest.mark.root" in file.read_text(encoding="utf-8")]
        yield from (each,) if found and not path.is_dir() else map(str, found)


def _part(
    part: str,
    arguments: list[str],
    counted: Counter[str],
    left_out: LeftOut,
    out: IO[str] | None = None,
) -> int:
    """The status of one of the two; its numbers and what it left out are added. ``out``: where it
    prints.
    """
    argv, env = [sys.executable, "-m", "pytest", *arguments], {**os.environ, PART: part}
    with tempfile.TemporaryDirectory(prefix="bftrainer-home.") as home:
        if part == "user":
            shutil.chown(home, NAME, NAME)
            env = {
                name: value for name, value in env.items() if not name.startswith(("SUDO_", "XDG_"))
            }
            env |= {"HOME": home, "USER": NAME, "LOGNAME": NAME}
            for name in (
                ".hypothesis",
                ".mypy_cache",
                ".pytest_cache",
            ):  # tools write there, and nowhere else in the checkout
                (ROOT / name).mkdir(exist_ok=True)
                subprocess.run(["chown", "-R", f"{NAME}:", ROOT / name], check=True)
            argv = _as_user(*argv)
        else:
            argv = [*uncovered(), *argv, "-o", f"cache_dir={home}"]
            env["HYPOTHESIS_STORAGE_DIRECTORY"] = home
        counts = Path(home) / ".counts"
        status = subprocess.run(
            argv, env={**env, COUNTS: str(counts)}, stdout=out, stderr=out, check=False
        ).returncode
        counted.update(json.loads(counts.read_text()) if counts.exists() else {})
        left_out.add(LeftOut.read(Path(f"{counts}{LEFT_OUT}")))
    return status


def _as_user(*argv: str) -> list[str]:
    """The user runs this command; what others may not enter is uncovered for it, see
    :func:`_uncover`.
    """
    own = pwd.getpwnam(NAME)
    return [
        *uncovered(),
        "setpriv",
        f"--reuid={own.pw_uid}",
        f"--regid={own.pw_gid}",
        "--init-groups",
        *argv,
    ]


def uncovered() -> list[str]:
    """A command begins with it; empty if nothing is hidden from ordinary users. Root's tests start
    jobs of theirs.
    """
    script = _uncover(
        {
            path.resolve()
            for path in (ROOT, Path(sys.base_prefix), data_folder(), CACHE)
            if path.exists()
        }
    )
    return (
        ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh"]
        if script
        else []
    )


def restart_uncovered() -> None:
    """This program starts again where the ordinary users whose jobs it starts can read its
    files.
    """
    if (hidden := uncovered()) and "BFTRAINER_UNCOVERED" not in os.environ:
        os.execvpe(
            hidden[0],
            [*hidden, sys.executable, *sys.argv],
            {**os.environ, "BFTRAINER_UNCOVERED": "1"},
        )


def _uncover(needed: set[Path]) -> str:
    """A shell script: over each folder that hides some of these lies an empty one, and in it, at
    the same path, they do.
    """
    closed = {
        above
        for path in needed
        for above in (path, *path.parents)
        if not above.stat().st_mode & 0o001
    }
    covered = {path for path in closed if closed.isdisjoint(path.parents)}
    kept = sorted(path for path in needed if not covered.isdisjoint((path, *path.parents)))
    if not kept:
        return ""
    lines = ["keep=$(mktemp -d)"]
    for number, path in enumerate(map(str, kept)):
        lines.append(f"mkdir $keep/{number} && mount --bind {shlex.quote(path)} $keep/{number}")
    lines.insert(1, "mount -t tmpfs tmpfs $keep")
    lines += [
        f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(str(path))}" for path in sorted(covered)
    ]
    for number, path in enumerate(kept):
        at = shlex.quote(str(path))
        bind = f"mount --bind $keep/{number} {at}"
        if path in closed:  # by its own mode, so only what it holds
            bind = (
                f"ls -A $keep/{number} | while read -r name; do it=$keep/{number}/$name; "
                f"to={at}/$name; {_BIND}; done"
            )
        lines.append(f"mkdir -p {at} && {bind}")
    return "\n".join([*lines, "umount --lazy $keep && rmdir $keep", 'exec "$@"'])


_BIND = 'if [ -d "$it" ]; then mkdir "$to"; else : >"$to"; fi; mount --bind "$it" "$to"'
