"""The checks of every submission, from the command line and from Python."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bftrainer.config.pilot import PilotConfig
from bftrainer.config.script import (
    OwnImport,
    launcher_clue,
    launcher_doubt,
    own_import,
    saves,
    script_of,
    text_of,
)
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
_NO_PACKAGE = 3
"""The exit status of an interpreter that finds no such package; a traceback's is 1."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A submission that is not validated: the keys of a trainer file, in ``table``.

    ``where`` names their origin in errors. A relative ``cwd`` is relative to ``home``.
    """

    table: Mapping[str, Any]
    where: str
    home: Path
    launcher_reason: str = ""
    """Why its launcher was chosen; empty where the launcher was given."""
    has_default_name: bool = False
    """Whether its name was made from the script's: where that is taken, the name is numbered."""

    @property
    def name(self) -> str:
        """Its name as it was given; empty where there is none yet."""
        return str(self.table.get("name", ""))

    def renamed(self, name: str) -> Draft:
        """Return a copy of the draft with another trainer name."""
        return replace(self, table={**self.table, "name": name})


def draft(file: Path | None, keys: Mapping[str, Any], assignments: Iterable[str] = ()) -> Draft:
    """Make a draft from a trainer file, whose keys are overridden by ``keys``, and these by
    ``assignments``: ``KEY=VALUE`` lines of TOML.
    """
    table = {} if file is None else load_toml(file)
    overrides = dict(keys)
    for text in assignments:
        overrides |= _assigned(text)
    if file is None:
        return Draft(overrides, ARGUMENTS, Path.cwd())
    # A cwd of the file is relative to the file, an override to the present directory.
    has_cwd_override = overrides.get("cwd") is not None
    home = Path.cwd() if has_cwd_override else file.absolute().parent
    return Draft({**table, **overrides}, str(file), home)


def _assigned(text: str) -> dict[str, Any]:
    """Parse the value of ``--set``. Raises ``InputFileError``, with an example for text without
    quotes.
    """
    where = f"--set {text}"
    try:
        return parse_toml(text, where)
    except InputFileError as error:
        key, equals, value = text.partition("=")
        example = f"'{key.strip()}=\"{value.strip()}\"'" if equals else "'priority=2'"
        raise InputFileError(
            where, f"is not KEY=VALUE in TOML, where text has quotes, as in --set {example}"
        ) from error


def _active_python() -> str:
    """The interpreter of an active environment; Debian has no ``python`` outside of one."""
    return next(filter(shutil.which, ("python", "python3")), this_interpreter())


def script_draft(
    script: Path, arguments: Sequence[str], keys: Mapping[str, Any], assignments: Iterable[str]
) -> Draft:
    """Make a draft from a Python script with its arguments. ``keys`` and ``assignments`` are those
    of :func:`draft`; where they do not say otherwise, the trainer is named after the script's file,
    and its launcher is guessed from the script's text.

    Raises ``UserError`` if the script cannot be read, or the largest size is missing.
    """
    text = text_of(Path(keys.get("cwd") or "", script))
    if text is None:
        raise UserError(
            f"{script} does not exist, or cannot be read; expected a Python script or a "
            "trainer file"
        )
    script_clue = launcher_clue(text)
    launcher = default_launcher() if script_clue is None else script_clue.launcher
    command = [_active_python(), str(script), *arguments]
    result = draft(None, {"launcher": launcher, **keys, "command": command}, assignments)
    if not result.name:
        result = replace(result.renamed(_default_name(script)), has_default_name=True)
    if not {"max_nodes", "max_gpus"} & result.table.keys():
        raise UserError(
            f"submit: --max-nodes is missing; expected for example: bftrainer submit {script} "
            "--max-nodes 4"
        )
    if "constant_batch(" in text:
        result = _with_constant_batch_sizes(result)
    if (
        script_clue is not None
        and "launcher" not in keys
        and result.table["launcher"] == script_clue.launcher
    ):
        return replace(result, launcher_reason=f"{script} uses {script_clue.word}")
    return result


