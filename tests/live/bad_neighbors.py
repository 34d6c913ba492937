"""Node-hours of three healthy trainers beside broken ones, with a real pilot and real workers.

    python tests/live/bad_neighbors.py [--seconds 120] [--kinds crash memory hang log]

The healthy trainers have two nodes each of a recorded log's seven. A broken one may have the
seventh: it crashes at once, is killed as if for its memory, hangs before its first step, or writes
1 GB to its log in a minute while it trains. Counted are the node-hours of the healthy ones from the
submission of the broken one on, by what the pilot has registered, as a share of their six nodes.
(What a broken trainer costs that takes nodes of others is in test_bad_neighbors.py.)
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.command_line import bftrainer
from support.live_machine import CONFIG, Machine, eventually, machine

from bftrainer.pilot.persistence.registry import Registry
from bftrainer.pilot.persistence.store import open_store

GOOD = ("good0", "good1", "good2")
NODES_EACH = 2
FIRST_STEP_S = 15
LOG_BYTES_S = 2**30 / 60
REPORTS = "from bftrainer.progress import Reporter; report = Reporter()\n"
BROKEN = {
    "crash": REPORTS + "raise RuntimeError('broken')",
    "memory": REPORTS + "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "hang": REPORTS + "import time; time.sleep(1e6)",
    "log": REPORTS
    + f"""
import time
from pathlib import Path
line = b"x" * 99 + b"\\n"
began_s, written, step = time.monotonic(), 0, 0
with open("/dev/stdout", "wb") as out:
    while True:
        while written < (time.monotonic() - began_s) * {LOG_BYTES_S}:
            written += out.write(line * 1000)
        step += 1
        Path("written").write_text(str(written))
        if report.step(step=step, samples=step):
            report.leave()
        time.sleep(0.02)
""",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--kinds", nargs="+", choices=sorted(BROKEN), default=list(BROKEN))
    options = parser.parse_args()
    reference = 0.0
    for kind in ("", *options.kinds):
        with tempfile.TemporaryDirectory() as folder:
            shares, note = measure(Path(folder, "machine"), kind, options.seconds)
        reference = reference or sum(shares)
        each = "  ".join(f"{share:7.2%}" for share in shares)
        print(
            f"{kind or 'alone':8} {each}   {sum(shares) / reference - 1:+7.2%}   {note}", flush=True
        )


def measure(path: Path, kind: str, seconds: float) -> tuple[list[float], str]:
    """Return each healthy trainer's share of its nodes' time, and how the broken one stands."""
    path.mkdir()
    nodes = " ".join(f"n{number}" for number in range(NODES_EACH * len(GOOD) + 1))
    config = CONFIG.replace("notice_s = 0", f"notice_s = 0\nfirst_step_s = {FIRST_STEP_S}")
    with machine(path, nodes, config) as on:
        for name in GOOD:
            on.submit(name, 10**6, 0.1, NODES_EACH)
        pilot = on.pilot()
        eventually(lambda: all(trains(on, name) for name in GOOD), 300)
        if kind:
            submit(on, kind)
        began_s, before = next_usage(on)
        time.sleep(seconds)
        ended_s, after = next_usage(on)
        window_s = ended_s - began_s
        note = "" if not kind else standing(on, kind)
        on.end(pilot)
    used = [end - begin for begin, end in zip(before, after, strict=True)]
    return [node_s / (NODES_EACH * window_s) for node_s in used], note


def submit(on: Machine, kind: str) -> None:
    (on.work / "broken.py").write_text(BROKEN[kind])
    options = ["--name", kind, "--max-nodes", 1, "--samples-per-s", 10, "--cwd", on.work]
    program = [sys.executable, "broken.py"]
    ended = bftrainer("submit", *options, "--state", on.state, "--", *program)
    assert ended.status == 0, ended


def trains(on: Machine, name: str) -> bool:
    """Whether a trainer has its nodes, and made steps on them."""
    sizes = [line.split()[2] for line in lines_of(on.work / f"{name}.steps")]
    return sizes[-10:] == [str(NODES_EACH)] * 10


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def next_usage(on: Machine) -> tuple[float, list[float]]:
    """Wait until the pilot has written the usage, which it does every few seconds; return when that
    was, and the node-seconds.
    """
    before = trained_node_s(on)
    while (usage := trained_node_s(on)) == before:
        time.sleep(0.05)
    return time.monotonic(), usage


def trained_node_s(on: Machine) -> list[float]:
    with closing(open_store(on.state)) as store:
        registry = Registry(store)
        return [registry.trainer(name).trained_node_s for name in GOOD]


def standing(on: Machine, kind: str) -> str:
    with closing(open_store(on.state)) as store:
        record = Registry(store).trainer(kind)
    logs = sum(path.stat().st_size for path in on.state.glob(f"trainers/{kind}/logs/**/*.log*"))
    path = on.work / "written"
    written = int(path.read_text() or 0) if path.exists() else 0
    text = f"{record.status.value} {record.reason[:70]}"
    return f"{text} (wrote {written / 1e6:.0f} MB, kept {logs / 1e6:.1f} MB)"


if __name__ == "__main__":
    main()
