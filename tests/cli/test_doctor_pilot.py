"""``bftrainer doctor --state``: the directory, its owner, root, the network interface, Horovod.
Faults are planted in files.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support.command_line import bftrainer, complaint

from bftrainer.config.pilot import WorkersConfig
from bftrainer.console.cli.doctor.pilot_checks import examine_strangers
from bftrainer.decide.domain.checks import CheckStatus
from bftrainer.pilot.persistence.store import DB_NAME, open_store
from bftrainer.system.processes import this_process

CONFIG = "[workers]\nallow_root = true\n"
GOOD = {
    "torch.py": "__version__ = '2.0'",
    "horovod/__init__.py": "__version__ = '0.28.1'",
    "horovod/torch.py": "def gloo_built(): return 1",
}


def doctor(
    path: Path, config: str = CONFIG, changed: dict[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """Exit status and checks by name; modules of ``GOOD``, some ``changed``, are found before the
    installed ones.
    """
    state = path / "state"
    if state.is_dir():
        (state / "bftrainer.toml").write_text(config)
    for name, text in (GOOD | (changed or {})).items():
        (path / "stub" / name).parent.mkdir(parents=True, exist_ok=True)
        (path / "stub" / name).write_text(text)
    done = bftrainer("doctor", "--json", "--state", state, env={"PYTHONPATH": str(path / "stub")})
    assert done.err == ""
    report = json.loads(done.out)
    assert report["ok"] is (done.status == 0)
    for check in report["checks"]:
        assert "\n" not in check["detail"] + check["remedy"]
        assert check["state"] == "OK" or check["remedy"], f"no remedy: {check}"
    return done.status, {check["name"]: check for check in report["checks"]}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    (tmp_path / "state").mkdir(mode=0o700)
    return tmp_path


def test_all_is_well(home: Path) -> None:
    status, checks = doctor(home)
    assert status == 0, checks
    assert "owned by you, mode 700" in checks["state"]["detail"]
    assert checks["config"]["detail"] == "bftrainer.toml: holder trace, policy bftrainer"
    assert checks["journal"]["detail"] == "none yet"
    assert checks["horovod"]["detail"] == "0.28.1 with gloo, torch 2.0"
    assert checks["interface"]["detail"] == (
        "lo has 127.0.0.1, open to 127.0.0.0/8; other addresses are refused when they connect "
        "(no packet filter)"
    )
    assert checks["strangers"]["state"] == "OK"
    assert checks["highs"]["state"] == "OK", "the installation is looked at as before"


@pytest.mark.parametrize(
    ("what", "mode"), [("state", 0o750), ("state", 0o707), (".", 0o770), (".", 0o707)]
)
def test_a_directory_that_others_can_reach_or_replace(home: Path, what: str, mode: int) -> None:
    (home / what).chmod(mode)
    status, checks = doctor(home)
    (home / what).chmod(0o700)
    assert status == 1
    assert checks["state"]["state"] == "BROKEN"
    assert f"has mode {mode:o}" in checks["state"]["detail"]
    assert "mode 700" in checks["state"]["remedy"]


@pytest.mark.root
def test_a_directory_or_parent_of_somebody_else(home: Path) -> None:
    for what in ("state", "."):
        os.chown(home / what, 12345, -1)
        status, checks = doctor(home)
        os.chown(home / what, 0, -1)
        assert status == 1
        assert "belongs to uid 12345" in checks["state"]["detail"]


def test_no_directory(tmp_path: Path) -> None:
    status, checks = doctor(tmp_path)
    assert status == 1
    assert checks["state"]["remedy"].startswith("`bftrainer init --state ")


def test_an_ordinary_users_pilot_below_a_sticky_directory(home: Path) -> None:
    home.chmod(0o1777)
    status, checks = doctor(home, "")
    assert (status, checks["user"]["state"]) == (0, "OK")


@pytest.mark.root
def test_a_pilot_of_roots_needs_the_key(home: Path) -> None:
    status, checks = doctor(home, "")
    assert (status, checks["user"]["state"]) == (0, "WARNING"), (
        "holder trace: workers are processes on this machine"
    )
    status, checks = doctor(home, '[nodes]\nholder = "allocation"\n')
    assert (status, checks["user"]["state"]) == (1, "BROKEN")
    assert "workers.allow_root = true" in checks["user"]["remedy"]
    status, checks = doctor(home)
    assert (status, checks["user"]["state"]) == (0, "WARNING")


@pytest.mark.parametrize(
    ("check", "config", "words"),
    [
        (
            "interface",
            f'{CONFIG}interface = "nope0"\n',
            "interface 'nope0' has no IPv4 address on this host",
        ),
        (
            "interface",
            f'{CONFIG}allow_from = ["10.0.0.0/8"]\n',
            "lo has 127.0.0.1, and workers.allow_from has 10.0.0.0/8",
        ),
        ("interface", f'{CONFIG}allow_from = ["10.0.0.0/99"]\n', "10.0.0.0/99"),
        ("config", "[nodes]\nmax_node = 3\n", "did you mean 'max_nodes'"),
    ],
)
def test_a_configuration_with_an_error(home: Path, check: str, config: str, words: str) -> None:
    status, checks = doctor(home, config)
    assert (status, words in checks[check]["detail"]) == (1, True), checks[check]


@pytest.mark.parametrize(
    ("address", "is_private", "status", "words"),
    [
        ("127.0.0.1", False, CheckStatus.OK, "users of this host are kept out of gloo's groups"),
        (
            "10.0.0.5",
            False,
            CheckStatus.WARNING,
            "kept out of gloo's groups, and NCCL over several nodes is refused",
        ),
        (
            "10.0.0.5",
            True,
            CheckStatus.OK,
            "no other user can reach ib0, and gloo's connections are not checked",
        ),
    ],
)
def test_what_strangers_can_do_at_ports_of_torch(
    address: str, is_private: bool, status: CheckStatus, words: str
) -> None:
    check = examine_strangers(WorkersConfig(interface="ib0", private_interface=is_private), address)
    assert (check.state, words in check.detail) == (status, True), check
    assert ("workers.private_interface = true" in check.remedy) is (status is CheckStatus.WARNING)


@pytest.mark.parametrize(
    ("changed", "state", "words"),
    [
        (
            {"torch.py": "raise ModuleNotFoundError(\"No module named 'torch'\")"},
            "MISSING",
            "No module named 'torch'",
        ),
        (
            {"horovod/torch.py": "raise ImportError('undefined symbol: _ZN5torch')"},
            "BROKEN",
            "undefined symbol",
        ),
        ({"horovod/torch.py": "def gloo_built(): return 0"}, "BROKEN", "built without gloo"),
        ({"horovod/torch.py": "import os; os._exit(3)"}, "BROKEN", "exit status 3"),
    ],
)
def test_a_horovod_that_does_not_work_is_told_and_not_required(
    home: Path, changed: dict[str, str], state: str, words: str
) -> None:
    status, checks = doctor(home, CONFIG, changed)
    assert status == 0
    assert (checks["horovod"]["state"], checks["horovod"]["required"]) == (state, False)
    assert words in checks["horovod"]["detail"]


def test_a_journal_that_is_none(home: Path) -> None:
    (home / "state" / DB_NAME).write_bytes(b"no database, whatever its name says")
    status, checks = doctor(home)
    assert status == 1
    assert "file is not a database" in checks["journal"]["detail"]


def test_who_runs_the_pilot(home: Path) -> None:
    with closing(open_store(home / "state", create=True)) as store:
        store.take_lease(this_process(), "77", 0.0, 60.0, lambda _: None)
    status, checks = doctor(home)
    assert status == 0
    assert f"pilot {os.getpid()} on " in checks["journal"]["detail"]
    assert ", job 77, alive" in checks["journal"]["detail"]


@pytest.mark.root
def test_a_pilot_of_roots_does_not_start_on_a_cluster(home: Path) -> None:
    (home / "state" / "bftrainer.toml").write_text(
        '[nodes]\nholder = "slurm"\n[slurm]\npartition = "x"\n'
    )
    line = complaint(bftrainer("pilot", "--state", home / "state"))
    assert "refusing to run as root: trainings would run as root" in line


def test_the_file_system_its_locks_and_whether_nodes_see_it(home: Path) -> None:
    _, checks = doctor(home)
    assert checks["files"]["state"] == "OK"
    assert checks["locks"]["detail"] == "flock and fcntl work between processes of this host"
    assert "nodes" not in checks, "workers run here"
    assert sorted(path.name for path in (home / "state").iterdir()) == ["bftrainer.toml"], (
        "nothing is left"
    )
    on_slurm = CONFIG + '[nodes]\nholder = "slurm"\n[slurm]\npartition = "p"\n'
    _, checks = doctor(home, on_slurm)
    assert f"to try it: `srun -N1 ls -d {home / 'state'}`" in checks["nodes"]["detail"]
    folder = home / "state" / "holders" / "n7#12"
    folder.mkdir(parents=True)
    (folder / "ready").touch()
    _, checks = doctor(home, on_slurm)
    assert "not tried" in checks["nodes"]["detail"], "the mark is empty before the payload starts"
    (folder / "ready").write_text("1.0\n")
    _, checks = doctor(home, on_slurm)
    assert "1 node, such as n7, see the directory" in checks["nodes"]["detail"]


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        (None, 0, "No such file"),
        ("0123456789abcdef", 0o644, "readable by other users"),
        ("short", 0o600, "expected 16 characters or more"),
        ("0123456789abcdef", 0o600, ""),
    ],
)
def test_the_token_of_a_metrics_port(home: Path, text: str | None, mode: int, words: str) -> None:
    if text is not None:
        (home / "state" / "token").write_text(text)
        (home / "state" / "token").chmod(mode)
    _, checks = doctor(home, CONFIG + '[metrics]\nport = 9817\ntoken_file = "token"\n')
    assert words in checks["metrics"]["detail"]
    assert (checks["metrics"]["state"] == "OK") is (words == "")
    assert words or "port 9817 of 127.0.0.1, with a token" in checks["metrics"]["detail"]
