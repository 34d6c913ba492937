"""The commands that this package brings to ``bftrainer`` (entry point ``bftrainer.commands``)."""

from __future__ import annotations

from bftrainer.console.cli.command_table import CommandEntry

TABLE = (
    CommandEntry(
        "replay reproduce",
        "bftrainer_papers.cli.reproduce:reproduce",
        "Run a paper's experiment; compare with the published values.",
    ),
    CommandEntry(
        "replay trace",
        "bftrainer_papers.cli.trace:trace",
        "Write a table of trainers from a real cluster's job trace.",
    ),
)
