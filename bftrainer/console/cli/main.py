"""``bftrainer``: the command group, and how errors look: one line on stderr, status 2 for a user's
error, 1 for others.
"""

from __future__ import annotations

import signal
import sys

import click

from bftrainer import __version__
from bftrainer.console.cli.commands import TABLE
from bftrainer.console.cli.ending import EndedBySignal, exit_status_of
from bftrainer.console.cli.lazy_group import Commands, LazyGroup
from bftrainer.console.cli.output import say
from bftrainer.errors import BFTrainerError

EXIT_INTERRUPTED = exit_status_of(signal.SIGINT)
# click 8.1 prints the help of a group called without a command by itself; 8.2 and later raise it.
_NO_ARGUMENTS: type[click.UsageError] = getattr(
    click.exceptions, "NoArgsIsHelpError", click.UsageError
)


@click.group(
    cls=LazyGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 110,
        "show_default": True,
    },
    commands=Commands(TABLE),
)
@click.version_option(__version__, prog_name="bftrainer")
def bftrainer() -> None:
    """Train neural networks on the nodes that a batch scheduler cannot fill."""


def main() -> None:
    """Entry point of the console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit status.

    An error is one line on stderr. Only errors in bftrainer itself are raised.
    """
    try:
        status = bftrainer.main(arguments, prog_name="bftrainer", standalone_mode=False)
    except click.exceptions.Exit as exit_request:
        return exit_request.exit_code
    except click.Abort:
        return _print_error("interrupted", EXIT_INTERRUPTED)
    except EndedBySignal as end:
        return _print_error(str(end), end.exit_status)
    except _NO_ARGUMENTS as error:
        say(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        text = error.format_message()
        if _may_be_option_of_script(error):
            text += " Options of a script follow `--`."
        if isinstance(error, click.MissingParameter) and error.ctx is not None:
            text = f"{text.rstrip('.')}; {_example(error.ctx.command)}"
        return _print_error(_one_line(text), error.exit_code)
    except BFTrainerError as error:
        return _print_error(_one_line(str(error)), error.exit_status)
    except MemoryError:
        return _print_error(
            "not enough memory for this input; use a smaller one, or a machine with more memory", 1
        )
    except SystemExit as end:
        if _is_pipe_closed(end):
            return 0
        raise
    return status if isinstance(status, int) else 0


def _may_be_option_of_script(error: click.ClickException) -> bool:
    """Whether an option is unknown to a command that passes arguments on to a script."""
    return (
        isinstance(error, click.NoSuchOption)
        and error.ctx is not None
        and "-- ARGUMENTS" in _one_line(error.ctx.get_usage())
    )


def _example(command: click.Command) -> str:
    """Return the first example of a command's help as a hint; the option ``--help`` without one."""
    _, _, examples = (command.help or "").partition("Example:\n")
    lines = [line.strip() for line in examples.splitlines() if f" {command.name}" in line]
    return f"expected for example: {lines[0]}" if lines else f"see `{command.name} --help`"


def _is_pipe_closed(end: SystemExit) -> bool:
    """Whether a command has ended since the reader of its output has closed the pipe, as ``head``
    does.

    rich exits while it handles the error; click has replaced sys.stdout before it exits.
    """
    return isinstance(end.__context__, BrokenPipeError) or type(sys.stdout).__name__.endswith(
        "PacifyFlushWrapper"
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _print_error(text: str, status: int) -> int:
    """Print an error as one line on stderr, and return ``status``."""
    say(f"bftrainer: {text}", err=True)
    return status
