"""Seconds and memory of `characterize`, `advise` and `report` on the logs of real clusters, one process each.

    python tests/bench/site_logs.py [--bftrainer PROGRAM] [--limit SECONDS] [--keep DIR] [LOG ...]

Prints the processor's seconds with one core (two cores take about half of them for the replays) and the peak memory. A command
that takes longer than the limit is ended, and its seconds are followed by a plus. The logs are those of ../shared/data beside
the checkout, or of $BFTRAINER_DATA; one that is missing is left out.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
from pathlib import Path

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"
LOGS = {
    "Summit": ("summit-2021-02/summit-2021-02-events.csv.gz", "--machine-nodes", "4734"),
    "Mira": ("mira-2018-weeks/wk1.log.gz",),
    "Theta": ("theta-lumos-2023/data_theta.csv.gz",),
    "KTH-SP2": ("pwa-swf/KTH-SP2-1996-2.1-cln.swf.gz",),
    "LLNL-Thunder": ("pwa-swf/LLNL-Thunder-2007-1.1-cln.swf.gz",),
    "wagap": ("wagap-2013-nodeids/wagap-2013.swf.gz", "--skip-bad"),
}
COMMANDS = {"characterize": ("replay", "characterize"), "advise": ("advise",), "report": ("replay", "report")}


def measure(program: str, arguments: list[str], limit_s: int) -> tuple[float, float, int]:
    """Seconds of the processor, peak GB, exit status (of a signal: negative)."""
    child = os.fork()
    if not child:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
        os.execvp(program, [program, *arguments])
    _, status, used = os.wait4(child, 0)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6, os.waitstatus_to_exitcode(status)


def main() -> int:
    told = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    told.add_argument("logs", nargs="*", metavar="LOG")
    told.add_argument("--bftrainer", default=str(Path(sys.executable).with_name("bftrainer")))
    told.add_argument("--limit", type=int, default=3600)
    told.add_argument("--keep", type=Path, metavar="DIR", help="Keep what the commands write.")
    told.add_argument("--command", choices=tuple(COMMANDS), action="append")
    options = told.parse_args()
    if unknown := [name for name in options.logs if name not in LOGS]:
        told.exit(2, f"unknown log {unknown[0]!r}; expected one of {', '.join(LOGS)}\n")
    folder = Path(os.environ.get("BFTRAINER_DATA") or BESIDE)
    failed = 0
    for name in options.logs or LOGS:
        path, *more = LOGS[name]
        if not (folder / path).exists():
            print(f"{name}: {path} is missing", flush=True)
            continue
        for command in options.command or COMMANDS:
            with tempfile.TemporaryDirectory() as scratch:
                out = scratch if options.keep is None else str(options.keep / f"{name}-{command}")
                arguments = [*COMMANDS[command], str(folder / path), *more, "--out", out]
                arguments += [] if command == "characterize" else ["--jobs", "1"]
                seconds, gigabytes, status = measure(options.bftrainer, arguments, options.limit)
            plus = "+" if status < 0 else ""
            failed += status > 0
            print(
                f"{name:14} {command:12} {seconds:7.1f}{plus} s {gigabytes:6.2f} GB  exit status {status}", flush=True
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
