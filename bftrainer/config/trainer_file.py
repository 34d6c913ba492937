"""Trainer files: TOML in, :class:`TrainerSpec` out. ``trainer()`` is the part that the coordinator
sees.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from bftrainer.config.parameters import as_text, filled, problem_with
from bftrainer.config.validation import ConfigTable, read_toml
from bftrainer.decide.domain.model import Curve, Learning, Trainer
from bftrainer.decide.domain.stopping import parse_rule
from bftrainer.errors import InputFileError, InvalidValueError
from bftrainer.plugin_traits import all_launchers, default_launcher, launcher_traits
from bftrainer.scaling import Scaling
from bftrainer.slots import Grain
from bftrainer.wires.messages import StartedPer

MOST_NAME = 64
"""Characters of a name."""
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MOST_NAME - 1}}}")
# Bounds, so that no product or quotient of them overflows: decisions multiply rates, priorities and
# times.
MOST_RATE = 1e15
"""Samples per second, on any number of nodes."""
Positive = Annotated[float, Field(ge=1e-9, le=1e9, allow_inf_nan=False)]
"""A time in seconds, or a factor."""
NotNegative = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=0, le=MOST_RATE, allow_inf_nan=False)]
Samples = Annotated[float, Field(ge=1e-9, le=1e21, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]


class CurveTable(ConfigTable):
    """Measured throughput: ``samples_per_s`` on ``nodes`` nodes (or on as many ``gpus``), linear in
    between.
    """

    nodes: Annotated[tuple[Count, ...], Field(validation_alias=AliasChoices("nodes", "gpus"))]
    samples_per_s: tuple[Rate, ...]

    @model_validator(mode="after")
    def _check(self) -> CurveTable:
        Curve(self.nodes, self.samples_per_s)
        return self


class TrainerSpec(ConfigTable):
    """The keys of a trainer file."""

    name: str
    """Name of the trainer, unique within a pilot: letters, digits, dots, dashes, underscores."""
    command: Annotated[tuple[str, ...], Field(min_length=1)]
    """Command of a worker, as a list (no shell). Shell lines go into ``setup``."""
    launcher: str = Field(default_factory=default_launcher)
    """How workers are started: restart, horovod, horovodrun, torchrun, torchft, pool or another
    installed launcher.
    """
    min_gpus: Count | None = None
    max_gpus: Count | None = None
    """Instead of min_nodes and max_nodes, for a pilot with nodes.unit = "gpu": all counts are GPUs,
    with one worker each.
    """
    min_nodes: Count = Field(default=1, validate_default=True)
    max_nodes: Count = Field(default=None, validate_default=True)
    sizes: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """Legal node counts, if not every count from min_nodes to max_nodes is legal."""
    slots: Count | None = None
    """Workers per node. Default: the pilot's ``nodes.slots``."""
    curve: CurveTable | None = None
    samples_per_s: Annotated[Rate, Field(gt=0)] | None = None
    """Instead of a curve: samples per second on one node; throughput is assumed to grow
    linearly.
    """
    model: str | None = None
    """Name of the model. Measured throughput is kept under this name for the next trainer of the
    same model and user.
    """
    samples_total: Samples | None = None
    """Total work in samples. Without it, the trainer is done when its command exits with status
    0.
    """
    scale_up_s: NotNegative = 20.0
    scale_down_s: NotNegative = 10.0
    start_s: NotNegative | None = None
    """Time in which new nodes start while the old ones train on; ``scale_up_s`` is then the stall
    at the switch.
    """
    priority: NotNegative = 1.0
    fill: bool = True
    """Launcher ``pool``: take only nodes that no training uses. ``false``: share them with the
    trainings, by ``priority``.
    """
    requested_nodes: Count | None = None
    """Nodes it would request from an ordinary queue. Policies with fixed sizes allocate this
    many.
    """
    reports_loss: bool = False
    """Whether progress reports include ``loss``. Policies that use the loss reject trainers without
    it.
    """
    cwd: Path = Path()
    """Working directory of the command, relative to where ``submit`` ran."""
    inherit: tuple[str, ...] = (
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LC_*",
        "TZ",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "VIRTUAL_ENV",
        "CONDA_*",
        "MODULEPATH",
        "BASH_ENV",
    )
    """Environment variables (patterns) copied from the environment of ``submit``."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables to set."""
    setup: tuple[str, ...] = ()
    """Shell lines to run before the command of every worker: ``module load ...``, ``conda activate
    ...``.
    """
    image: str | None = None
    """Container of the workers: a ``.sif`` file for Apptainer, or a ``.sqsh`` file for Slurm's
    pyxis.
    """
    stage_in: tuple[str, ...] = ()
    """Shell lines to run once per fragment before its first worker, to copy data to the node."""
    started_per: StartedPer = StartedPer.WORKER
    scaling: Scaling | None = None
    """How the global batch follows the number of nodes. Default: as the script says, else weak."""
    global_batch: Count | None = None
    stop_s: Positive = 30.0
    """Seconds for the final checkpoint after a request to stop; then the workers are killed."""
    hang_s: Positive | None = None
    """Seconds without a report after which a worker counts as hung. Default: the pilot's
    ``workers.hang_s``.
    """
    first_step_s: Positive | None = None
    """Seconds from a worker's start to the first report, after which it counts as hung. Default:
    the pilot's ``workers.first_step_s``, for scripts that report.
    """
    stop_signal: str | None = None
    """Signal that requests a checkpoint and exit, for programs that do not read the control
    file.
    """
    group: str | None = None
    """Group of trainers that this one belongs to, such as a sweep."""
    parameters: dict[str, str] = Field(default_factory=dict)
    """Values of the placeholders in ``command`` and ``env``, by name."""
    stop_when: tuple[str, ...] = ()
    """Rules that end the trainer early: "loss>2@1000" (at 1,000 samples), "asha(min loss, 1000,
    27000, 3)" within its group.
    """
    notify: tuple[str, ...] = ()
    """Command that is told when the trainer is done, fails or starves, instead of the pilot's
    ``notices.on_event``.
    """
    trackers: tuple[Literal["wandb", "mlflow", "tensorboard"], ...] = ()
    """Where the reports of the script are mirrored."""
    node_class: str | None = None
    """Class of nodes to run on, such as "4 a100" or a class of the pilot. Default: any class, one
    at a time.
    """

    @field_validator("min_nodes", "max_nodes", mode="before")
    @classmethod
    def _counts_of_gpus(cls, value: object, info: ValidationInfo) -> object:
        """Take ``min_nodes`` and ``max_nodes`` from ``min_gpus`` and ``max_gpus`` where the latter
        is set: all sizes then count GPUs. A written spec has both, with equal values, and can be
        read again; other values beside ``max_gpus`` are errors.
        """
        assert info.field_name is not None
        if info.data.get("max_gpus") is None:
            if value is None:
                raise PydanticCustomError("missing", "Field required")
            return value
        gpus = info.data[info.field_name.replace("nodes", "gpus")] or 1
        allowed = [None, gpus]
        if info.field_name == "min_nodes":
            allowed.append(1)  # its default, whether it was set or not
        if value not in allowed:
            raise InvalidValueError("max_gpus counts GPUs; remove this key, or max_gpus")
        return gpus

    @field_validator("command", mode="before")
    @classmethod
    def _command(cls, command: object) -> object:
        if not isinstance(command, list | tuple) or not command:
            raise InvalidValueError(
                f'expected a list like ["python", "train.py"], got {command!r:.60}'
            )
        return tuple(command)

    @field_validator("env", mode="before")
    @classmethod
    def _strings(cls, env: object) -> object:
        """Reject numbers and booleans as values of environment variables."""
        for key, value in env.items() if isinstance(env, dict) else ():
            if isinstance(value, bool | int | float):
                text = str(value).lower() if isinstance(value, bool) else value
                raise InvalidValueError(
                    f'{key}: expected a string, got {text}; write {key} = "{text}"'
                )
        return env

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        """Reject names that cannot be the name of a directory."""
        if not NAME.fullmatch(name):
            raise InvalidValueError(
                "expected up to 64 letters, digits, dots, dashes and underscores, starting "
                "with a letter or digit; "
                f"got {name!r:.100}"
            )
        return name

    @field_validator("parameters", mode="before")
    @classmethod
    def _texts(cls, parameters: object) -> object:
        if not isinstance(parameters, dict):
            return parameters
        return {key: as_text(value) for key, value in parameters.items()}

    @field_validator("parameters")
    @classmethod
    def _parameters(cls, parameters: dict[str, str]) -> dict[str, str]:
        if problem := problem_with(parameters):
            raise InvalidValueError(problem)
        return parameters

    @field_validator("model", "group")
    @classmethod
    def _model(cls, name: str | None) -> str | None:
        return None if name is None else cls._name(name)

    @field_validator("stop_when")
    @classmethod
    def _stop_when(cls, rules: tuple[str, ...]) -> tuple[str, ...]:
        for rule in rules:
            parse_rule(rule)
        return rules

    @field_validator("env")
    @classmethod
    def _env(cls, variables: dict[str, str]) -> dict[str, str]:
        """Reject names that no environment variable can have."""
        for name in variables:
            if not name or "=" in name:
                raise InvalidValueError(
                    f"expected names without = for environment variables, got {name!r:.60}"
                )
        return variables

    @field_validator("stop_signal")
    @classmethod
    def _signal(cls, name: str | None) -> str | None:
        """Reject names of signals that do not exist, or that no program can handle."""
        valid = [s.name for s in signal.Signals if s.name not in ("SIGKILL", "SIGSTOP")]
        if name is not None and name not in valid:
            raise InvalidValueError(
                f"expected a signal's name like SIGUSR1 or SIGTERM, got {name!r}"
            )
        return name

    @model_validator(mode="after")
    def _check(self) -> TrainerSpec:
        """Reject keys that contradict one another, and trainers that break a rule of the model."""
        if self.curve is not None and self.samples_per_s is not None:
            raise InvalidValueError(
                "expected a [curve], or samples_per_s (on one node), or neither; got both"
            )
        if self.max_gpus is not None and self.slots is not None:
            raise InvalidValueError("max_gpus starts one worker for each GPU; remove slots")
        if self.min_gpus is not None and self.max_gpus is None:
            raise InvalidValueError("min_gpus needs max_gpus")
        node_rate = self.samples_per_s or 0
        if node_rate * self.max_nodes > MOST_RATE:
            raise InvalidValueError(
                f"samples_per_s {node_rate:g} on {self.max_nodes} nodes is more than "
                f"{MOST_RATE:g} samples per second"
            )
        if self.scaling is Scaling.STRONG and self.global_batch is None:
            raise InvalidValueError('scaling = "strong" needs global_batch')
        self.trainer()  # Only for its errors: the model checks its own rules.
        return self

    def trainer(self) -> Trainer:
        """Return the trainer as the coordinator sees it. Raises InvalidValueError for one that
        breaks a rule of the model.
        """
        return Trainer(
            id=self.name,
            curve=self._curve(),
            min_nodes=self.min_nodes,
            max_nodes=self.max_nodes,
            scale_up_s=0.0 if self.is_pool else self.scale_up_s,
            scale_down_s=0.0 if self.is_pool else self.scale_down_s,
            samples_total=self.samples_total,
            priority=self.priority,
            sizes=self.sizes,
            model=self.model or "",
            requested_nodes=self.requested_nodes,
            reports_loss=self.reports_loss,
            node_class=self.node_class,
            start_s=self.scale_up_s if self.is_pool and self.start_s is None else self.start_s,
            fill=self.is_pool and self.fill,
            learning=Learning(blank=True) if self.is_blank else None,
        )

    @property
    def grain(self) -> Grain:
        """What its sizes count: nodes or GPUs."""
        return Grain.NODE if self.max_gpus is None else Grain.GPU

    @property
    def is_pool(self) -> bool:
        """Whether its workers form no group: a node that joins costs a start, and no other node
        stalls.
        """
        return launcher_traits(self.launcher).is_pool

    @property
    def is_blank(self) -> bool:
        """Whether neither a curve nor a rate is given, so that throughput must be measured."""
        return self.curve is None and self.samples_per_s is None

    def _curve(self) -> Curve:
        """Return the curve of the file, or a line through the rate of one node; without both, a
        placeholder.
        """
        if self.curve is not None:
            return Curve(self.curve.nodes, self.curve.samples_per_s)
        nodes = (1,) if self.max_nodes == 1 else (1, self.max_nodes)
        return Curve(nodes, tuple((self.samples_per_s or 1.0) * n for n in nodes))


