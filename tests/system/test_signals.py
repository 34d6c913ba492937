"""Signals that must not interrupt the start of processes."""

from __future__ import annotations

import signal

import pytest

from bftrainer.console.cli.ending import EndedBySignal, ended_by_signals
from bftrainer.system.signals import ending_deferred


def test_a_signal_acts_at_the_end_of_the_block() -> None:
    steps = []

    def begin() -> None:
        with ended_by_signals():
            with ending_deferred():
                signal.raise_signal(signal.SIGTERM)
                steps.append("rest of the block")
            steps.append("after the block")

    with pytest.raises(EndedBySignal):
        begin()
    assert steps == ["rest of the block"]


def test_an_ignored_signal_stays_ignored_and_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    hangup = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending_deferred():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, hangup)
    assert signal.getsignal(signal.SIGTERM) is before
