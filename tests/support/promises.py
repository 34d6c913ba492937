"""What the product promises. A test that sees one broken is not run again, however busy the machine
was.

See docs/decisions/0006-stories-on-real-machines.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class PromiseBrokenError(AssertionError):
    """A main job waited for us or met us on its nodes, or work of a user was lost."""


def promise(kept: object, what: str) -> None:
    """Fail for good unless it holds."""
    if not kept:
        raise PromiseBrokenError(what)


@contextmanager
def promised() -> Iterator[None]:
    """Whatever is asserted inside is a promise."""
    try:
        yield
    except AssertionError as error:
        raise PromiseBrokenError(str(error)) from error
