"""Text that others wrote, made safe for a terminal and for one-line messages.

Other users' comments, trainers' logs and hostile files may contain terminal escapes, line breaks
that forge a second message, and bidirectional controls that reorder what a reader sees. Everything
that prints such text passes it through here.
"""

from __future__ import annotations

import re

_UNPRINTABLE = re.compile(
    "["
    "\x00-\x1f\x7f"  # C0 controls, among them ESC and line breaks
    "\x80-\x9f"  # C1 controls, among them CSI and NEL
    # separators, invisible and bidirectional controls
    "\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff"  # undecodable bytes (surrogateescape)
    "]"
)


def printable(text: str, keep: str = "") -> str:
    r"""Return ``text`` on one line, with control characters as escapes (``\x1b``, ``\u2028``);
    those in ``keep`` stay as they are.
    """
    return _UNPRINTABLE.sub(
        lambda match: match[0] if match[0] in keep else _escaped_character(match[0]), text
    )


def _escaped_character(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
