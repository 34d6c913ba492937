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
    """Run the command line and return its exit status."""
    try:
        status = bftrainer.main(arguments, prog_name="bftrainer", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.Abort:
        return _complain("interrupted", EXIT_INTERRUPTED)
    except EndedBySignal as end:
        return _complain(str(end), end.exit_status)
    except _NO_ARGUMENTS as error:
        say(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        own = (
            isinstance(error, click.NoSuchOption)
            and error.ctx
            and "-- ARGUMENTS" in _one_line(error.ctx.get_usage())
        )
        text = error.format_message() + " Options of a script follow `--`." * bool(own)
        return _complain(_one_line(text), error.exit_code)
    except BFTrainerError as error:
        return _complain(_one_line(str(error)), error.exit_status)
    except MemoryError:
        return _complain(
            "not enough memory for this input; use a smaller one, or a machine with more memory", 1
        )
    except SystemExit as end:
        # The reader of our output has closed the pipe: rich ends at that error, click has replaced
        # sys.stdout.
        if isinstance(end.__context__, BrokenPipeError) or type(sys.stdout).__name__.endswith(
            "PacifyFlushWrapper"
        ):
            return 0
        raise
    return status if isinstance(status, int) else 0


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _complain(text: str, status: int) -> int:
    say(f"bftrainer: {text}", err=True)
    return status
