"""What commands know of launchers and sites before they load them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bftrainer import plugin_traits
from bftrainer.config.pilot import PilotConfig, WorkersConfig
from bftrainer.config.trainer_file import TrainerSpec
from bftrainer.plugin_traits import LauncherTraits, SiteTraits, launcher_traits, site_traits
from bftrainer.plugins import LAUNCHER_GROUP, SITE_GROUP, installed_names

CACHED = (
    plugin_traits.launcher_traits,
    plugin_traits.site_traits,
    plugin_traits.all_launchers,
    plugin_traits.all_sites,
    plugin_traits.default_launcher,
    plugin_traits.default_site,
)
TRAITS = """
from bftrainer.plugin_traits import LauncherTraits, SiteTraits
LAUNCHERS = {"mine": LauncherTraits(is_pool=True)}
SITES = {"ours": SiteTraits(try_on_node="run {}"), "strange": "not traits"}
"""


def forget() -> None:
    for function in CACHED:
        function.cache_clear()


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages, of which the names of plug-ins are forgotten at the end."""
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    yield tmp_path
    forget()


def install(packages: Path, name: str, entry_points: str, traits: str | None = None) -> None:
    """A package with a driver and a site, as pip leaves it."""
    (packages / name).mkdir()
    (packages / name / "__init__.py").touch()
    if traits is not None:
        (packages / name / "traits.py").write_text(traits)
    record = packages / f"{name}-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(entry_points)


def test_the_defaults_are_those_of_the_first_training() -> None:
    assert PilotConfig().nodes.holder == "trace"
    spec = TrainerSpec(name="a", command=("python", "a.py"), max_nodes=1)
    assert (spec.launcher, spec.is_pool) == ("restart", False)
    assert [n for n in installed_names(LAUNCHER_GROUP) if launcher_traits(n).is_default] == [
        "restart"
    ]
    assert [n for n in installed_names(SITE_GROUP) if site_traits(n).is_default] == ["trace"]


def test_a_permission_is_a_key_of_workers() -> None:
    keys = {
        traits.permission.key
        for traits in plugin_traits.all_launchers().values()
        if traits.permission is not None
    }
    assert keys == {"allow_stock_horovodrun"}
    assert keys <= WorkersConfig.model_fields.keys()


def test_another_package_describes_its_launcher_and_its_site(packages: Path) -> None:
    entry_points = (
        f"[{LAUNCHER_GROUP}]\nmine = theirs.driver\nbare = theirs_driver\n"
        f"[{SITE_GROUP}]\nours = theirs.site:SITE\nstrange = theirs.site:SITE\n"
    )
    install(packages, "theirs", entry_points, TRAITS)
    assert launcher_traits("mine") == LauncherTraits(is_pool=True)
    assert TrainerSpec(name="a", command=("x",), max_nodes=1, launcher="mine").is_pool
    assert site_traits("ours").try_on_node == "run {}"
    assert site_traits("strange") == SiteTraits()
    assert launcher_traits("bare") == launcher_traits("unknown") == LauncherTraits()
    assert launcher_traits("horovod").starts_single_workers, "those of others stay"


@pytest.mark.parametrize("traits", [None, "import a_module_that_is_missing", "1 / 0", "x = ("])
def test_a_package_without_traits_or_with_broken_ones_has_the_defaults(
    packages: Path, traits: str | None
) -> None:
    install(packages, "broken", f"[{LAUNCHER_GROUP}]\nmine = broken.driver\n", traits)
    assert launcher_traits("mine") == LauncherTraits()
    assert plugin_traits.default_launcher() == "restart"
