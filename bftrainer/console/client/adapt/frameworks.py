"""Scripts whose framework has the loop: Lightning, the Trainer of Transformers, Elastic Horovod."""

from __future__ import annotations

import ast
import re

from bftrainer.console.client.adapt.loop import adapt_loop
from bftrainer.console.client.adapt.project import Project
from bftrainer.console.client.adapt.source import ScriptSource, keyword_values, name_of

_OURS = [
    "max_epochs",
    "min_epochs",
    "devices",
    "num_nodes",
    "use_distributed_sampler",
    "enable_checkpointing",
    "callbacks",
]
"""Arguments of Lightning's Trainer that ``OnIdleNodes.arguments`` has."""
_DATA = ("train_dataloaders", "datamodule", "model", "ckpt_path")
_BATCH = "per_device_train_batch_size"
_CONSTANT = (_BATCH, "save_strategy", "save_steps", "save_total_limit", "dataloader_drop_last")
"""Arguments of TrainingArguments that ``constant_batch`` has."""
_LIGHTNING, _TRANSFORMERS = (
    "recipes.md#a-script-with-lightning",
    "recipes.md#a-script-with-the-trainer-of-transformers",
)


def adapt_lightning(source: ScriptSource) -> str:
    """Insert ``OnIdleNodes`` into a script with Lightning; returns the class's name.

    Raises :class:`~bftrainer.errors.UserError` for a script without epochs, loader or ``fit``.
    """
    if cli := source.calls("LightningCLI"):
        raise source.missing(
            cli[0], "LightningCLI makes the Trainer, and its data module the loader", _LIGHTNING
        )
    trainers, fits = source.calls("Trainer"), source.calls("fit")
    if len(trainers) != 1 or len(fits) != 1:
        problem = (
            f"found {len(trainers)} calls of Trainer(...) and {len(fits)} of fit(...), "
            "expected one of each"
        )
        raise source.missing(None, problem, _LIGHTNING)
    (trainer,), (fit,) = trainers, fits
    given, passed = keyword_values(trainer), keyword_values(fit)
    data = (
        fit.args[1]
        if len(fit.args) > 1
        else passed.get("train_dataloaders", passed.get("datamodule"))
    )
    if data is None or "max_epochs" not in given:
        raise source.missing(
            trainer, "found no max_epochs in Trainer(...), or no loader in fit(...)", _LIGHTNING
        )
    rest = [
        *map(source.of, fit.args[2:3]),
        *(source.of(keyword) for keyword in fit.keywords if keyword.arg not in _DATA),
    ]
    loader, ready = source.of(data), list[str]()
    if "datamodule" in passed or _is_data_module(source, data):
        loader, ready = f"{loader}.train_dataloader()", [f'{loader}.setup("fit")']
        if _defines_function(source, "val_dataloader"):
            rest.append(f"{source.of(data)}.val_dataloader()")
    arguments = (
        f'{loader}, epochs={source.of(given["max_epochs"])}, checkpoint="{{name}}-training.ckpt"'
    )
    idle = source.free_name("idle")
    source.before(source.statement(trainer), *ready, f"{idle} = OnIdleNodes({arguments})")
    callbacks = _kept_callbacks(source, given.get("callbacks"))
    more = f' | {{"callbacks": [{idle}, {", ".join(callbacks)}]}}' if callbacks else ""
    source.set_arguments(trainer, [*source.arguments(trainer, _OURS), f"**{idle}.arguments{more}"])
    model = source.of(fit.args[0] if fit.args else passed["model"])
    source.set_arguments(fit, [model, f"{idle}.loader", *rest, f"ckpt_path={idle}.ckpt_path"])
    for call in source.calls_of_any():
        if re.search(r"LR$|Plateau|Scheduler$|schedule_with|^get_scheduler$", name_of(call.func)):
            what = (
                f"{name_of(call.func)} would have no effect, because OnIdleNodes sets the rate; "
                "remove it and choose a constant rate, or write the loop with plain PyTorch"
            )
            raise source.missing(call, what, _LIGHTNING)
    if source.calls("ModelCheckpoint"):
        source.notes.append(
            "ModelCheckpoint is left out of callbacks=[...]: OnIdleNodes writes the checkpoint"
        )
    return "OnIdleNodes"


