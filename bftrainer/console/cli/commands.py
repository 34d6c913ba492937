"""The commands of bftrainer itself, in the order of ``bftrainer --help``."""

from __future__ import annotations

from bftrainer.console.cli.command_table import CommandEntry as Command

_HERE = "bftrainer.console.cli"

TABLE = (
    Command(
        "init",
        f"{_HERE}.init:init",
        "Create a state directory with the configuration of this site.",
        "Pilot",
    ),
    Command(
        "config",
        f"{_HERE}.config:config",
        "Print the pilot's configuration; --all: every key and its default.",
        "Pilot",
    ),
    Command(
        "pilot",
        f"{_HERE}.pilot:pilot",
        "Run the pilot: hold idle nodes and train on them.",
        "Pilot",
    ),
    Command(
        "top",
        f"{_HERE}.top.command:top",
        "Watch nodes, trainings and events on one screen.",
        "Pilot",
    ),
    Command("nodes", f"{_HERE}.nodes:nodes", "List the held nodes and their audit trail.", "Pilot"),
    Command(
        "events",
        f"{_HERE}.events:events",
        "List the pilot's latest decisions and messages.",
        "Pilot",
    ),
    Command(
        "usage",
        f"{_HERE}.usage:usage",
        "Sum what trainings cost: node-hours used and lost.",
        "Pilot",
    ),
    Command(
        "users",
        f"{_HERE}.users:users",
        "List the users whose pilots share nodes, and their parts.",
        "Pilot",
    ),
    Command(
        "adapt",
        f"{_HERE}.adapt:adapt",
        "Print the lines that a training script needs.",
        "Trainings",
    ),
    Command(
        "rehearse",
        f"{_HERE}.rehearse:rehearse",
        "Test how a training script survives preemption, on this host.",
        "Trainings",
    ),
    Command(
        "submit",
        f"{_HERE}.submit:submit",
        "Submit a training or a sweep. The pilot need not be running.",
        "Trainings",
    ),
    Command(
        "list",
        f"{_HERE}.trainers:list_trainers",
        "List what trains or waits now: status, nodes, time left.",
        "Trainings",
    ),
    Command("show", f"{_HERE}.trainers:show", "Show one training in detail.", "Trainings"),
    Command(
        "collect",
        f"{_HERE}.collect:collect",
        "Copy the checkpoints and results of a group to one directory.",
        "Trainings",
    ),
    Command(
        "results",
        f"{_HERE}.results:results",
        "Compare what trainings reached: parameters and metrics.",
        "Trainings",
    ),
    Command(
        "explain",
        f"{_HERE}.explain:explain",
        "Explain why a training or a user has so many nodes.",
        "Trainings",
    ),
    Command("logs", f"{_HERE}.logs:logs", "Print the output of a training's workers.", "Trainings"),
    Command(
        "pause",
        f"{_HERE}.requests:pause",
        "Checkpoint trainings and release their nodes.",
        "Trainings",
    ),
    Command(
        "resume",
        f"{_HERE}.requests:resume",
        "Resume paused trainings from their checkpoints.",
        "Trainings",
    ),
    Command("cancel", f"{_HERE}.requests:cancel", "Cancel trainings.", "Trainings"),
    Command(
        "broker",
        "bftrainer_clusters.slurm.broker:broker",
        "Poll Slurm for the pilots of all users.",
        "Tools",
    ),
    Command(
        "solve",
        f"{_HERE}.solve:solve",
        "Solve one allocation problem from a file.",
        "Tools",
    ),
    Command(
        "site-setup",
        f"{_HERE}.site_setup:site_setup",
        "Print what an administrator changes so that main jobs preempt holders.",
        "Tools",
    ),
    Command(
        "audit",
        f"{_HERE}.audit:audit",
        "Measure how long main jobs waited for held nodes.",
        "Tools",
    ),
    Command("policy", None, "List the installed policies, or write a new one.", "Tools"),
    Command(
        "policy list",
        f"{_HERE}.policy:list_policies",
        "List the installed policies and what they require.",
    ),
    Command(
        "completion",
        f"{_HERE}.completion:completion",
        "Print the code that makes a shell complete commands and names.",
        "Tools",
    ),
    Command(
        "doctor",
        f"{_HERE}.doctor.command:doctor",
        "Check this installation and explain what is missing.",
        "Tools",
    ),
)
