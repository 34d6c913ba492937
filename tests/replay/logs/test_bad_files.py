"""Bad input: a refusal with file and line, or a counted skip. (tests/fuzz mutates the examples.)"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from log_examples import EXAMPLES, SACCT
from reading_logs import read, totals

from bftrainer.errors import InputFileError, UserError
from bftrainer_replay.logs.open import open_log
from bftrainer_replay.logs.source import FORMAT_NAMES, ImportOptions


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_themselves_are_read_and_recognised(tmp_path: Path, name: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(EXAMPLES[name])
    by_name, by_content = open_log(path, ImportOptions(format=name)), open_log(path)
    assert by_name.totals == by_content.totals
    assert by_name.log.events == by_content.log.events
    assert len(by_name.log.events) > 1


BROKEN = {
    "empty": b"",
    "blank lines": b"\n\n\n",
    "binary": bytes(range(256)) * 64,
    "zeros": bytes(100_000),
    "utf-16": SACCT.decode().encode("utf-16"),
    "utf-32": SACCT.decode().encode("utf-32"),
    "a line of ten million": b"7" * 10_000_000 + b"\n",
    "a line of forty million": b"x" * 40_000_000 + b"\n",
    "truncated gzip": gzip.compress(SACCT * 50)[:-20],
    "damaged gzip": gzip.compress(SACCT)[:30] + b"\x00\x01\x02\x03" + gzip.compress(SACCT)[34:],
    "not gzip": b"\x1f\x8b\x08\x00 and so on",
    "not bzip2": b"BZh9 and so on",
    "not xz": b"\xfd7zXZ\x00 and so on",
    "a header only": SACCT.split(b"\n")[0] + b"\n",
}


@pytest.mark.parametrize("name", ["by content", *EXAMPLES])
@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files_are_refused_by_every_importer(tmp_path: Path, kind: str, name: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(BROKEN[kind])
    for skip_bad in (False, True):
        options = ImportOptions(format=None if name == "by content" else name, skip_bad=skip_bad)
        with pytest.raises(InputFileError) as refusal:
            open_log(path, options)
        assert re.fullmatch(rf"{re.escape(str(path))}(?::\d+)?", refusal.value.where)
        assert len(refusal.value.problem) < 1000


@pytest.mark.parametrize("name", [each for each in EXAMPLES if each not in ("bhist", "events")])
def test_a_line_of_ten_million_characters_among_good_ones(tmp_path: Path, name: str) -> None:
    lines = EXAMPLES[name].splitlines(keepends=True)
    for filler in (b"7" * 10_000_000, (b"7 " * 5_000_000), (b"7|" * 5_000_000), (b"a=7;" * 2_500_000)):
        data = b"".join([*lines, filler + b"\n", lines[-1]])
        with pytest.raises(InputFileError, match=rf"log:{len(lines) + 1}: "):
            read(tmp_path, data, format=name)
        assert totals(read(tmp_path, data, format=name, skip_bad=True))[3] == 1


def test_names_in_latin_1_are_no_reason_to_lose_a_job(tmp_path: Path) -> None:
    plain = read(tmp_path, SACCT)
    assert read(tmp_path, SACCT.replace(b"|a\n", b"|f\xfcr\n")).log.events == plain.log.events
    with pytest.raises(InputFileError, match=r"log:2: expected node names"):
        read(tmp_path, SACCT.replace(b"|cn1|", b"|cn\xfc|"))


def test_compressed_logs_with_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    import bz2
    import lzma

    plain = read(tmp_path, SACCT)
    for data in (
        gzip.compress(SACCT),
        bz2.compress(SACCT),
        lzma.compress(SACCT),
        b"\xef\xbb\xbf" + SACCT,
        SACCT.replace(b"\n", b"\r\n"),
    ):
        assert read(tmp_path, data).log.events == plain.log.events


def test_a_last_line_without_an_end_is_told(tmp_path: Path) -> None:
    assert not any("truncated" in remark for remark in read(tmp_path, SACCT).remarks)
    assert any("truncated" in remark for remark in read(tmp_path, SACCT[:-1]).remarks)


def test_an_unknown_format_lists_the_known_ones(tmp_path: Path) -> None:
    known = re.escape(", ".join(FORMAT_NAMES))
    with pytest.raises(InputFileError, match=rf"log:1: unrecognized log format 'hello'; specify one with .*{known}"):
        read(tmp_path, "hello\n")
    with pytest.raises(UserError, match="unknown format 'slurm'"):
        read(tmp_path, SACCT, format="slurm")