def _default_name(script: Path) -> str:
    """Return a trainer's name for a script: that of its file, with the characters of names only."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", script.stem).lstrip("._-")
    return name[:MOST_NAME] or "script"


def _with_constant_batch_sizes(base: Draft) -> Draft:
    """Return the draft of a script with a constant global batch, with the powers of two as its
    sizes: at these, the batch can be divided among the workers.

    Given sizes, and sizes in GPUs, are left as they are.
    """
    max_nodes = base.table.get("max_nodes")
    if "sizes" in base.table or not isinstance(max_nodes, int):
        return base
    min_nodes = base.table.get("min_nodes", 1)
    sizes = [2**n for n in range(max_nodes.bit_length()) if 2**n >= min_nodes]
    largest = max(sizes, default=max_nodes)
    return replace(base, table={**base.table, "sizes": sizes, "max_nodes": largest})


def checked(trainer_draft: Draft, environment: Mapping[str, str]) -> TrainerSpec:
    """Validate a draft and return its trainer; ``environment`` has the variables that it inherits.

    Raises :class:`~bftrainer.errors.UserError`, also for a launcher that is not installed.
    """
    where = trainer_draft.where
    spec = fill(check_table(dict(trainer_draft.table), TrainerSpec, where), where)
    driver_module(spec.launcher, where)  # raises if it is not installed
    return settle(spec, where, trainer_draft.home, environment)


class Gate:
    """Checks submissions to one state directory, whose configuration is read once.

    ``note`` is called with remarks on submissions that are odd but allowed, once for each text.
    """

    def __init__(self, folder: Path, note: Callable[[str], None]) -> None:
        self._folder = folder
        self._config: PilotConfig = read(folder)
        self._is_configured = (folder / CONFIG_NAME).exists()
        self._note_texts: set[str] = set()
        # By interpreter, package, and the folders of the script and of the process.
        self._imports: dict[tuple[str, str, Path, Path], bool | None] = {}
        self._write_note = note

    def passed(self, drafts: Sequence[Draft]) -> tuple[TrainerSpec, ...]:
        """Validate drafts and return their trainers. Raises :class:`~bftrainer.errors.UserError`
        for the first that cannot be submitted.
        """
        return tuple(map(self._validated_trainer, drafts))

    def _validated_trainer(self, trainer_draft: Draft) -> TrainerSpec:
        """Validate one draft, make all checks and notes, and return its trainer."""
        where = trainer_draft.where
        spec = checked(trainer_draft, os.environ)
        if self._config.workers.require_rehearsal:
            require(self._folder, spec, where)
        self._check_launcher(spec, where)
        self._check_unit(spec, where)
        self._check_script(spec, where)
        self._note_trackers(spec, where)
        self._note_secrets(spec, where)
        self._note_unknown_class(spec, self._config.classes, where)
        return spec

    def _write_note_once(self, text: str) -> None:
        """Write a note, unless it was written before: the trials of a sweep have the same ones."""
        if text not in self._note_texts:
            self._note_texts.add(text)
            self._write_note(text)

    def _check_launcher(self, spec: TrainerSpec, where: str) -> None:
        """Reject a trainer that its launcher could only let fail, once it has nodes, or that the
        pilot does not allow. Raises ``InputFileError``.
        """
        traits = launcher_traits(spec.launcher)
        group_program = own_launcher(spec)  # of the command itself
        if group_program and not traits.allows_group_programs:
            raise InputFileError(
                f"{where}: command",
                f"begins with {group_program}, but launcher = {spec.launcher!r} starts the "
                "workers itself; expected the command of "
                'one worker, such as ["python", "train.py"]',
            )
        if group_program and spec.max_nodes > 1:
            self._write_note_once(
                f"{where}: command: {group_program} starts a group of its own on each node: "
                "expected --launcher and a worker's command, or max_nodes = 1"
            )
        self._check_image(spec, where)
        self._check_permission(spec, where)

    def _check_permission(self, spec: TrainerSpec, where: str) -> None:
        """Reject a launcher with a risk that the pilot's configuration does not allow.

        Without a configuration in the state directory, the pilot may have one elsewhere: then it is
        a note.
        """
        permission = launcher_traits(spec.launcher).permission
        if permission is None or getattr(self._config.workers, permission.key):
            return
        problem = (
            f"{spec.launcher!r} {permission.risk}, and the pilot's configuration does not "
            f"allow it; use launcher = {permission.instead!r}, or set "
            f"workers.{permission.key} (docs/security.md)"
        )
        if self._is_configured:
            raise InputFileError(f"{where}: launcher", problem)
        self._write_note_once(f"{where}: launcher: {problem}")

    def _check_image(self, spec: TrainerSpec, where: str) -> None:
        """Reject an image that the pilot's site cannot run."""
        if not self._is_configured or not spec.image:
            return
        suffix = Path(spec.image).suffix
        problem = site_traits(self._config.nodes.holder).refused_images.get(suffix)
        if problem:
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

    def _check_script(self, spec: TrainerSpec, where: str) -> None:
        """Reject a command `python SCRIPT` whose interpreter cannot import bftrainer as the script
        does. Note what else is odd: the script does not exist (yet), does not fit the launcher, or
        names no checkpoint.
        """
        script = script_of(spec.command)
        if script is None:
            return
        text = text_of(spec.cwd / script)
        if text is None:
            if not (spec.cwd / script).exists():
                self._write_note_once(f"{where}: command: {script} does not exist in {spec.cwd}")
            return
        if own := own_import(text, _folder_of(spec)):
            self._check_interpreter(spec, script, own, where)
        if spec.started_per is not StartedPer.WORKER:
            return
        worker_count = spec.max_nodes * (spec.slots or 1)
        problem = launcher_doubt(launcher_clue(text), spec.launcher, worker_count)
        if problem:
            self._write_note_once(f"{where}: launcher: {script} {problem}")
        elif not saves(text):
            self._write_note_once(
                f"{where}: {script} names no checkpoint, so that all of its work is repeated when "
                f"its nodes leave; `bftrainer adapt {script}` prints what it needs"
            )

    def _check_interpreter(
        self, spec: TrainerSpec, script: str, own: OwnImport, where: str
    ) -> None:
        """Reject a command whose interpreter cannot import the package that the script imports
        first. Raises ``InputFileError``.

        Usually the environment with bftrainer is not active. A ``setup``, a ``stage_in`` or an
        image may provide the package later: only the worker can tell. An import that is not the
        first thing may never be reached, its failure be handled, or Python's path be extended
        before: there, and where the interpreter gives no answer, it is a note.
        """
        program = find_command(spec.command[0], spec.cwd, spec.env)
        if program is None or spec.setup or spec.stage_in or spec.image:
            return
        can_import = self._can_import(program, own.package, spec)
        if can_import:
            return
        if can_import is None:
            self._write_note_once(
                f"{where}: command: {program} does not say whether it can import {own.package}, "
                f"as {script} does; the first worker will tell"
            )
            return
        arguments = shlex.join(["--", this_interpreter(), script])
        problem = (
            f"{program} cannot import {own.package}, as {script} does; activate its "
            f"environment, or end the command with `{arguments}` in place of the script"
        )
        if own.is_first:
            raise InputFileError(f"{where}: command", problem)
        self._write_note_once(f"{where}: command: {problem}")

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
            if self._can_import(program, tracker, spec) is False:
                self._write_note_once(
                    f"{where}: trackers: {program} cannot import {tracker}, so nothing would be "
                    f"mirrored to it; install {tracker} there"
                )

    def _can_import(self, program: str, package: str, spec: TrainerSpec) -> bool | None:
        """Whether an interpreter can import a package where a trainer's script is; None if that is
        not known. Each is asked once.
        """
        folder = _folder_of(spec)
        key = program, package, folder, spec.cwd
        if key not in self._imports:
            self._imports[key] = _can_import(program, package, spec, folder)
        return self._imports[key]

    def _note_secrets(self, spec: TrainerSpec, where: str) -> None:
        """Note values in shell lines and in the command that look like secrets in plain text."""
        for key, lines in (("setup", spec.setup), ("stage_in", spec.stage_in)):
            for name in secrets_in_lines(lines):
                self._write_note_once(
                    f"{where}: {key}: {name} looks like a secret, and the state directory "
                    "keeps the line; "
                    f'better from a file of mode 0600: export {name}="$(cat FILE)"'
                )
        for option in secrets_in_command(spec.command):
            self._write_note_once(
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
            self._write_note_once(
                f"{where}: node_class: {spec.node_class!r} is not a class of the pilot's "
                f"configuration ({names}); "
                "the training waits for a node with that hardware"
            )


def _folder_of(spec: TrainerSpec) -> Path:
    """Return the folder that Python puts first into the path of modules: that of the script, where
    a link to the script points; the working directory without a script.
    """
    script = script_of(spec.command)
    return spec.cwd if script is None else Path(os.path.realpath(spec.cwd / script)).parent


def _can_import(program: str, package: str, spec: TrainerSpec, folder: Path) -> bool | None:
    """Whether an interpreter can import a package from a script in ``folder``; None if that cannot
    be found out: it gives no answer, or is no Python 3.

    It runs where the worker will, because PYTHONPATH may have relative entries.
    """
    if package == "bftrainer" and Path(program).parent == Path(this_interpreter()).parent:
        return True
    # The package may take seconds to be imported; its place in the path is enough.
    test = (
        "import importlib.util, sys; sys.path[:] = [sys.argv[1], *filter(None, sys.path)]; "
        f"sys.exit({_NO_PACKAGE} if importlib.util.find_spec({package!r}) is None else 0)"
    )
    argv = [program, "-c", test, str(folder)]
    try:
        status = outcome(argv, timeout_s=20.0, env=spec.env, cwd=str(spec.cwd)).status
    except CommandError:
        return None
    return {0: True, _NO_PACKAGE: False}.get(status)
