"""Every reader of bytes that somebody else may have written, with samples of what it reads.

A reader gets bytes and a folder for its files. It returns, or raises a :class:`BFTrainerError`
whose message is one line; readers of files raise a :class:`UserError` (exit status 2). Everything
else is a finding.
"""

from __future__ import annotations

import functools

from fuzz.readers import configuration, logs, schedulers, state_directory, trainer_directory
from fuzz.readers.reader import Reader as Reader


@functools.cache
def readers() -> dict[str, Reader]:
    """All readers by name."""
    modules = (logs, configuration, state_directory, trainer_directory, schedulers)
    return {reader.name: reader for module in modules for reader in module.readers()}
