"""Files that were made to hurt: small ones that used to take gigabytes, minutes, or the whole
process.

Each is made, not stored: ``ATTACKS`` maps a name to the reader (``readers.py``) that gets it and a
function that makes it.
"""

from __future__ import annotations

import bz2
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable

from support.log_examples import EXAMPLES, SACCT, SACCT_WITH_LINE_BREAKS
from support.recorded_slurm import MARK

MB = 1 << 20
_H = "2026-02-01T00:00:00|2026-02-01T00:00:00|2026-02-01T00:00:00|2026-02-01T01:00:00"


def gzip_bomb(head: bytes, filler: bytes, size: int) -> bytes:
    """``head`` and about ``size`` bytes of ``filler``, at a thousandth of that size. Made without
    compressing it all.
    """
    block = (filler * (MB // len(filler) + 1))[:MB]
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    parts = [packer.compress(head), packer.flush(zlib.Z_FULL_FLUSH)]
    one = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = one.compress(block) + one.flush(zlib.Z_FULL_FLUSH)
    crc, total = zlib.crc32(head), len(head)
    for _ in range(size // MB):
        parts.append(packed)
        crc, total = zlib.crc32(block, crc), total + MB
    last = zlib.compressobj(9, zlib.DEFLATED, -15)
    parts.append(last.flush(zlib.Z_FINISH))
    return (
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
        + b"".join(parts)
        + struct.pack("<II", crc, total & 0xFFFFFFFF)
    )


def pax_header(size: int, kind: bytes = b"x", *, plain: bool = False) -> bytes:
    """A tar archive whose first header announces, and has, ``size`` bytes of names."""
    info = tarfile.TarInfo("./PaxHeaders/x")
    info.type, info.size = kind, size
    head = info.tobuf(tarfile.USTAR_FORMAT)
    if plain:
        return head + b"a" * size
    return gzip_bomb(head, b"1048576 comment=" + b"a" * (MB - 17) + b"\n", size)


def archive(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            made.addfile(info, io.BytesIO(content))
    return out.getvalue()


def _many_members() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as made:
        for number in range(60_000):
            made.addfile(tarfile.TarInfo(f"m{number}"))
    return out.getvalue()


def _zip_bomb() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("log", b"0" * (64 * MB))
    return out.getvalue()


def _xz_dictionary() -> bytes:
    """An xz file whose header asks for a dictionary of 1.5 GB."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 20}]
    data = bytearray(lzma.compress(EXAMPLES["events"], filters=filters))
    # the block header follows the stream header: size, flags, then id 0x21, size 1, dictionary
    place = 12
    end = place + (data[place] + 1) * 4
    at = data.index(b"\x21\x01", place, end) + 2
    data[at] = 39  # 3 << 30 bytes: (2 | 1) << (39 // 2 + 11)
    data[end - 4 : end] = struct.pack("<I", zlib.crc32(bytes(data[place : end - 4])))
    return bytes(data)


def _sacct(*rows: str) -> bytes:
    return (
        "JobID|Submit|Eligible|Start|End|NNodes|NodeList|State\n"
        + "".join(f"{row}\n" for row in rows)
    ).encode()


def _swf(jobs: int, asked: int, nodes: int) -> bytes:
    rows = "".join(
        f"{n} {n} 0 100000 {asked} -1 -1 {asked} 9 -1 1 1 1 -1 1 -1 -1 -1\n"
        for n in range(1, jobs + 1)
    )
    return f"; UnixStartTime: 1600000000\n; MaxNodes: {nodes}\n; MaxProcs: {nodes}\n{rows}".encode()


def _letters(number: int) -> str:
    return "".join(chr(97 + number // 26**place % 26) for place in range(3))


def _jobs_on_all(count: int) -> bytes:
    return _sacct(*(f"{n}|{_H}|199999|n[1-199999]|COMPLETED" for n in range(count)))


def _planned(*lists: str) -> bytes:
    """squeue's answer about jobs that are planned on these nodes."""
    rows = "".join(f"{n}|eve|main|5|{each}|1|Priority|{MARK}\n" for n, each in enumerate(lists))
    return f"JOBID|USER|PARTITION|START_TIME|SCHEDNODES|NODES|REASON|{MARK}\n{rows}".encode()


_PILOT = b'[nodes]\nholder = "trace"\n'
_TRAINER = b'name = "a"\ncommand = ["true"]\nmax_nodes = 4\nsamples_per_s = 1.0\n'

ATTACKS: dict[str, tuple[str, Callable[[], bytes]]] = {
    # Logs
    "tar: a pax header of 1 GB": ("trace", lambda: pax_header(1024 * MB)),
    "tar: a global pax header of 1 GB": ("trace", lambda: pax_header(1024 * MB, b"g")),
    "tar: a long GNU name of 1 GB": ("trace", lambda: pax_header(1024 * MB, b"L")),
    "tar: a plain pax header of 40 MB": ("trace", lambda: pax_header(40 * MB, plain=True)),
    "tar: 60,000 members": ("profiles", _many_members),
    "event log: a gzip bomb of one cell": (
        "events",
        lambda: gzip_bomb(b"time,joined,left\n2021-02-10T00:00:00,", b"n", 1024 * MB),
    ),
    "event log: a gzip bomb of nodes": (
        "events",
        lambda: gzip_bomb(b"time,joined,left\n2021-02-10T00:00:00,", b"n ", 1024 * MB),
    ),
    "event log: a gzip bomb of blank lines": (
        "events",
        lambda: gzip_bomb(b"time,joined,left\n", b"\n", 1024 * MB),
    ),
    "event log: a bzip2 bomb": (
        "events",
        lambda: bz2.compress(b"time,joined,left\n2021-02-10T00:00:00," + b"n" * (300 * MB), 9),
    ),
    "event log: an xz dictionary of 3 GB": ("events", _xz_dictionary),
    "sacct: a gzip bomb of one job": (
        "sacct",
        lambda: gzip_bomb(_sacct(), f"1|{_H}|1|n1|COMPLETED\n".encode(), 1024 * MB),
    ),
    "sacct: n[1-199999,1-199999,...] of 27 kB": (
        "sacct",
        lambda: _sacct(f"1|{_H}|1|n[1-199999{',1-199999' * 2999}]|COMPLETED"),
    ),
    "host list: 100,000 nodes with a name of 50 kB": (
        "host list",
        lambda: b"n" * 50_000 + b"[1-100000]",
    ),
    "sacct: 3,000 jobs on 199,999 nodes of other names": (
        "sacct",
        lambda: _sacct(
            *(f"{n}|{_H}|199999|{_letters(n)}[1-199999]|COMPLETED" for n in range(3000))
        ),
    ),
    "sacct: 1,000 jobs on the same 199,999 nodes": ("sacct", lambda: _jobs_on_all(1000)),
    "sacct: 3,000 arrays of 100,000 tasks": (
        "sacct",
        lambda: (
            _sacct(
                *(
                    f"{n}_[1-100000]|2026-02-01T00:00:00|Unknown|Unknown|Unknown|1||PENDING"
                    for n in range(3000)
                )
            )
            + SACCT.split(b"\n", 1)[1].replace(b"|a\n", b"\n")
        ),
    ),
    "sacct-json: a job of 200 MB": (
        "sacct-json",
        lambda: gzip_bomb(b'{"meta": {}, "jobs": [\n{"nodes": "', b"n,", 200 * MB),
    ),
    "sacct-json: deep": (
        "sacct-json",
        lambda: b'{"meta": {}, "jobs": [\n{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
    ),
    "sacct: 100,000 lines in a name": (
        "sacct",
        lambda: SACCT_WITH_LINE_BREAKS.replace(b"#c", b"c\n" * 100_000),
    ),
    "pbs: ranges": (
        "pbs",
        lambda: EXAMPLES["pbs"].replace(b"h1/0*8+h2/0-3", b"0-199999" + b",0-199999" * 2999),
    ),
    "swf: 10,000,000 nodes in the header": ("swf", lambda: _swf(3, 4, 10_000_000)),
    "swf: 400 jobs of 5,000,000 nodes": ("swf", lambda: _swf(400, 5_000_000, 10_000_000)),
    "zip bomb": ("any log", _zip_bomb),
    "workload: a gzip bomb": (
        "workload",
        lambda: gzip_bomb(b"job,Tcup,Tcdw,Jmin,Jmax,Pmax,Tsub,model\n", b"a,", 1024 * MB),
    ),
    "node list: a gzip bomb": ("node list", lambda: gzip_bomb(b"n1\n", b"n2 ", 1024 * MB)),
    # Configuration
    "TOML: deep arrays": ("pilot config", lambda: b"a = " + b"[" * 50_000 + b"]" * 50_000),
    "TOML: deep inline tables": (
        "pilot config",
        lambda: b"a = " + b"{a=" * 20_000 + b"1" + b"}" * 20_000,
    ),
    "TOML: deep dotted keys": ("pilot config", lambda: b".".join([b"a"] * 120_000) + b" = 1\n"),
    "TOML: deep table names": ("pilot config", lambda: b"[" + b".".join([b"a"] * 120_000) + b"]\n"),
    "TOML: 5,000 dotted keys": (
        "pilot config",
        lambda: b"\n".join(b"a." * 19 + b"k%d = 1" % n for n in range(5_000)) + b"\n",
    ),
    "TOML: 5,000 keys in long dotted tables": (
        "pilot config",
        lambda: b"\n".join(b"x%d." % n + b"a." * 18 + b"a = 1" for n in range(5_000)) + b"\n",
    ),
    "TOML: a number of 4,301 digits": (
        "pilot config",
        lambda: _PILOT + b"max_nodes = " + b"9" * 4301,
    ),
    "TOML: a number of 4,300 digits": (
        "pilot config",
        lambda: _PILOT + b"max_nodes = " + b"9" * 4300,
    ),
    "TOML: a float of 4,300 digits": (
        "trainer file",
        lambda: _TRAINER + b"priority = " + b"9" * 4300 + b".0",
    ),
    "TOML: a hexadecimal number of 900,000 digits": (
        "pilot config",
        lambda: b"a = 0x" + b"f" * 250_000,
    ),
    "TOML: 250,000 digits": ("trainer file", lambda: b"a = " + b"9" * 250_000),
    "pilot config: 10,000 lists of 200,000 nodes": (
        "pilot config",
        lambda: _PILOT + b"hosts = [" + b'"n[1-200000]", ' * 10_000 + b"]\n",
    ),
    "trainer file: NUL in cwd": ("trainer file", lambda: _TRAINER + b'cwd = "a\\u0000b"\n'),
    "trainer file: NUL in a command": (
        "trainer file",
        lambda: b'name="a"\ncommand=["a\\u0000b"]\nmax_nodes=1\n',
    ),
    "trainer file: = in a variable's name": (
        "trainer file",
        lambda: _TRAINER + b'env = {"A=B" = "1"}\n',
    ),
    "trainer file: NUL in a variable": (
        "trainer file",
        lambda: _TRAINER + b'env = {A = "1\\u0000"}\n',
    ),
    "trainer file: an empty variable's name": (
        "trainer file",
        lambda: _TRAINER + b'env = {"" = "1"}\n',
    ),
    "trainer file: 1.7e308 samples per second": (
        "trainer file",
        lambda: _TRAINER.replace(b"= 1.0", b"= 1.7e308"),
    ),
    "trainer file: NUL in setup": ("trainer file", lambda: _TRAINER + b'setup = ["a\\u0000b"]\n'),
    # Answers of Slurm
    "squeue: one job planned on n[1-99999999]": (
        "slurm.text.parse_pending",
        lambda: _planned("n[1-99999999]"),
    ),
    "squeue: eight pairs of brackets": (
        "slurm.text.parse_pending",
        lambda: _planned("n" + "[1-9]" * 8),
    ),
    "squeue: a padding of 4,000 digits": (
        "slurm.text.parse_pending",
        lambda: _planned("n[" + "0" * 4000 + "1-9999]"),
    ),
    "squeue: n[1-199999,1-199999,...] of 27 kB": (
        "slurm.text.parse_pending",
        lambda: _planned(f"n[1-199999{',1-199999' * 2999}]"),
    ),
    "squeue: 3,000 jobs planned on 199,999 nodes of other names": (
        "slurm.text.parse_pending",
        lambda: _planned(*(f"{_letters(n)}[1-199999]" for n in range(3000))),
    ),
    "squeue: 3,000 jobs planned on 199,999 nodes, one left out": (
        "slurm.text.parse_pending",
        lambda: _planned(*(f"n[1-{n},{n + 2}-199999]" for n in range(1, 3001))),
    ),
    "reservations: 100 of 199,999 nodes of other names": (
        "slurm.text.parse_reservations",
        lambda: b"".join(
            b"ReservationName=r%d StartTime=1 EndTime=2 Nodes=%s[1-199999]\n"
            % (n, _letters(n).encode())
            for n in range(100)
        ),
    ),
    "sbatch --version: 400,000 digits": ("slurm.setup.parse_version", lambda: b"9" * 400_000),
    # What survives a crash
    "journal: deep": ("journal row", lambda: b"[" * 100_000 + b"]" * 100_000),
    "journal: a deep class": (
        "journal row",
        lambda: b'{"$map":[[1,' * 20_000 + b"1" + b"]]}" * 20_000,
    ),
    "journal: a number as a class": ("journal row", lambda: b'{"$": 7}'),
    "journal: a number of 5,000 digits": (
        "journal row",
        lambda: b'{"$":"Event","at_s":' + b"9" * 5000 + b"}",
    ),
    "spool: deep": ("spool", lambda: b"[" * 500_000),
}
