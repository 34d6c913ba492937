"""Help in two lengths: ``--help`` lists the options that most users need, ``--help-all`` lists all
options, by topic.

Use::

    @click.command(cls=CommandWithTopics, topics={"Sweeps": ("--grid", "--array")})
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from bftrainer.console.cli.output import say

Topics = Mapping[str, tuple[str, ...]]
"""The options that ``--help`` leaves out, by the title of their topic: ``--grid``, as typed."""
_SHOWS_ALL = "bftrainer.shows_all_options"
"""A key of ``click.Context.meta``."""


class CommandWithTopics(click.Command):
    """A command whose ``--help`` leaves out the options of ``topics``, and names the topics."""

    def __init__(self, *args: Any, topics: Topics, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.topics = topics
        self.params.append(_help_all_option())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options without a topic, then the topics: each with its options, or, for the
        short help, one sentence with their titles.
        """
        records = _help_records(self, ctx)
        with_topic = {name for names in self.topics.values() for name in names}
        with formatter.section("Options"):
            formatter.write_dl(
                [record for name, record in records.items() if name not in with_topic]
            )
        if not ctx.meta.get(_SHOWS_ALL):
            formatter.write_paragraph()
            titles = "; ".join(self.topics)
            formatter.write_text(f"{len(with_topic)} more options in --help-all: {titles}.")
            return
        for title, names in self.topics.items():
            with formatter.section(title):
                formatter.write_dl([records[name] for name in names])


def _help_records(command: click.Command, context: click.Context) -> dict[str, tuple[str, str]]:
    """Return what the help says about each option: (names, text), by its first long name."""
    records = {}
    for parameter in command.get_params(context):
        # Newer click has records of arguments, too.
        record = parameter.get_help_record(context) if isinstance(parameter, click.Option) else None
        if record is not None:
            records[long_name(parameter)] = record
    return records


def long_name(parameter: click.Parameter) -> str:
    """Return the first long name of an option, as typed; for an argument, its name."""
    long_names = [name for name in parameter.opts if name.startswith("--")]
    return long_names[0] if long_names else parameter.opts[0]


def _help_all_option() -> click.Option:
    """Return the option ``--help-all``, which prints the help with all topics."""
    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_all,
        help="Show all options, by topic, and exit.",
    )


def _show_all(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        context.meta[_SHOWS_ALL] = True
        say(context.get_help())
        context.exit()
