"""From the start of a worker to its first step, plainly and from a fork server, with fast and slow imports.

    python tests/bench/_worker_starts.py [--repeat 10] [--launchers torchrun,restart,horovod] [--slow-ms 5]

Local workers, no workers started ahead (``warm = false``): each rescale starts one on a node that has had one before.
Slow imports: a ``sitecustomize`` that waits before each module is read, as a busy parallel file system makes it wait.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from horovod_trainer import CHECKOUT, Trainer

EXAMPLES = {"torchrun": "torch_digits.py", "restart": "torch_digits.py", "horovod": "horovod_digits.py"}
SLOW = """
import importlib.machinery as m, time
for loader, name in ((m.SourceFileLoader, "get_code"), (m.ExtensionFileLoader, "create_module")):
    def wait(self, *arguments, _read=getattr(loader, name)):
        time.sleep({seconds})
        return _read(self, *arguments)
    setattr(loader, name, wait)
"""


def starts_s(folder: Path, launcher: str, forked: bool, slow_s: float, repeat: int) -> list[float]:
    """Seconds from each start to the first step after it."""
    environment = {"BFTRAINER_FORK_SERVER": str(int(forked)), "BFTRAINER_REPORT_EVERY_S": "0"}
    if slow_s:
        (folder / "slow").mkdir(parents=True)
        (folder / "slow/sitecustomize.py").write_text(SLOW.format(seconds=slow_s))
        environment["PYTHONPATH"] = str(folder / "slow")
    words = [sys.executable, str(CHECKOUT / "docs/examples" / EXAMPLES[launcher]), "--epochs=100000", "--step-s=0.02"]
    found: list[float] = []
    with Trainer(folder / "trainer", words, driver=launcher, warm=False, environment=environment) as trainer:
        stays = "localhost:1:1 " if launcher == "horovod" else ""
        size = 2 if stays else 1
        trainer.start(stays.strip() or "localhost:1:2")
        trainer.steps(1, timeout_s=300)
        nodes = itertools.cycle(["2", "3"] if not stays else ["2"])
        for number, node in zip(range(repeat + 2), nodes, strict=False):
            trainer.read()
            seen = len(trainer.events)
            trainer.hosts(f"{stays}localhost:1:{node}")
            if number or stays:  # without `stays` the first node is the one that trains

                def first(seen: int = seen, node: str = node) -> float | None:
                    for event in trainer.events[seen:]:
                        if event["event"] == "worker_started" and event["fragment"] == node:
                            steps = [
                                x["time"]
                                for x in trainer.progress
                                if x["world_size"] == size and x["time"] > event["time"]
                            ]
                            return min(steps) - event["time"] if steps else None
                    return None

                took_s = trainer.until("a first step", first, timeout_s=300)
                if number >= 2 - (size - 1):
                    found.append(took_s)
            if stays:
                trainer.hosts(stays.strip())
                trainer.steps(1, count=3, timeout_s=300)
    return found


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser()
    options.add_argument("--repeat", type=int, default=10)
    options.add_argument("--launchers", default="torchrun,restart,horovod")
    options.add_argument("--slow-ms", type=float, default=5.0)
    chosen = options.parse_args()
    print("| launcher | imports | start | median | p95 | starts |\n|---|---|---|---|---|---|")
    for launcher in chosen.launchers.split(","):
        for slow_s in (0.0, chosen.slow_ms / 1000):
            for forked in (False, True):
                with tempfile.TemporaryDirectory() as folder:
                    took = sorted(starts_s(Path(folder), launcher, forked, slow_s, chosen.repeat))
                p95 = took[min(len(took) - 1, int(0.95 * len(took)))]
                words = ["slow" if slow_s else "fast", "forked" if forked else "plain"]
                print(
                    f"| {launcher} | {words[0]} | {words[1]} | {statistics.median(took):.2f} s | {p95:.2f} s | {len(took)} |"
                )
                sys.stdout.flush()


if __name__ == "__main__":
    os.environ.setdefault("PATIENCE", "3")
    main()