def read_trainer_file(path: Path) -> TrainerSpec:
    """Read and validate a trainer file. Raises :class:`InputFileError`."""
    return read_toml(path, TrainerSpec)


def fill(spec: TrainerSpec, where: str) -> TrainerSpec:
    """Return the spec with the placeholders of its command and environment replaced; without
    parameters, the spec itself.

    Raises :class:`InputFileError` for an unknown placeholder, and for a parameter that has none.
    """
    if not spec.parameters:
        return spec
    used: set[str] = set()
    values = {**spec.parameters, "name": spec.name}
    if spec.group:
        values["group"] = spec.group
    command = tuple(
        filled(word, values, f"{where}: command.{i}", used) for i, word in enumerate(spec.command)
    )
    env = {key: filled(text, values, f"{where}: env.{key}", used) for key, text in spec.env.items()}
    for name in spec.parameters:
        if name not in used:
            raise InputFileError(
                f"{where}: parameters",
                f"{name!r} is not used: expected {{{name}}} in command or env, such as "
                f"`-- python train.py --{name} {{{name}}}`",
            )
    return spec.model_copy(update={"command": command, "env": env})


def settle(spec: TrainerSpec, where: str, cwd: Path, environment: Mapping[str, str]) -> TrainerSpec:
    """Return the spec bound to the place where it is submitted: with an absolute cwd, a command
    that exists, and the values of inherited variables.

    ``cwd`` and ``environment`` are those of ``submit``.

    Raises :class:`InputFileError` at ``where`` if the folder, the command or the image cannot be
    used.
    """
    try:
        home = (cwd / spec.cwd).resolve()
        is_folder = home.is_dir()
    except (OSError, ValueError, RuntimeError) as error:  # too long, or a loop of links
        raise InputFileError(
            f"{where}: cwd", f"{str(spec.cwd)!r:.200} cannot be used: {error!s:.200}"
        ) from error
    if not is_folder:
        raise InputFileError(f"{where}: cwd", f"{home} is not a directory")
    env = _inherited_variables(environment, spec.inherit) | spec.env
    # `setup` may provide the command (module load): then only the worker can tell.
    if not (spec.setup or spec.image) and find_command(spec.command[0], home, env) is None:
        raise InputFileError(
            f"{where}: command", f"{spec.command[0]!r:.200} does not exist or cannot be run"
        )
    image = None
    if spec.image is not None:
        image = _container_image(spec.image, home, f"{where}: image", staged=bool(spec.stage_in))
    return spec.model_copy(update={"cwd": home, "env": env, "inherit": (), "image": image})


