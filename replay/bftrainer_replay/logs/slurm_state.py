"""Slurm's job states, 20.11 to 26.05; an unknown one is rejected with its text."""

from __future__ import annotations

import math

from bftrainer_replay.logs.jobs import BadLineError

_ENDED_WORDS = (
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED LAUNCH_FAILED NODE_FAIL OUT_OF_MEMORY "
    "PREEMPTED RECONFIG_FAIL "
    "REVOKED SPECIAL_EXIT TIMEOUT"
)
# A suspended or stopped job keeps its nodes. REQUEUED is the state of the run that was ended by a
# requeue.
_RUNNING_WORDS = (
    "RUNNING COMPLETING CONFIGURING RESIZING SIGNALING STAGE_OUT STOPPED "
    "SUSPENDED POWER_UP_NODE UPDATE_DB"
)
_WAITING_WORDS = "PENDING REQUEUE_FED REQUEUE_HOLD RESV_DEL_HOLD EXPEDITING"
_ENDED, _RUNNING, _WAITING = (
    frozenset(words.split()) for words in (_ENDED_WORDS, _RUNNING_WORDS, _WAITING_WORDS)
)
_KNOWN = _ENDED | _RUNNING | _WAITING | {"REQUEUED"}


_NUMBERED = (
    "PENDING",
    "RUNNING",
    "SUSPENDED",
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
)
_FLAGS = {0x400: "REQUEUED", 0x2000: "RESIZING"}
"""slurm.h: the state is in the lowest 8 bits; sacct prints these flags in place of the state."""


def _state_of_number(text: str) -> str:
    """Return the name of a state that slurmdbd's tables have as a number; the number itself if it
    is unknown.
    """
    number = int(text)
    for flag, state in _FLAGS.items():
        if number & flag:
            return state
    index = number & 0xFF
    return _NUMBERED[index] if index < len(_NUMBERED) else text


def check_state(text: str) -> str:
    """Return the name of a state alone ("CANCELLED by 1000" -> CANCELLED), from its text or number.

    Raises :class:`BadLineError` for an unknown state.
    """
    if text.isdecimal() and len(text) < 10:
        text = _state_of_number(text)
    state = text if text in _KNOWN else text.partition(" ")[0]
    if state not in _KNOWN:
        raise BadLineError(f"job state {text[:40]!r} is unknown")
    return state


RESIZING = "RESIZING"
RERUN = frozenset({"REQUEUED", "PREEMPTED", "NODE_FAIL"})
"""States of a run after which Slurm may start its job again."""


def is_running(state: str, end_s: float) -> bool:
    """Return whether a job in this state still holds its nodes, even if the record has an end.

    RESIZING is also the state of the record that Slurm closes when it changes the nodes of a job:
    such a record has ended, and has an end.
    """
    if state == RESIZING and not math.isnan(end_s):
        return False
    return state in _RUNNING


def never_started(state: str) -> bool:
    """Return whether a job in this state waits; a start in its record is a forecast."""
    return state in _WAITING


def eligible_from(eligible_s: float, start_s: float) -> float:
    """Return when a job became eligible; infinite for a job that never did (held, dependent) and so
    never waited for nodes. Such a job has neither of the two times.
    """
    return math.inf if math.isnan(eligible_s) and math.isnan(start_s) else eligible_s
