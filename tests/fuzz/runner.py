"""``make fuzz``: mutations of samples for every reader, each reader in a process of its own with
little memory.

    python tests/fuzz/runner.py [--seconds 60] [--seed 0] [--readers A,B] [--attacks]

A child has a limit of address space beyond what it has after its imports; an input may take
``HANG_S`` seconds of CPU time. The table shows the inputs tried, what was read and what was
refused, the findings and the peak memory. Each finding is written to ``build/fuzz`` (or a new
folder of temporary files if that cannot be written). The exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

from fuzz.attacks import ATTACKS  # noqa: E402
from fuzz.mutate import mutated  # noqa: E402
from fuzz.readers import Reader, readers  # noqa: E402

from bftrainer.errors import BFTrainerError  # noqa: E402

MB = 1 << 20
ROOM_BYTES = 1024 * MB
"""Address space that an input may take."""
HANG_S = 30.0
"""CPU time that an input may take: most take less than 1 s; a busy machine doubles that."""
STUCK_S = 120.0
"""After this much real time the child is killed: it hangs in C, or waits."""
CORPUS = Path(__file__).parent / "corpus"
FOUND = TESTS.parent / "build" / "fuzz"


_DIGITS = re.compile(r"\d+(?= characters)")


class HangError(Exception):
    """The input takes too long."""


def memory_mb(field: str) -> float:
    """VmHWM (peak), VmRSS or VmSize of this process."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) / 1024


def _alarm(number: int, frame: FrameType | None) -> None:
    raise HangError(f"takes more than {HANG_S:g} s of CPU time")


def tried(reader: Reader, data: bytes, folder: Path) -> tuple[str, str]:
    """("read" | "refused" | "finding", what happened) for one input."""
    signal.setitimer(signal.ITIMER_PROF, HANG_S)
    try:
        reader.read(data, folder)
    except BFTrainerError as error:
        told = str(error)
        if not isinstance(error, reader.clean):
            return (
                "finding",
                f"{type(error).__name__} instead of {reader.clean.__name__}: {told[:200]}",
            )
        if "\n" in told or "\r" in told or len(told) > 3000:
            return (
                "finding",
                f"a message of {len(told)} characters or several lines: {told[:200]!r}",
            )
        return "refused", told
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        where = traceback.extract_tb(error.__traceback__)[-1] if error.__traceback__ else None
        place = f"{Path(where.filename).name}:{where.lineno}" if where else "?"
        return "finding", f"{type(error).__name__} at {place}: {str(error)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "read", ""


def limit_memory(room: int = ROOM_BYTES) -> None:
    """From now on this process may have ``room`` bytes of address space more than it has."""
    now = int(memory_mb("VmSize") * MB)
    resource.setrlimit(resource.RLIMIT_AS, (now + room, now + room))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def warm_up(reader: Reader, folder: Path) -> list[bytes]:
    """The samples that can be read. Imports happen here, where memory is not limited yet."""
    good = []
    for sample in reader.samples:
        outcome, told = tried(reader, sample, folder)
        if outcome == "finding":
            print(json.dumps({"sample": told}), flush=True)
        if outcome == "read":
            good.append(sample)
    return good


def child(names: list[str], seed: int, seconds: float, count: int, folder: Path) -> None:
    """Fuzz readers one after the other, each for ``seconds`` or with ``count`` inputs. Prints the
    results as JSON.

    The present input is in ``folder/input``, its reader in ``folder/reader``.
    """
    signal.signal(signal.SIGPROF, _alarm)
    faulthandler.enable()
    good = {name: warm_up(readers()[name], folder) for name in names}
    limit_memory()
    results = {}
    for name in names:
        (folder / "reader").write_text(name)
        results[name] = _fuzzed(
            readers()[name], good[name], random.Random(f"{seed}:{name}"), seconds, count, folder
        )
    print(json.dumps(results), flush=True)


