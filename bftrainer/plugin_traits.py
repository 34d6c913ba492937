"""Facts about launchers and sites that commands need before they load one.

A package states them in a module ``traits`` beside the module that its entry point names: a table
``LAUNCHERS`` or ``SITES`` by name. For ``mine = "my_package.driver"`` that is
``my_package.traits.LAUNCHERS["mine"]``. Such a module imports nothing but this one. Without it, or
if it cannot be imported, the defaults here hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import TypeVar

LAUNCHER_GROUP = "bftrainer.launchers"
SITE_GROUP = "bftrainer.sites"


@dataclass(frozen=True, slots=True)
class ScriptClue:
    """Text by which a script shows that it is written for a launcher: a regular expression for
    ``re.MULTILINE``, whose groups are quoted to the user. Clues of lower ``rank`` are looked for
    first.
    """

    pattern: str
    rank: int = 100


@dataclass(frozen=True, slots=True)
class Permission:
    """What the configuration of the pilot has to allow for a launcher: the key of ``[workers]``,
    why, and the launcher that needs none.
    """

    key: str
    risk: str
    instead: str


@dataclass(frozen=True, slots=True)
class PackageProbe:
    """Python code that imports what a launcher needs and prints ``[detail, problem, remedy]`` in
    JSON, the last two empty if all is well. ``remedy`` is for code that fails.
    """

    name: str
    code: str
    remedy: str


@dataclass(frozen=True, slots=True)
class LauncherTraits:
    """What commands know of a launcher."""

    is_default: bool = False
    """Whether it starts trainers whose files name no launcher."""
    is_pool: bool = False
    """Whether its workers form no group: a node that joins costs a start, and no other node
    stalls.
    """
    starts_scripts_for: tuple[str, ...] = ()
    """The launchers whose clues fit this one as well. Empty: scripts are not judged."""
    clue: ScriptClue | None = None
    group_programs: tuple[str, ...] = ()
    """Programs that start such a group of workers by themselves. A launcher that starts the workers
    must not start one.
    """
    group_modules: tuple[str, ...] = ()
    """The same as modules: ``python -m MODULE``."""
    starts_single_workers: bool = False
    """Whether a trainer's command is that of one worker, so that a program that starts groups is a
    mistake.
    """
    allows_group_programs: bool = False
    """Whether that is allowed all the same, on one node."""
    permission: Permission | None = None
    on_whole_nodes_only: str = ""
    """The launcher to use for single GPUs instead; empty if this one can have them."""
    step_hint: str = ""
    """How its scripts report steps, if not by ``report.step``."""
    probe: PackageProbe | None = None


@dataclass(frozen=True, slots=True)
class SiteTraits:
    """What commands know of a site before it is loaded."""

    is_default: bool = False
    """Whether it is the site of a configuration that names none."""
    paths: tuple[str, ...] = ()
    """Keys of its table that are paths, relative to the configuration file."""
    holds_gpus: bool = False
    """Whether it can hold single GPUs of a node (``nodes.unit = "gpu"``)."""
    shows_pilots: bool = False
    """Whether it shows the pilots of other users."""
    refused_images: Mapping[str, str] = field(default_factory=dict)
    """Why workers cannot have images whose names end so."""
    keys_to_set: Mapping[str, str] = field(default_factory=dict)
    """Keys of its table that most users of the site set, and what they decide: ``bftrainer init``
    writes them as comments where it has no value for them.
    """
    try_on_node: str = "{} on a node"
    """How a user runs a command on a node."""


Traits = TypeVar("Traits", LauncherTraits, SiteTraits)


@lru_cache(maxsize=64)
def launcher_traits(name: str) -> LauncherTraits:
    """The traits of a launcher, installed or not."""
    return all_launchers().get(name, LauncherTraits())


@lru_cache(maxsize=64)
def site_traits(name: str) -> SiteTraits:
    """The traits of a site, installed or not."""
    return all_sites().get(name, SiteTraits())


@lru_cache(maxsize=1)
def all_launchers() -> Mapping[str, LauncherTraits]:
    """The traits of every installed launcher, by name."""
    return _all_traits(LAUNCHER_GROUP, "LAUNCHERS", LauncherTraits())


@lru_cache(maxsize=1)
def all_sites() -> Mapping[str, SiteTraits]:
    """The traits of every installed site, by name."""
    return _all_traits(SITE_GROUP, "SITES", SiteTraits())


@lru_cache(maxsize=1)
def default_launcher() -> str:
    """The launcher of a trainer that names none; empty if none is installed."""
    return next((name for name, traits in all_launchers().items() if traits.is_default), "")


@lru_cache(maxsize=1)
def default_site() -> str:
    """The site of a configuration that names none; empty if none is installed."""
    return next((name for name, traits in all_sites().items() if traits.is_default), "")


def _all_traits(group: str, table: str, default: Traits) -> dict[str, Traits]:
    # The import takes 20 ms, which most commands do not spend.
    from importlib.metadata import entry_points

    modules = {point.name: point.value.partition(":")[0] for point in entry_points(group=group)}
    return {name: _plugin_traits(modules[name], table, name, default) for name in sorted(modules)}


def _plugin_traits(module: str, table: str, name: str, default: Traits) -> Traits:
    """Return a plug-in's traits; the default if its package cannot be imported or has none."""
    package = module.rpartition(".")[0]
    if not package:
        return default
    try:
        traits = getattr(import_module(f"{package}.traits"), table, {}).get(name, default)
    except Exception:  # of somebody else's package: using the plug-in itself reports it
        return default
    return traits if isinstance(traits, type(default)) else default
