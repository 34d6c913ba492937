"""A real Slurm and Elastic Horovod for the tests that want them.

``lab`` is one cluster per test process, empty at the start of each test.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from support.minutes import pytest_runtest_makereport as pytest_runtest_makereport
from support.minutes import pytest_terminal_summary as pytest_terminal_summary
from support.needs import need
from support.oar_lab import Lab as OarLab
from support.oar_lab import missing_oar
from support.oar_lab import started as started_oar
from support.promises import PromiseBrokenError
from support.slurm_accounting import missing_accounting
from support.slurm_lab import Lab, Settings
from support.slurm_versions import INSTALLED, VERSIONS, SlurmVersion

pytest_plugins = ["support.left_out", "support.ordinary_user"]
# pytest-xdist sets it for its workers. Commands of the tests write into pipes, which have no width.
os.environ.pop("COLUMNS", None)


def need_accounting(version: SlurmVersion) -> None:
    """The same for slurmdbd and MariaDB."""
    need(version.missing() or missing_accounting(version))


def need_slurm(version: SlurmVersion = INSTALLED) -> None:
    """Skip, visibly, where this Slurm is missing; in CI that is a failure."""
    need(version.missing())


def started(settings: Settings, version: SlurmVersion = INSTALLED) -> Iterator[Lab]:
    """A cluster with these settings, and its end."""
    need_slurm(version)
    # Not pytest's tmp_path: the path of a socket has 107 letters at most.
    folder = Path(tempfile.mkdtemp(prefix="bftrainer-slurm."))
    lab = Lab(folder, settings, version)
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()
        left = lab.processes()
        shutil.rmtree(folder, ignore_errors=True)
        assert not left, f"processes of the cluster are left: {left}"


def _without_horovod() -> str:
    try:
        import horovod.torch  # noqa: F401
    except ImportError as error:
        return f"{error}; sh .ci/horovod.sh install builds it"
    return ""


@pytest.fixture(scope="session")
def elastic_horovod() -> None:
    """Skip, visibly, where Elastic Horovod is missing; in CI that is a failure."""
    need(_without_horovod())


settings.register_profile(
    "patient", parent=settings(), deadline=None
)  # a slow machine is no counterexample
settings.load_profile("patient")

# A shell's background job ignores SIGINT, and nohup SIGHUP. Every program that a test starts would
# inherit that.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

# Databases sync at each write: on a disk, tests wait for that a third of their time.
_MEMORY = Path("/dev/shm")
if (
    "TMPDIR" not in os.environ
    and os.access(_MEMORY, os.W_OK)
    and not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC
    and shutil.disk_usage(_MEMORY).free > 4e9
):
    os.environ["TMPDIR"] = str(_MEMORY)
    tempfile.tempdir = None

DAEMONS = frozenset({"slurm_version", "elastic_horovod", "browser"})
"""Fixtures of real Slurm clusters, groups of workers and browsers: see ``slow`` in
pyproject.toml.
"""
REAL = frozenset(
    {
        "contract",
        "drivers",
        "horovod",
        "live",
        "lsf",
        "oar",
        "record",
        "rehearsal",
        "slurm",
        "torchrun",
    }
)
"""Folders whose tests run other programs against the clock."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slurm",
        choices=[*VERSIONS],
        help="run every test that needs a Slurm on this one, and only on it",
    )


def pytest_report_header() -> str:
    return "Slurm: " + ", ".join(
        f"{name} {version.number or 'missing'}" for name, version in VERSIONS.items()
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests with the mark ``every_slurm`` run on each version or on those that it names, others on
    the default.

    The default's parameter is None, as for tests without one, so that they share one cluster.
    """
    mark = metafunc.definition.get_closest_marker("every_slurm")
    if mark is not None and "slurm_version" in metafunc.fixturenames:
        default = _default_version(metafunc.config)
        names = [default] if metafunc.config.getoption("--slurm") else [*(mark.args or VERSIONS)]
        values = [
            pytest.param(None if name == default else name, marks=_marks_of_version(name, names))
            for name in names
        ]
        metafunc.parametrize("slurm_version", values, ids=names, indirect=True, scope="session")


def _marks_of_version(name: str, names: list[str]) -> list[pytest.MarkDecorator]:
    """Mark a version between the oldest and the newest one as nightly."""
    return [] if name in (names[0], names[-1]) else [pytest.mark.nightly]


def _has_daemon(item: pytest.Item) -> bool:
    of_case = getattr(item, "callspec", None)
    cases = [] if of_case is None else [str(value) for value in of_case.params.values()]
    contract = "contract" in item.path.parts and any(case.startswith("slurm") for case in cases)
    return contract or not DAEMONS.isdisjoint(getattr(item, "fixturenames", ()))


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A story on a real machine is told a second time if it fails, unless a promise was broken:
    decision 6.
    """
    for item in items:
        if _has_daemon(item) or item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.slow)
        real = not REAL.isdisjoint(item.path.parts) or item.get_closest_marker("slow")
        drawn = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        if real and not drawn:
            item.add_marker(pytest.mark.flaky(reruns=1, rerun_except=[PromiseBrokenError.__name__]))


@pytest.fixture(scope="session")
def slurm_version(request: pytest.FixtureRequest) -> SlurmVersion:
    """The version that a test runs on: see :func:`pytest_generate_tests`."""
    return VERSIONS[getattr(request, "param", None) or _default_version(request.config)]


def _default_version(config: pytest.Config) -> str:
    return config.getoption("--slurm") or INSTALLED.name


@pytest.fixture(scope="session")
def running_lab(slurm_version: SlurmVersion) -> Iterator[Lab]:
    yield from started(Settings(), slurm_version)


@pytest.fixture
def lab(running_lab: Lab) -> Iterator[Lab]:
    """Eight idle nodes; whatever a test leaves is canceled."""
    yield running_lab
    running_lab.tidy_up()


@pytest.fixture(scope="module")
def site_lab(slurm_version: SlurmVersion) -> Iterator[Lab]:
    """Eight nodes for everybody, and two more for pilots, in a partition of their own."""
    yield from started(Settings(service=2), slurm_version)


@pytest.fixture(scope="session")
def oar_lab() -> Iterator[OarLab]:
    """A live OAR with eight nodes, for root's tests; each test leaves it empty."""
    need(missing_oar())
    yield from started_oar()
