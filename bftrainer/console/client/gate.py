"""The checks of every submission, from the command line and from Python."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bftrainer.config.pilot import PilotConfig
from bftrainer.config.script import clue, doubt, saves, script_of, text_of
from bftrainer.config.trainer_file import (
    MOST_NAME,
    TrainerSpec,
    fill,
    find_command,
    own_launcher,
    settle,
)
from bftrainer.config.validation import check_table, load_toml, parse_toml
from bftrainer.console.client.secret_names import secrets_in_command, secrets_in_lines
from bftrainer.console.client.state_dir import CONFIG_NAME, read
from bftrainer.console.rehearsal.stamp import require
from bftrainer.errors import CommandError, InputFileError, UserError
from bftrainer.plugin_traits import default_launcher, launcher_traits, site_traits
from bftrainer.plugins import driver_module
from bftrainer.system.command import outcome
from bftrainer.system.own_programs import this_interpreter
from bftrainer.wires.messages import StartedPer

ARGUMENTS = "submit"
"""Where the values of a submission without a file come from, for messages."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A submission that is not validated: the keys of a trainer file.

    ``where`` names their origin in errors; ``cwd`` is relative to ``home``.
    """

    table: Mapping[str, Any]
    where: str
    home: Path
    guessed: str = ""
    """Why its launcher was chosen; empty where it was given."""
    has_default_name: bool = False
    """Whether its name was made from the script's: where that is taken, the name is numbered."""

    @property
    def name(self) -> str:
        """Its name as it was given; empty where there is none yet."""
        return str(self.table.get("name", ""))

    def renamed(self, name: str) -> Draft:
        """The same submission under another name."""
        return replace(self, table={**self.table, "name": name})


def draft(file: Path | None, given: Mapping[str, Any], assignments: Iterable[str] = ()) -> Draft:
    """Make a draft from the keys of a trainer file, overridden by ``given`` and by ``KEY=VALUE``
    lines of TOML.
    """
    table = {} if file is None else load_toml(file)
    for text in assignments:
        given = {**given, **parse_toml(text, f"--set {text}")}
    # A cwd of the file is relative to the file, one that is given here to the present directory.
    home = Path.cwd() if file is None or given.get("cwd") is not None else file.absolute().parent
    return Draft({**table, **given}, ARGUMENTS if file is None else str(file), home)


def _python() -> str:
    """The interpreter of an active environment; Debian has no ``python`` outside of one."""
    return next(filter(shutil.which, ("python", "python3")), this_interpreter())


def script_draft(
    script: Path, arguments: Sequence[str], given: Mapping[str, Any], assignments: Iterable[str]
) -> Draft:
    """Make a draft from a Python script: it is named after its file, and the launcher is guessed
    from its text.
    """
    if (text := text_of(Path(given.get("cwd") or "", script))) is None:
        raise UserError(
            f"{script} does not exist, or cannot be read; expected a Python script or a "
            "trainer file"
        )
    default_name = (
        re.sub(r"[^A-Za-z0-9._-]+", "-", script.stem).lstrip("._-")[:MOST_NAME] or "script"
    )
    script_clue = clue(text)
    command = [_python(), str(script), *arguments]
    inferred = {"launcher": default_launcher() if script_clue is None else script_clue.launcher}
    made = draft(None, {**inferred, **given, "command": command}, assignments)
    if not made.name:
        made = replace(made.renamed(default_name), has_default_name=True)
    if not {"max_nodes", "max_gpus"} & made.table.keys():
        raise UserError(
            f"submit: --max-nodes is missing; expected for example: bftrainer submit {script} "
            "--max-nodes 4"
        )
    max_nodes = made.table.get("max_nodes")
    if "constant_batch(" in text and "sizes" not in made.table and isinstance(max_nodes, int):
        sizes = _powers_of_two(made.table.get("min_nodes", 1), max_nodes)
        largest = max(sizes, default=max_nodes)
        made = replace(made, table={**made.table, "sizes": sizes, "max_nodes": largest})
    if (
        script_clue is not None
        and "launcher" not in given
        and made.table["launcher"] == script_clue.launcher
    ):
        return replace(made, guessed=f"{script} uses {script_clue.word}")
    return made


def _powers_of_two(least: int, largest: int) -> list[int]:
    """The sizes at which a constant global batch can be divided among the workers."""
    return [2**n for n in range(largest.bit_length()) if 2**n >= least]