def _inherited_variables(environment: Mapping[str, str], patterns: Sequence[str]) -> dict[str, str]:
    """Select the variables whose name matches one of the patterns."""

    def is_inherited(name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    return {name: value for name, value in environment.items() if is_inherited(name)}


def _container_image(name: str, home: Path, where: str, *, staged: bool) -> str:
    """Check a container image and return its absolute path. It must be a file, which ``stage_in``
    may bring (``staged``): an image of a registry would be fetched at every start of a worker.
    """
    if not name.endswith((".sif", ".sqsh")):
        source = name if "://" in name else f"docker://{name}"
        make = (
            f"`apptainer pull torch.sif {source}` or, for pyxis, `enroot import -o "
            f"torch.sqsh {source}`"
        )
        raise InputFileError(
            where, f"expected a .sif or .sqsh file, got {name!r:.200}; make one: {make}"
        )
    if not (home / name).is_file() and not (staged and name.endswith(".sif")):
        raise InputFileError(where, f"{home / name} does not exist")
    return str((home / name).resolve())


def own_launcher(spec: TrainerSpec) -> str:
    """Return the launcher with which the command begins, such as ``torchrun``, although
    ``spec.launcher`` starts the workers itself; empty if there is none.
    """
    starts_workers = launcher_traits(spec.launcher).starts_single_workers
    if not starts_workers or spec.started_per is StartedPer.TRAINER:
        return ""
    launchers = all_launchers().values()
    program = Path(spec.command[0]).name
    option, module = (*spec.command[1:3], "", "")[:2]  # empty where the command is shorter
    if program.startswith("python") and option == "-m":
        modules = {name for traits in launchers for name in traits.group_modules}
        return f"{program} -m {module}" if module in modules else ""
    programs = {name for traits in launchers for name in traits.group_programs}
    return program if program in programs else ""


def find_command(name: str, cwd: Path, env: Mapping[str, str]) -> str | None:
    """Return the path of a command, as exec would find it; None if it does not exist or cannot be
    run.
    """
    if "/" in name:
        path = cwd / name
        try:
            return str(path) if path.is_file() and os.access(path, os.X_OK) else None
        except OSError:  # a name that is too long
            return None
    return shutil.which(name, path=env.get("PATH", os.defpath))
