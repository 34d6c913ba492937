"""Plug-ins: policies and launchers by entry point, objectives and policies by
``module:function``.
"""

from __future__ import annotations

import math
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from inspect import signature
from types import ModuleType
from typing import Any

from bftrainer.decide.allocation.objectives import OBJECTIVES, Objective, from_function
from bftrainer.decide.domain.ports import Policy
from bftrainer.decide.policies.gather import Gathered
from bftrainer.decide.policies.guard import Guarded
from bftrainer.decide.policies.settings import PolicySettings
from bftrainer.errors import UnknownNameError, UserError
from bftrainer.plugin_traits import LAUNCHER_GROUP as LAUNCHER_GROUP
from bftrainer.plugin_traits import SITE_GROUP as SITE_GROUP

POLICY_GROUP = "bftrainer.policies"


def installed_names(group: str) -> tuple[str, ...]:
    """The names of all installed policies, launchers or sites, sorted."""
    return tuple(sorted(_installed_entries(group)))


@lru_cache  # reads the entry points of all packages: 5 ms
def driver_module(launcher: str, where: str = "") -> str:
    """The module of a launcher's driver, run as ``python -P -m MODULE TRAINER_DIR``. Raises
    ``UnknownNameError``.
    """
    points = _installed_entries(LAUNCHER_GROUP)
    if launcher not in points:
        raise UnknownNameError("launcher", launcher, points, where)
    return points[launcher].value


def load_site(name: str) -> object:
    """The ``bftrainer.cluster.site_plugin.SitePlugin`` of an installed site. Raises ``UserError``
    if it cannot be imported.
    """
    points = _installed_entries(SITE_GROUP)
    if name not in points:
        raise UnknownNameError("holder", name, points)
    point = points[name]
    try:
        return point.load()
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise UserError(
            f"site {name!r} ({point.value}) cannot be loaded: {problem}; reinstall its package"
        ) from error


def build_policy(name: str, settings: PolicySettings) -> Policy:
    """The policy of an entry point, or of a ``module:function`` that takes :class:`PolicySettings`.

    Parameters of the policy may follow the name: ``modelarts-optimal?cap=64&gap=0.01``.
    ``guard_hours=6`` wraps the policy in the starvation guard, ``gather_s=1`` gathers arrivals, as
    ``settings.guard_h`` and ``settings.gather_s`` do.
    """
    name, settings = _with_parameters(name, settings)
    builder: Callable[[PolicySettings], Policy]
    if ":" in name:
        builder = _load_function("policy", name)
    else:
        policies = _installed_entries(POLICY_GROUP)
        if name not in policies:
            raise UnknownNameError("policy", name, policies)
        builder = policies[name].load()
    policy = _built_policy(builder, settings)
    if settings.guard_h is not None:
        policy = Guarded(policy, settings.guard_h * 3600)
    return Gathered(policy, settings.gather_s) if settings.gather_s else policy


def _with_parameters(name: str, settings: PolicySettings) -> tuple[str, PolicySettings]:
    """The bare name, and the settings with the parameters that followed it."""
    name, _, text = name.partition("?")
    options = dict(settings.options)
    for part in text.split("&") if text else ():
        key, _, value = part.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not key or not math.isfinite(number):
            raise UserError(
                f"policy {name!r}: parameter {part!r}, expected NAME=NUMBER, like guard_hours=6"
            )
        options[key] = number
    guard_h = options.pop("guard_hours", settings.guard_h)
    if guard_h is not None and guard_h <= 0:
        raise UserError(f"policy {name!r}: guard_hours={guard_h:g}, expected hours above 0")
    gather_s = options.pop("gather_s", settings.gather_s)
    if gather_s < 0:
        raise UserError(f"policy {name!r}: gather_s={gather_s:g}, expected seconds, 0 or more")
    return name, replace(
        settings, options=tuple(options.items()), guard_h=guard_h, gather_s=gather_s
    )


def _built_policy(builder: Callable[..., Policy], settings: PolicySettings) -> Policy:
    """Call a builder with the settings; a class whose arguments all have defaults is built without
    arguments.
    """
    if isinstance(builder, type):
        parameters = signature(builder).parameters.values()
        if all(
            parameter.default is not parameter.empty
            or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
            for parameter in parameters
        ):
            built: Policy = builder()
            return built
    return builder(settings)


def find_objective(name: str) -> Objective:
    """The objective of this name, or a user's ``module:function`` of (trainer, n)."""
    if ":" in name:
        return from_function(name, _load_function("objective", name))
    if name not in OBJECTIVES:
        raise UnknownNameError("objective", name, OBJECTIVES)
    return OBJECTIVES[name]


def _installed_entries(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}


def import_for_user(name: str, where: str) -> ModuleType:
    """Import the module that a user names: an installed one, else one in the working directory.

    The working directory becomes the last place that is searched, and only for a module which is
    nowhere else. Others may write there: none of its files may take the place of an installed
    module that is imported later. Raises ``UserError``, which begins with ``where``, whatever the
    module itself raises.
    """
    try:
        if find_spec(name.partition(".")[0]) is None and "" not in sys.path:
            sys.path.append("")
        return import_module(name)
    except Exception as error:
        raise UserError(f"{where}: cannot import {name!r} ({error_of_user(error)})") from error


def error_of_user(error: Exception) -> str:
    """An error that a user's module raised, in one line, with the place that raised it."""
    text = " ".join(str(error).split())
    # ValueError: an empty name, or a module that has no spec. A SyntaxError names its place itself.
    if isinstance(error, ImportError | ValueError | SyntaxError):
        return text
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {text:.200}, at {last.filename}:{last.lineno}"


def _load_function(kind: str, name: str) -> Callable[..., Any]:
    """The function of ``module:function``."""
    module_name, _, function_name = name.partition(":")
    module = import_for_user(module_name, f"{kind} {name!r}")
    function = getattr(module, function_name, None)
    if not callable(function):
        raise UserError(
            f"{kind} {name!r}: module {module_name!r} has no function {function_name!r}"
        )
    loaded: Callable[..., Any] = function
    return loaded
