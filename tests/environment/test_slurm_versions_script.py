""".ci/slurm-versions.sh without a network: a fake apt-get stands for apt, and fails where $FAIL says so."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from patience import PATIENCE

ROOT = Path(__file__).parents[2]
SCRIPT = "slurm-versions.sh"
APT = """\
#!/bin/sh
case "$1" in
    indextargets)
        echo "Other mirror.example/other sid"; echo "Debian mirror.example/security x-security"
        echo "Debian mirror.example/debian x" ;;
    *) cat "$APT_CONFIG" "${APT_CONFIG%/*}/sources.list" >>"$SEEN"; [ "$2" != "$FAIL" ] ;;
esac
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".ci").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / ".ci" / SCRIPT, tmp_path / ".ci")
    for name, text in (("apt-get", APT), ("dpkg", "#!/bin/sh\n"), ("patchelf", "#!/bin/sh\n")):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "key.gpg").write_text("")
    script = (tmp_path / ".ci" / SCRIPT).read_text()
    (tmp_path / ".ci" / SCRIPT).write_text(
        script.replace("key=/usr/share/keyrings/debian-archive-keyring.gpg", "key=$KEY")
    )
    return tmp_path


def run(project: Path, action: str, **environment: str) -> subprocess.CompletedProcess[str]:
    dropped = ("CI", "WITHOUT_SLURM_VERSIONS", "BFTRAINER_CACHE", "DEBIAN_MIRROR")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    env = {
        **kept, "PATH": f"{project}/bin:{kept['PATH']}", "KEY": str(project / "key.gpg"), "SEEN": str(project / "seen"),
        **environment,
    }  # fmt: skip
    argv = ["sh", f".ci/{SCRIPT}", action]
    return subprocess.run(
        argv, cwd=project, env=env, capture_output=True, text=True, timeout=60 * PATIENCE, check=False
    )


def test_it_says_beforehand_what_it_fetches(project: Path) -> None:
    told = run(project, "plan").stdout
    assert "Debian trixie" in told
    assert "Debian sid" in told
    assert "MB" in told
    assert "skipped" in run(project, "plan", WITHOUT_SLURM_VERSIONS="1").stdout


def test_offline_its_tests_are_skipped_and_in_ci_that_is_an_error(project: Path) -> None:
    done = run(project, "install", FAIL="update")
    assert done.returncode == 0
    assert "could not read trixie's package list" in done.stderr
    assert "will be skipped" in done.stderr
    done = run(project, "install", FAIL="update", CI="true")
    assert done.returncode == 1
    assert "error in CI" in done.stderr
    assert not [path for path in (project / ".cache").iterdir() if path.is_dir()], "nothing half done is left"


def test_packages_come_from_this_machines_mirror_and_are_verified_against_debians_keys(project: Path) -> None:
    run(project, "install", FAIL="install")
    seen = (project / "seen").read_text()
    assert f"deb [signed-by={project}/key.gpg] mirror.example/debian trixie main" in seen
    assert 'AllowUnauthenticated "false"' in seen
    assert 'AllowInsecureRepositories "false"' in seen
    (project / "seen").unlink()
    run(project, "install", FAIL="install", DEBIAN_MIRROR="near.example/debian")
    assert "near.example/debian trixie main" in (project / "seen").read_text()


@pytest.mark.parametrize(("lost", "words"), [("patchelf", "patchelf is not installed"), ("key.gpg", "Debian's keys")])
def test_what_is_missing_is_named(project: Path, lost: str, words: str) -> None:
    for path in (project / lost, project / "bin" / lost):
        path.unlink(missing_ok=True)
    tools = project / "tools"
    tools.mkdir()
    for name in ("sh", "dirname", "cat", "awk", "mkdir", "rm"):
        found = shutil.which(name)
        assert found
        (tools / name).symlink_to(found)
    done = run(project, "install", CI="true", PATH=f"{project}/bin:{tools}")
    assert done.returncode == 1
    assert words in done.stderr