def _kept_callbacks(source: ScriptSource, own: ast.expr | None) -> list[str]:
    """Return the script's own callbacks as items of a list.

    ModelCheckpoint is left out, if the callbacks are listed where they are passed.
    """
    if own is None:
        return []
    if not isinstance(own, ast.List):
        return [f"*{source.of(own)}"]
    texts = [source.of(callback) for callback in own.elts]
    return [text for text in texts if "ModelCheckpoint" not in text]


def _defines_function(source: ScriptSource, function: str) -> bool:
    """Whether the script defines a function or a method of this name."""
    nodes = ast.walk(source.tree)
    return any(isinstance(node, ast.FunctionDef) and node.name == function for node in nodes)


def transformers_trainers(project: Project) -> list[ast.Call]:
    """Return the calls that make a Trainer of Transformers or TRL, or of a subclass."""
    source = project.main.source
    return [call for call in source.calls_of_any() if _is_trainer(project, call.func)]


def _is_trainer(project: Project, function: ast.expr) -> bool:
    """Whether a name is that of a Trainer class that Transformers or TRL defines, or a subclass."""
    name = name_of(function)
    made = project.target(project.main, function)
    owner = None if made is None else made[1]
    if made is not None and isinstance(owner, ast.ClassDef):
        lineage = project.lineage(made[0], owner)
        bases = [base for part in lineage for base in part.bases]
        return any(
            name_of(base).endswith("Trainer") and project.target(made[0], base) is None
            for base in bases
        ) and any(_imports_trainers(module.source) for module in project.modules)
    return name.endswith("Trainer") and _imports_trainers(project.main.source, name)


def _imports_trainers(source: ScriptSource, name: str = "") -> bool:
    """Whether a module imports Transformers or TRL; with a name, whether that comes from there."""
    for node in source.nodes:
        packages: list[str] = []
        if isinstance(node, ast.Import):
            packages = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            aliases = [alias.asname or alias.name for alias in node.names]
            packages = [node.module or ""] if not name or name in aliases else []
        if any(package.partition(".")[0] in ("transformers", "trl") for package in packages):
            return True
    return False


def adapt_transformers(project: Project) -> str:
    """Insert ``IdleNodesCallback``, with a constant global batch; returns what is to be imported.

    Raises :class:`~bftrainer.errors.UserError` for a script without one Trainer and its arguments.
    """
    source = project.main.source
    trainers = transformers_trainers(project)
    arguments = [
        call
        for call in source.calls_of_any()
        if re.search(r"TrainingArguments$|^(SFT|DPO|Reward|GRPO)Config$", name_of(call.func))
    ]
    trains = [call for call in source.calls("train") if "trainer" in source.of(call.func).lower()]
    parsed = [
        node
        for node in source.nodes
        if name_of(node) == "training_args"
        and isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Store)
    ]
    if len(trainers) != 1 or len(trains) != 1 or not (arguments or parsed):
        counts = (
            f"{len(trainers)} calls of a Trainer, {len(trains)} of trainer.train() and "
            f"{len(arguments)} of TrainingArguments"
        )
        node = trainers[1] if len(trainers) > 1 else None
        raise source.missing(
            node, f"found {counts}, expected one of each in the script", _TRANSFORMERS
        )
    names = {
        name: source.free_name(name)
        for name in ("IdleNodesCallback", "constant_batch", "last_checkpoint")
    }
    if arguments:
        given = keyword_values(arguments[0])
        batch_arguments = ["8"]
        if _BATCH in given:
            keys = {"": given[_BATCH], "save_steps=": given.get("save_steps")}
            batch_arguments = [f"{key}{source.of(value)}" for key, value in keys.items() if value]
        elif any(keyword.arg is None for keyword in arguments[0].keywords):
            what = "TrainingArguments(**...) may have the batch among its keywords"
            raise source.missing(arguments[0], what, _TRANSFORMERS)
        constant_batch = f"**{names['constant_batch']}({', '.join(batch_arguments)})"
        kept = source.arguments(arguments[0], _CONSTANT)
        source.set_arguments(arguments[0], [*kept, constant_batch])
        folder = _output_folder(source, arguments[0], given)
    else:
        update = f"{names['constant_batch']}(training_args.{_BATCH})"
        source.after(_whole_statement(source, parsed), f"vars(training_args).update({update})")
        folder = "training_args.output_dir"
    own = keyword_values(trainers[0]).get("callbacks")
    idle = f"{names['IdleNodesCallback']}()"
    callbacks = f"callbacks=[{idle}{f', *({source.of(own)} or [])' if own else ''}]"
    source.set_arguments(trainers[0], [*source.arguments(trainers[0], ("callbacks",)), callbacks])
    resume = f"resume_from_checkpoint={names['last_checkpoint']}({folder})"
    others = source.arguments(trains[0], ("resume_from_checkpoint",))
    source.set_arguments(trains[0], [resume, *others[len(trains[0].args) :]])
    source.notes.append(
        "the workers must divide its global batch: `submit` allows powers of two, --set 'sizes "
        "= [1, 3]' others"
    )
    return ", ".join(
        name if alias == name else f"{name} as {alias}" for name, alias in names.items()
    )