def _fuzzed(
    reader: Reader, good: list[bytes], rng: random.Random, seconds: float, count: int, folder: Path
) -> dict[str, Any]:
    before_mb = memory_mb("VmRSS")
    corpus = tuple(path.read_bytes() for path in sorted((CORPUS / slug(reader.name)).glob("*")))
    samples = (*reader.samples, *corpus)
    totals = {"read": 0, "refused": 0, "finding": 0}
    findings: dict[str, str] = {}
    slowest_s, number, until = 0.0, 0, time.monotonic() + seconds
    while time.monotonic() < until if seconds else number < count:
        if number < len(samples):
            data = samples[-1 - number]  # those of the corpus first
        else:
            sample = rng.choice(good if good and rng.random() < 0.8 else samples)
            data = mutated(rng, sample, samples, reader.is_json)
        number += 1
        (folder / "input").write_bytes(data)
        faulthandler.dump_traceback_later(STUCK_S, exit=True)
        began = time.process_time()
        outcome, told = tried(reader, data, folder)
        slowest_s = max(slowest_s, time.process_time() - began)
        totals[outcome] += 1
        key = _DIGITS.sub("N", told.partition(": ")[0])
        if outcome == "finding" and len(findings) < 20 and key not in findings:
            findings[key] = told
            kept(reader.name, data, told)
    faulthandler.cancel_dump_traceback_later()
    peak_mb = round(max(memory_mb("VmHWM") - before_mb, 0))
    found = list(findings.values())
    return {
        "inputs": number,
        **totals,
        "findings": found,
        "slowest_s": round(slowest_s, 2),
        "peak_mb": peak_mb,
    }


def attacks(reader_name: str, room: int) -> dict[str, dict[str, Any]]:
    """The named attacks on one reader: of each the outcome, MB and seconds. Each has a fork of this
    process.
    """
    reader = readers()[reader_name]
    signal.signal(signal.SIGPROF, _alarm)
    faulthandler.enable()
    results = {}
    with tempfile.TemporaryDirectory(prefix="bftrainer-fuzz.") as folder:
        warm_up(reader, Path(folder))
        for name, (of, make) in ATTACKS.items():
            if of != reader_name:
                continue
            said = Path(folder, "result")
            said.unlink(missing_ok=True)
            if (child := os.fork()) == 0:
                said.write_text(json.dumps(_attacked(reader, make(), Path(folder), room)))
                os._exit(0)
            _, status = os.waitpid(child, 0)
            died = {
                "outcome": "finding",
                "told": f"the process died: wait status {status}",
                "bytes": 0,
                "s": 0.0,
                "mb": 0,
            }
            results[name] = died if status or not said.exists() else json.loads(said.read_text())
    return results


def _attacked(reader: Reader, data: bytes, folder: Path, room: int) -> dict[str, Any]:
    limit_memory(room)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before_mb, began = memory_mb("VmRSS"), time.process_time()
    faulthandler.dump_traceback_later(STUCK_S, exit=True)
    outcome, told = tried(reader, data, folder)
    took_s, peak_mb = time.process_time() - began, memory_mb("VmHWM") - before_mb
    return {
        "outcome": outcome,
        "told": told,
        "bytes": len(data),
        "s": round(took_s, 2),
        "mb": round(peak_mb),
    }


def kept(name: str, data: bytes, told: str) -> None:
    """Write a finding, with what happened beside it."""
    try:
        (folder := FOUND / slug(name)).mkdir(parents=True, exist_ok=True)
    except PermissionError:  # somebody else's checkout
        folder = Path(tempfile.mkdtemp(prefix=f"{slug(name)}."))
    digest = hashlib.sha256(data).hexdigest()[:12]
    (folder / digest).write_bytes(data)
    (folder / f"{digest}.txt").write_text(f"{told}\n", errors="backslashreplace")


def slug(name: str) -> str:
    return name.replace(" ", "-")


