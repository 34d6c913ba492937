"""Records trainer directories with the modules of bftrainer 0.1.0 as of commit 43bb293, which wrote version 1 (README.md).

It cannot run with the present modules, and need not: what it wrote is beside it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bftrainer.live.launcher import DirectoryLauncher, Place
from bftrainer.live.reports import View, after_events, after_progress
from bftrainer.scaling import Scaling
from bftrainer.trainer_file import StartedPer, TrainerSpec

HERE = Path(__file__).parent
FILES = ("trainer.json", "driver.json", "hosts", "control", "leave", "driver.pid", "events.jsonl", "progress.jsonl")
PROGRAM = """
import os, signal, time
from bftrainer.progress import Reporter
signal.signal(signal.SIGUSR2, signal.SIG_IGN)
report = Reporter()
for step in range(100_000):
    if report.step(step=step, samples=32 * step, loss=1 / (1 + step), world_size=int(os.environ["WORLD_SIZE"])):
        report.checkpointed()
        report.leave()
    time.sleep(0.05)
"""


def first_of(count: int) -> list[Place]:
    return [Place(f"n{number}", 1, f"f{number}") for number in range(1, count + 1)]


class Story:
    def __init__(self, root: Path, name: str, command: list[str], **keys: object) -> None:
        driver = {key: keys.pop(key) for key in ("hang_s",) if key in keys}
        self.launcher = DirectoryLauncher(
            root, {"poll_s": 0.05, "allow_from": ["127.0.0.0/8"], "interface": "lo", **driver}
        )
        work = root / "work" / name
        work.mkdir(parents=True, exist_ok=True)
        table = {"command": tuple(command), "max_nodes": 4, "samples_per_s": 1.0, "stop_s": 60.0, "inherit": (), **keys}
        self.spec = TrainerSpec.model_validate({"name": name, "cwd": work, **table})
        self.path = root / name

    def start(self, places: list[Place]) -> None:
        self.launcher.start(self.spec, places)

    def order(self, places: list[Place]) -> None:
        self.launcher.order(self.spec.name, places)

    def until(self, holds: Callable[[View], object]) -> View:
        give_up = time.monotonic() + 120
        while not holds(view := self.launcher.look(self.spec.name)):
            assert time.monotonic() < give_up, (self.spec.name, view)
            time.sleep(0.02)
        return view

    def on(self, *fragments: str) -> None:
        self.until(lambda view: view.on == frozenset(fragments) and view.trains)

    def ended(self) -> None:
        self.until(lambda view: view.ending is not None and not view.alive)

    def signal_all(self, number: int, fragment: str | None = None) -> None:
        for where, pid in self.launcher.look(self.spec.name).with_workers:
            if fragment in (None, where):
                os.kill(pid, number)

    def keep(self) -> None:
        out = HERE / self.spec.name
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        for name in FILES:
            if (self.path / name).exists():
                shutil.copyfile(self.path / name, out / name)
        trainer = (out / "trainer.json").read_text()
        (out / "trainer.json").write_text(trainer.replace(str(self.path.parent), "trainers"))  # no path of one machine
        view, views = View(), []
        lines = [(json.loads(line)["time"], name, json.loads(line)) for name in FILES[-2:] for line in read(out / name)]
        for _, name, line in sorted(lines, key=lambda found: found[0]):
            view = (after_events if name == FILES[-2] else after_progress)(view, [line])
            views.append({"file": name, "line": line, "view": plain(view)})
        with (out / "views.jsonl").open("w") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in views)


def read(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def plain(view: View) -> dict[str, object]:
    found = dataclasses.asdict(view)
    sets = {name: sorted(found[name]) for name in ("on", "with_workers", "withheld")}
    return found | sets | {"ending": view.ending and view.ending.value, "tail": list(view.tail)}


def main(root: Path, checkout: Path) -> None:
    script = root / "work" / "train.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(PROGRAM)

    it = Story(root, "restart-stopped", ["python", str(script)], env={"A": "1"}, stop_signal="SIGUSR2")
    it.start(first_of(2))
    it.on("f1", "f2")
    it.signal_all(signal.SIGKILL, "f2")
    it.on("f1")
    it.order([first_of(1)[0], Place("n3", 1, "f3")])
    it.on("f1", "f3")
    it.launcher.ask_to_stop(it.spec.name)
    it.ended()
    it.keep()

    it = Story(root, "restart-killed", ["python", str(script)])
    it.start(first_of(1))
    it.on("f1")
    it.launcher.kill(it.spec.name)
    it.ended()
    it.keep()

    it = Story(root, "restart-hung", ["python", str(script)], hang_s=4.0)
    it.start(first_of(1))
    it.on("f1")
    it.signal_all(signal.SIGSTOP)
    it.until(lambda view: view.incarnation == 2)
    it.on("f1")
    it.order([])
    it.ended()
    it.keep()

    it = Story(root, "restart-failed", ["python", "-c", "import sys; print('no data'); sys.exit(3)"], min_nodes=2)
    it.start(first_of(2))
    it.ended()
    it.keep()

    it = Story(
        root,
        "restart-done",
        ["python", "-c", "pass"],
        started_per=StartedPer.TRAINER,
        stage_in=("true",),
        setup=("true",),
        samples_total=10.0,
    )
    it.start(first_of(1))
    it.ended()
    it.keep()

    for launcher, example in (("torchrun", "torch_digits.py"), ("horovod", "horovod_digits.py")):
        shutil.copyfile(checkout / "docs/examples" / example, root / "work" / example)
        command = ["python", str(root / "work" / example), "--epochs=100000", "--step-s=0.02"]
        it = Story(
            root,
            launcher,
            command,
            launcher=launcher,
            scaling=Scaling.STRONG,
            global_batch=32,
            env={"OMP_NUM_THREADS": "1"},
        )
        it.start(first_of(1))
        it.on("f1")
        it.order(first_of(3))
        it.until(lambda view: any(fragment == "f3" for fragment, _ in view.with_workers))
        it.order(first_of(2))
        it.on("f1", "f2")
        it.launcher.ask_to_stop(it.spec.name)
        it.ended()
        it.keep()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