def _output_folder(source: ScriptSource, arguments: ast.Call, given: dict[str, ast.expr]) -> str:
    """Return the output folder of TrainingArguments as it reads where the Trainer is made."""
    if arguments.args:
        return source.of(arguments.args[0])
    if "output_dir" in given:
        return source.of(given["output_dir"])
    statement = source.statement(arguments)
    if isinstance(statement, ast.Assign):
        return f"{source.of(statement.targets[0])}.output_dir"
    raise source.missing(arguments, "found no output_dir in TrainingArguments(...)", _TRANSFORMERS)


def _whole_statement(source: ScriptSource, bound: list[ast.Name]) -> ast.stmt:
    """Return the statement behind which a name is bound whatever branch was taken: the outermost
    ``if`` around the last assignment that does not contain the function's other code.
    """
    first = min(bound, key=lambda node: node.lineno)
    function = source.function(first)
    own = [node for node in bound if source.function(node) is function]
    statement = source.statement(max(own, key=lambda node: node.lineno))
    for parent in source.above(statement):
        if not isinstance(parent, ast.If | ast.Try):
            break
        if isinstance(parent, ast.If) and "__name__" in source.of(parent.test):
            break
        statement = parent
    return statement


def adapt_horovod(project: Project) -> None:
    """Insert ``ElasticTraining`` into a loop over epochs."""
    source = project.main.source
    states = source.calls("TorchState")
    if len(states) != 1 or not isinstance(source.statement(states[0]), ast.Assign):
        raise source.missing(
            None, "found no `state = hvd.elastic.TorchState(...)`", "horovod.md#adapt-the-script"
        )
    hvd = source.of(states[0].func).partition(".")[0]
    for node in ast.walk(source.tree):
        if not (isinstance(node, ast.keyword) and node.arg == "lr"):
            continue
        rate = node.value
        if isinstance(rate, ast.BinOp) and source.of(rate.right) == f"{hvd}.size()":
            source.replace(rate, source.of(rate.left))
    source.notes.append(
        f"the optimizer's rate is that of one worker: no factor {hvd}.size(), no callback that "
        "sets it"
    )
    for call in source.calls("allreduce", "broadcast", "broadcast_object", "DistributedSampler"):
        runs_once = (
            source.function(call) is source.function(states[0]) and call.lineno < states[0].lineno
        )
        text = source.of(source.statement(call))
        # No note on the sampler of training, which is replaced.
        if runs_once and re.search("broadcast|reduce|val|test", text):
            what = (
                "is not run again by the workers that stay when others join: move it into "
                "the training function"
            )
            source.notes.append(f"line {call.lineno}: {source.of(call.func)} {what}")
    adapt_loop(project, accelerate=False)


def _is_data_module(source: ScriptSource, node: ast.AST) -> bool:
    """Whether an expression is a data module: a name for, or a call of, a class of this script with
    such a base.
    """
    bases: dict[str, str] = {}
    values = [node]
    for statement in ast.walk(source.tree):
        if isinstance(statement, ast.ClassDef):
            bases[statement.name] = " ".join(map(source.of, statement.bases))
        elif isinstance(statement, ast.Assign) and (
            source.of(statement.targets[0]) == source.of(node)
        ):
            values.append(statement.value)
    calls = [value for value in values if isinstance(value, ast.Call)]
    return any("DataModule" in bases.get(name_of(call.func), "") for call in calls)