def run_child(*arguments: str, timeout_s: float) -> tuple[dict[str, Any] | None, str]:
    """(the child's result, or None; what it said) of this script with these arguments."""
    command = [sys.executable, __file__, *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return None, f"no end within {timeout_s:g} s"
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return None, f"status {done.returncode}: {done.stderr.strip()[:1500]}"
    return json.loads(lines[-1]), "\n".join(lines[:-1])


def fuzz(names: list[str], seed: int, seconds: float, count: int = 0) -> dict[str, dict[str, Any]]:
    """Fuzz readers in one child, each for ``seconds`` or with ``count`` inputs. A child that dies
    is a finding, too.
    """
    with tempfile.TemporaryDirectory(prefix="bftrainer-fuzz.") as folder:
        arguments = (
            "--child",
            ",".join(names),
            "--seed",
            str(seed),
            "--seconds",
            str(seconds),
            "--count",
            str(count),
        )
        limit_s = len(names) * (seconds + count * HANG_S) + 2 * STUCK_S
        results, told = run_child(*arguments, "--folder", folder, timeout_s=limit_s)
        if results is None:
            last, reader = Path(folder, "input"), Path(folder, "reader")
            name = reader.read_text() if reader.exists() else names[0]
            if last.exists():
                kept(name, last.read_bytes(), told)
            died: dict[str, Any] = {
                "inputs": 0,
                "read": 0,
                "refused": 0,
                "finding": 1,
                "slowest_s": 0.0,
                "peak_mb": 0,
            }
            return {name: died | {"findings": [f"the process died: {told}"]}}
        if told:
            results[names[-1]]["findings"].append(f"a sample is not read: {told}")
    return results


def table(results: dict[str, dict[str, Any]]) -> str:
    """The results as a table."""
    rows = [
        f"{'reader':<28} {'inputs':>8} {'read':>8} {'refused':>8} {'unclean':>8} "
        f"{'slowest s':>9} {'peak MB':>8}"
    ]
    for name, found in results.items():
        rows.append(
            f"{name:<28} {found['inputs']:>8,} {found['read']:>8,} {found['refused']:>8,} "
            f"{found['finding']:>8,} "
            f"{found['slowest_s']:>9.2f} {found['peak_mb']:>8,}"
        )
        rows += [f"    ! {each}" for each in found["findings"]]
    total = sum(found["inputs"] for found in results.values())
    unclean = sum(found["finding"] for found in results.values())
    hangs = sum(
        "HangError" in each or "no end" in each
        for found in results.values()
        for each in found["findings"]
    )
    peak = max((found["peak_mb"] for found in results.values()), default=0)
    rows.append(
        f"{total:,} inputs, {unclean:,} unclean, {hangs} kinds of hangs, peak {peak:,} MB over "
        "the imports"
    )
    return "\n".join(rows)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for all readers together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--readers", help="these only, separated by commas")
    parser.add_argument(
        "--attacks", action="store_true", help="the named attacks instead of mutations"
    )
    parser.add_argument(
        "--room-mb", type=int, default=ROOM_BYTES // MB, help="memory that an attack may take"
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--attack", help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child.split(","), given.seed, given.seconds, given.count, given.folder)
        return 0
    if given.attack:
        print(json.dumps(attacks(given.attack, given.room_mb * MB)))
        return 0
    chosen = given.readers.split(",") if given.readers else None
    if given.attacks:
        return _attacks(chosen, given.room_mb)
    names = chosen or list(readers())
    results: dict[str, dict[str, Any]] = {}
    for name in names:
        results |= fuzz([name], given.seed, given.seconds / len(names))
        print(table({name: results[name]}).split("\n", 1)[1].rpartition("\n")[0], flush=True)
    print()
    print(table(results))
    return 1 if any(found["findings"] for found in results.values()) else 0


def attacked_readers() -> list[str]:
    """The readers that have named attacks."""
    return list(dict.fromkeys(reader for reader, _ in ATTACKS.values()))


def run_attacks(reader: str, room_mb: int) -> dict[str, dict[str, Any]]:
    """The named attacks on a reader, in a child."""
    limit_s = STUCK_S * (1 + sum(of == reader for of, _ in ATTACKS.values()))
    results, told = run_child("--attack", reader, "--room-mb", str(room_mb), timeout_s=limit_s)
    if results is None:
        return {reader: {"outcome": "finding", "told": told, "bytes": 0, "s": 0.0, "mb": 0}}
    return results


def _attacks(chosen: list[str] | None, room_mb: int) -> int:
    bad = 0
    print(f"{'attack':<58} {'bytes':>10} {'s':>7} {'MB':>7}  outcome")
    for reader in chosen or attacked_readers():
        for name, result in run_attacks(reader, room_mb).items():
            bad += result["outcome"] == "finding"
            print(
                f"{name:<58} {result['bytes']:>10,} {result['s']:>7.2f} {result['mb']:>7,}  "
                f"{result['outcome']}: {result['told'][:150]}",
                flush=True,
            )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
