"""Bad input: a refusal with file and line, or a counted skip. (tests/fuzz mutates the examples.)"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import tarfile
from pathlib import Path

import pytest
from fuzz.attacks import gzip_bomb
from support.log_examples import EXAMPLES, SACCT
from support.ran import python
from support.reading_logs import read, totals

from bftrainer.errors import InputFileError, UserError
from bftrainer_papers.traces.archives import members
from bftrainer_replay.logs.jobs import PLACE_BYTES, JobRows
from bftrainer_replay.logs.open import open_log
from bftrainer_replay.logs.source import FORMAT_NAMES, ImportOptions
from bftrainer_replay.text_files import open_bytes, read_bytes


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


@pytest.mark.parametrize(
    "name", [each for each in EXAMPLES if each not in ("sacct-json", "bhist", "events")]
)
def test_a_line_of_ten_million_characters_among_good_ones(tmp_path: Path, name: str) -> None:
    lines = EXAMPLES[name].splitlines(keepends=True)
    for filler in (
        b"7" * 10_000_000,
        (b"7 " * 5_000_000),
        (b"7|" * 5_000_000),
        (b"a=7;" * 2_500_000),
    ):
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
    with pytest.raises(
        InputFileError, match=rf"log:1: unrecognized log format 'hello'; specify one with .*{known}"
    ):
        read(tmp_path, "hello\n")
    with pytest.raises(UserError, match="unknown format 'slurm'"):
        read(tmp_path, SACCT, format="slurm")


@pytest.mark.parametrize(
    "text",
    [
        "-- MySQL dump 10.13  Distrib 8.0.36\n--\n",
        "/*M!999999\\- enable the sandbox mode */\n-- MariaDB dump 10.19\n",
        "INSERT INTO `c1_job_table` VALUES (1,1704100000,0,'acc','n[1-2]');\n",
    ],
)
def test_a_dump_of_slurmdbd_says_what_to_run(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputFileError, match=r"dump of a database in SQL; read the job table of"):
        read(tmp_path, text)


# --- Limits of what a log may decompress to, and of the memory that its lines may ask for

MB = 1 << 20
PACKERS = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("name", PACKERS)
def test_compressed_content_is_read_whole(tmp_path: Path, name: str) -> None:
    pack = PACKERS[name]
    content = bytes(range(256)) * 4000
    path = tmp_path / "file"
    for data, expected in (
        (pack(content), content),
        (pack(content) + pack(b"more") + pack(b""), content + b"more"),
        (pack(b""), b""),
        (pack(content) + bytes(1000), content),
        (pack(b"a") + bytes(4), b"a"),
    ):
        path.write_bytes(data)
        with open_bytes(path) as file:
            assert file.read() == expected
        assert read_bytes(path, 10) == expected[:10]


@pytest.mark.parametrize("name", PACKERS)
def test_damage_is_told(tmp_path: Path, name: str) -> None:
    packed = PACKERS[name](bytes(range(256)) * 4000)
    path = tmp_path / "file"
    for data in (
        packed[:-1],
        packed[:-30],
        packed[:40],
        packed + b"something else",
        packed[: len(packed) // 2] + b"damage" * 5 + packed[len(packed) // 2 + 30 :],
    ):
        path.write_bytes(data)
        with pytest.raises(InputFileError, match="is damaged or truncated"):
            read_bytes(path, 10 * MB)


def test_the_users_limit_replaces_both(tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(gzip_bomb(SACCT, b"# a comment of the log\n", 80 * MB))
    with pytest.raises(InputFileError, match="more than 200 times as large"):
        open_log(path)
    assert open_log(path, ImportOptions(max_bytes=100 * MB)).log.events
    with pytest.raises(
        InputFileError, match=r"has more than 1,000,000 bytes when decompressed; --max-bytes sets"
    ):
        open_log(path, ImportOptions(max_bytes=1_000_000))
    plain = tmp_path / "log"
    for name, content in EXAMPLES.items():
        plain.write_bytes(content)
        with pytest.raises(
            InputFileError, match=r"more than 100 bytes; --max-bytes sets another limit"
        ):
            open_log(plain, ImportOptions(format=name, max_bytes=100))


def test_what_jobs_hold_is_counted_before_it_is_kept() -> None:
    rows = JobRows("log", 1000 * PLACE_BYTES)
    nodes = rows.ids(f"n{number}" for number in range(300))
    for _ in range(3):
        rows.add(0, 0, 0, 1, 300, nodes)
    with pytest.raises(
        InputFileError,
        match=r"log: the nodes of its jobs take more than 128,000 bytes; --max-bytes sets",
    ):
        rows.add(0, 0, 0, 1, 300, nodes)
    with pytest.raises(InputFileError, match="names more than 1,000,000 nodes"):
        rows.ids(f"m{number}" for number in range(1_000_001))


def test_the_members_of_an_archive_are_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in (("a" * 300, b"1" * 3000), ("b", b""), ("c", b"2" * (3 * MB))):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    with open_bytes(path) as file:
        found = [(member.name, member.read(10)) for member in members(path, file)]
    assert found == [("a" * 300, b"1" * 10), ("b", b""), ("c", b"2" * 10)]


def test_too_little_memory_is_one_line(tmp_path: Path) -> None:
    """A limit of 200 MB more than the program itself takes; the log's cluster has two million
    nodes.
    """
    path = tmp_path / "log"
    path.write_bytes(EXAMPLES["swf"])
    program = (
        "import resource, sys\n"
        "import bftrainer_replay.logs.open\n"
        "from bftrainer.console.cli.main import run\n"
        "most = resource.getpagesize() * int(open('/proc/self/statm').read().split()[0]) + 200 "
        "* 2**20\n"
        "resource.setrlimit(resource.RLIMIT_AS, (most, most))\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    ended = python("-c", program, "replay", "characterize", path, "--machine-nodes", 2_000_000)
    assert ended.returncode == 1, ended
    assert ended.stderr.splitlines()[-1].startswith("bftrainer: not enough memory for this input")
    assert "Traceback" not in ended.stderr
