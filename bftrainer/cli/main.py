"""``bftrainer``: the command group, and how errors look. One line on stderr; 2 for the user's mistake, 1 for ours."""

from __future__ import annotations

import difflib
import os
import sys
from importlib import import_module
from typing import Any

import click

from bftrainer import __version__
from bftrainer.errors import BFTrainerError

EXIT_INTERRUPTED = 130
# click 8.1 prints the help of a group called without a command by itself; 8.2 and later raise it.
_NO_ARGUMENTS: type[click.UsageError] = getattr(click.exceptions, "NoArgsIsHelpError", click.UsageError)


class LazyGroup(click.Group):
    """A group that imports a command only when it is called: ``bftrainer --help`` stays fast.

    ``lazy`` maps a command's name to (module, attribute, one line of help).
    """

    def __init__(self, *args: Any, lazy: dict[str, tuple[str, str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import the command's module."""
        if name not in self._lazy:
            return None
        module, attribute, _ = self._lazy[name]
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant; a name that is none says which one was, perhaps one of another group."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            known = {name: f"bftrainer replay {name}" for name in _REPLAY.list_commands(ctx)}
            known |= {name: f"bftrainer {name}" for name in bftrainer.list_commands(ctx)}
            known |= {name: f"{ctx.command_path} {name}" for name in self._lazy}
            near = difflib.get_close_matches(args[0], known, n=1)
            hint = f"Did you mean `{known[near[0]]}`?" if near else f"See `{ctx.command_path} --help`."
            raise click.UsageError(f"{error.message} {hint}", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in self._lazy.items()])


_REPLAY = LazyGroup(
    "replay",
    help="Replay a log of idle nodes: what would bftrainer have made of them?",
    lazy={
        "run": ("bftrainer_replay.cli.run", "run", "Replay a log and a workload under a policy."),
        "compare": ("bftrainer_replay.cli.compare", "compare", "Rank policies on one log and workload."),
        "reproduce": ("bftrainer_papers.cli.reproduce", "reproduce", "Another paper's figures beside ours."),
        "sweep": ("bftrainer_replay.cli.sweep", "sweep", "Replay a grid of settings on many cores."),
        "report": ("bftrainer_replay.cli.report", "report", "One page on a log: what it offers, what to set."),
        "characterize": ("bftrainer_replay.cli.characterize", "characterize", "Describe the idle nodes of a log."),
        "convert": ("bftrainer_replay.cli.convert", "convert", "Turn a scheduler's job log into an event log."),
        "generate": ("bftrainer_replay.cli.generate", "generate", "Write a log like a supercomputer's."),
        "workload": ("bftrainer_replay.cli.workload", "workload", "Write a table of trainers."),
        "journal": ("bftrainer_replay.cli.journal", "journal", "Prove a live pilot's decisions by its journal."),
    },
)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    lazy={
        "init": ("bftrainer.cli.init", "init", "Make a state directory with a commented configuration."),
        "pilot": ("bftrainer.cli.pilot", "pilot", "Hold idle nodes, train on them, hand them back when wanted."),
        "submit": ("bftrainer.cli.submit", "submit", "Hand a trainer in, whether the pilot runs or not."),
        "rehearse": ("bftrainer.cli.rehearse", "rehearse", "A trainer's script against preemptions, on this machine."),
        "list": ("bftrainer.cli.trainers", "list_trainers", "List trainers: status, nodes, progress."),
        "show": ("bftrainer.cli.trainers", "show", "Show all about one trainer."),
        "logs": ("bftrainer.cli.watch", "logs", "Print what a trainer's workers have written."),
        "cancel": ("bftrainer.cli.orders", "cancel", "End trainers for good."),
        "pause": ("bftrainer.cli.orders", "pause", "Let trainers give up their nodes until they are resumed."),
        "resume": ("bftrainer.cli.orders", "resume", "Let paused trainers go on."),
        "events": ("bftrainer.cli.watch", "events", "Show the latest decisions and what they answered."),
        "top": ("bftrainer.cli.top.command", "top", "Watch a pilot: nodes, trainers and events on one screen."),
        "explain": ("bftrainer.cli.explain", "explain", "Why a trainer has as many nodes as it has."),
        "nodes": ("bftrainer.cli.watch", "nodes", "Show the nodes that are held, and the audit of them."),
        "usage": ("bftrainer.cli.trainers", "usage", "Node-hours by trainer or user."),
        "solve": ("bftrainer.cli.solve", "solve", "Who gets how many nodes? One problem in, one answer out."),
        "record": ("bftrainer_replay.cli.record", "record", "Record a live cluster's idle nodes; only looks."),
        "replay": ("bftrainer.cli.main", "_REPLAY", "Replay a log of idle nodes."),
        "advise": ("bftrainer_replay.cli.advise", "advise", "From a log, the settings that it asks for."),
        "demo": ("bftrainer_replay.cli.demo", "demo", "A sample log, two policies, one page: no input needed."),
        "policy": ("bftrainer.cli.policy", "policy", "The installed policies, and a start for your own."),
        "doctor": ("bftrainer.cli.doctor.command", "doctor", "What works here, what is missing, and how to get it."),
    },
)
@click.version_option(__version__, prog_name="bftrainer")
def bftrainer() -> None:
    """Train neural networks on the nodes that a batch scheduler cannot fill."""


def main() -> None:
    """Entry point of the console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit status."""
    try:
        status = bftrainer.main(arguments, prog_name="bftrainer", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return _complain("interrupted", EXIT_INTERRUPTED)
    except _NO_ARGUMENTS as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        return _complain(_one_line(error.format_message()), error.exit_code)
    except BFTrainerError as error:
        return _complain(_one_line(str(error)), error.exit_status)
    except BrokenPipeError:
        # Whoever read our output has seen enough; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit as end:
        # So rich 13.8 and later end the process where that happens to a table.
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        return 0
    return status if isinstance(status, int) else 0


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _complain(text: str, status: int) -> int:
    click.echo(f"bftrainer: {text}", err=True)
    return status
