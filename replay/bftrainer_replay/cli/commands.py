"""The commands that this package brings to ``bftrainer`` (entry point ``bftrainer.commands``)."""

from __future__ import annotations

from bftrainer.console.cli.command_table import CommandEntry as Command

_HERE = "bftrainer_replay.cli"

TABLE = (
    Command(
        "record",
        f"{_HERE}.record:record",
        "Record the idle nodes of a live cluster. Read-only.",
        "Replay",
    ),
    Command(
        "report",
        f"{_HERE}.report:report",
        "Write an HTML report on a log: the same as `bftrainer replay report`.",
        "Replay",
    ),
    Command(
        "advise", f"{_HERE}.advise:advise", "Recommend pilot settings based on a log.", "Replay"
    ),
    Command(
        "plot",
        f"{_HERE}.plot:plot",
        "Draw the course of a training: loss, nodes, speed.",
        "Trainings",
    ),
    Command(
        "forecast", f"{_HERE}.forecast:forecast", "Forecast when trainings are done.", "Trainings"
    ),
    Command("policy new", f"{_HERE}.new_policy:new_policy", "Write a policy to start from."),
    Command("replay", None, "Replay logs of idle nodes under any policy.", "Replay"),
    Command("replay run", f"{_HERE}.run:run", "Replay a log and a workload under one policy."),
    Command("replay compare", f"{_HERE}.compare:compare", "Rank policies on one log and workload."),
    Command(
        "replay sweep",
        f"{_HERE}.sweep:sweep",
        "Replay a grid of settings on many cores, ranks, workers or jobs.",
    ),
    Command(
        "replay report",
        f"{_HERE}.report:report",
        "Write an HTML report on a log and the effect of each setting.",
    ),
    Command(
        "replay characterize",
        f"{_HERE}.characterize:characterize",
        "Describe the idle nodes of a log.",
    ),
    Command(
        "replay delays",
        f"{_HERE}.delays:delays",
        "Simulate which main jobs a pilot would delay, and what it would harvest.",
    ),
    Command(
        "replay convert",
        f"{_HERE}.convert:convert",
        "Convert a scheduler's job log to an event log.",
    ),
    Command(
        "replay generate", f"{_HERE}.generate:generate", "Generate a realistic supercomputer log."
    ),
    Command("replay workload", f"{_HERE}.workload:workload", "Write a table of trainers."),
    Command(
        "replay journal",
        f"{_HERE}.journal:journal",
        "Verify a live pilot's decisions from its journal.",
    ),
)
