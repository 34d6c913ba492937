"""What Hypothesis does to good files to make bad ones."""

from __future__ import annotations

from hypothesis import strategies as st

ODD = [bytes((each,)) for each in b'|;, \n\r"{}[]()<>=-\\0\x00\x1a\xe4']
ODD += [b"\xff\xfe", b"\xf0\x9f\x92\xa9", b"9" * 400, b"n" * 5000, b"1e308", b"nan", b"-1", b"[1-999999]", b"Unknown"]


@st.composite
def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """Bytes replaced, cut out or put in, lines repeated, swapped or lost, the end cut off."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 6))):
        kind, at = draw(st.integers(0, 5)), draw(st.integers(0, max(len(data) - 1, 0)))
        if kind == 0:
            data[at : at + draw(st.integers(0, 12))] = draw(st.sampled_from(ODD))
        elif kind == 1:
            data[at : at + 1] = draw(st.binary(min_size=1, max_size=3))
        elif kind == 2:
            del data[at : at + draw(st.integers(1, 40))]
        elif kind == 3:
            del data[at:]
        else:
            lines = bytes(data).splitlines(keepends=True) or [b""]
            one, other = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
            lines[one], lines[other] = (lines[other], lines[one]) if kind == 4 else (lines[one] * 2, lines[other])
            data = bytearray(b"".join(lines))
    return bytes(data)