def checked(trainer_draft: Draft, environment: Mapping[str, str]) -> TrainerSpec:
    """Validate a draft and return its trainer.

    Raises :class:`~bftrainer.errors.UserError`, also for a launcher that is not installed.
    """
    spec = fill(
        check_table(dict(trainer_draft.table), TrainerSpec, trainer_draft.where),
        trainer_draft.where,
    )
    driver_module(spec.launcher, trainer_draft.where)
    return settle(spec, trainer_draft.where, trainer_draft.home, environment)


class Gate:
    """Checks submissions to one state directory, whose configuration is read once.

    ``note`` is called with what is odd but allowed, once for each text.
    """

    def __init__(self, folder: Path, note: Callable[[str], None]) -> None:
        self._folder = folder
        self._config: PilotConfig = read(folder)
        self._is_configured = (folder / CONFIG_NAME).exists()
        self._notes_given: set[str] = set()
        self._imports: dict[tuple[str, str], bool] = {}
        self._tell = note

    def passed(self, drafts: Sequence[Draft]) -> tuple[TrainerSpec, ...]:
        """Validate drafts and return their trainers. Raises :class:`~bftrainer.errors.UserError`
        for the first that cannot be submitted.
        """
        return tuple(map(self._passed, drafts))

    def _passed(self, trainer_draft: Draft) -> TrainerSpec:
        """Validate one draft, make all checks and notes, and return its trainer."""
        where = trainer_draft.where
        spec = checked(trainer_draft, os.environ)
        if self._config.workers.require_rehearsal:
            require(self._folder, spec, where)
        self._check_launcher(spec, where)
        self._check_unit(spec, where)
        self._note_script(spec, where)
        self._note_trackers(spec, where)
        self._note_secrets(spec, where)
        self._note_unknown_class(spec, self._config.classes, where)
        return spec

    def _note(self, text: str) -> None:
        if text not in self._notes_given:
            self._notes_given.add(text)
            self._tell(text)

    def _check_launcher(self, spec: TrainerSpec, where: str) -> None:
        """Reject a trainer that its launcher could only let fail, once it has nodes, or that the
        pilot does not allow.
        """
        own = own_launcher(spec)
        traits = launcher_traits(spec.launcher)
        if own and traits.allows_group_programs:
            what = (
                "starts a group of its own on each node: expected --launcher and a worker's "
                "command, or max_nodes = 1"
            )
            if spec.max_nodes > 1:
                self._note(f"{where}: command: {own} {what}")
        elif own:
            raise InputFileError(
                f"{where}: command",
                f"begins with {own}, but launcher = {spec.launcher!r} starts the workers "
                "itself; expected the command of "
                'one worker, such as ["python", "train.py"]',
            )
        self._check_image(spec, where)
        permission = traits.permission
        if permission is not None and not getattr(self._config.workers, permission.key):
            problem = (
                f"{spec.launcher!r} {permission.risk}, and the pilot's configuration does not "
                f"allow it; use launcher = {permission.instead!r}, or set "
                f"workers.{permission.key} (docs/security.md)"
            )
            if self._is_configured:
                raise InputFileError(f"{where}: launcher", problem)
            # A pilot may have its configuration elsewhere.
            self._note(f"{where}: launcher: {problem}")

    def _check_image(self, spec: TrainerSpec, where: str) -> None:
        """Reject an image that the pilot's site cannot run."""
        if not self._is_configured or not spec.image:
            return
        suffix = Path(spec.image).suffix
        if problem := site_traits(self._config.nodes.holder).refused_images.get(suffix):
            raise InputFileError(f"{where}: image", f"a {suffix} file {problem}")

    def _check_unit(self, spec: TrainerSpec, where: str) -> None:
        """Reject a trainer that counts nodes where the pilot counts GPUs, or vice versa."""
        unit = self._config.nodes.unit
        if self._is_configured and unit is not spec.grain:
            raise InputFileError(
                where,
                f'the pilot has nodes.unit = "{unit}": expected {unit.size_key}, '
                f"found {spec.grain.size_key}",
            )
        instead = launcher_traits(spec.launcher).on_whole_nodes_only
        if unit.divides_nodes and instead:
            raise InputFileError(
                f"{where}: launcher",
                f"{spec.launcher!r} knows no GPUs of shared nodes; use {instead!r}",
            )

    def _note_script(self, spec: TrainerSpec, where: str) -> None:
        """Note what is odd about the SCRIPT of a command `python SCRIPT`.

        It may not exist (yet), not import bftrainer in its environment, not fit the launcher, or
        name no checkpoint.
        """
        if (script := script_of(spec.command)) is None:
            return
        if (text := text_of(spec.cwd / script)) is None:
            if not (spec.cwd / script).exists():
                self._note(f"{where}: command: {script} does not exist in {spec.cwd}")
            return
        if re.search(r"^\s*(from|import) bftrainer\b", text, re.MULTILINE):
            self._note_interpreter(spec, script, where)
        if spec.started_per is StartedPer.WORKER:
            workers = spec.max_nodes * (spec.slots or 1)
            if problem := doubt(clue(text), spec.launcher, workers):
                self._note(f"{where}: launcher: {script} {problem}")
            elif not saves(text):
                what = (
                    "names no checkpoint, so that all of its work is repeated when its nodes leave"
                )
                self._note(
                    f"{where}: {script} {what}; `bftrainer adapt {script}` prints what it needs"
                )

    def _note_interpreter(self, spec: TrainerSpec, script: str, where: str) -> None:
        """Note that the script's interpreter cannot import bftrainer, as the script does.

        Usually the environment with bftrainer is not active.
        """
        program = find_command(spec.command[0], spec.cwd, spec.env)
        if program is None or spec.setup or spec.image:  # only the worker can tell
            return
        if not self._can_import(program, "bftrainer", spec.env):
            what = (
                f"{program} cannot import bftrainer, as {script} does; activate its "
                "environment, or give"
            )
            self._note(f"{where}: command: {what} `-- {this_interpreter()} {script}`")

    def _note_trackers(self, spec: TrainerSpec, where: str) -> None:
        """Note the trackers whose package the script's interpreter cannot import.

        The training would run, and nothing of it would be in the tracker.
        """
        if not spec.trackers or script_of(spec.command) is None:
            return
        program = find_command(spec.command[0], spec.cwd, spec.env)
        if program is None or spec.setup or spec.image:  # only the worker can tell
            return
        for tracker in spec.trackers:
            if not self._can_import(program, tracker, spec.env):
                self._note(
                    f"{where}: trackers: {program} cannot import {tracker}, so nothing would be "
                    f"mirrored to it; install {tracker} there"
                )

    def _can_import(self, program: str, package: str, environment: Mapping[str, str]) -> bool:
        """Whether an interpreter can import a package; each is asked once."""
        key = program, package
        if key not in self._imports:
            self._imports[key] = _can_import(program, package, environment)
        return self._imports[key]

    def _note_secrets(self, spec: TrainerSpec, where: str) -> None:
        """Note what looks like a secret in plain text, where a file that only the user can read
        would do.
        """
        for key, lines in (("setup", spec.setup), ("stage_in", spec.stage_in)):
            for name in secrets_in_lines(lines):
                self._note(
                    f"{where}: {key}: {name} looks like a secret, and the state directory "
                    "keeps the line; "
                    f'better from a file of mode 0600: export {name}="$(cat FILE)"'
                )
        for option in secrets_in_command(spec.command):
            self._note(
                f"{where}: command: {option} looks like a secret, and all users of a host see "
                "its command lines (ps); "
                "pass the path of a file of mode 0600"
            )

    def _note_unknown_class(self, spec: TrainerSpec, classes: Collection[str], where: str) -> None:
        """Note a node class that the configuration does not name.

        Usually that is a typo, but a trainer may wait for nodes with other hardware.
        """
        if classes and spec.node_class not in (None, *classes):
            names = ", ".join(sorted(classes))
            self._note(
                f"{where}: node_class: {spec.node_class!r} is not a class of the pilot's "
                f"configuration ({names}); "
                "the trainer waits for a node with that hardware"
            )


def _can_import(program: str, package: str, environment: Mapping[str, str]) -> bool:
    """Whether an interpreter can import a package; True if that cannot be found out, since the
    worker will tell.
    """
    if package == "bftrainer" and Path(program).parent == Path(this_interpreter()).parent:
        return True
    # The package may take seconds to be imported; its place in the path is enough.
    test = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    with suppress(CommandError):
        argv = [program, "-c", test]
        return outcome(argv, timeout_s=20.0, env=environment, cwd="/").status == 0
    return True  # the worker will tell
