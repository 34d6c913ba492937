"""Records the journals of ``journal/``: PYTHONPATH=tests python tests/recorded/record_journals.py

Pilots run over a cluster in memory and write them. Run this after a change of the format, and look
at what has changed. Only the tables of the journal keep their rows: those of the others name
processes and folders of the machine.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from support.live_house import House, house, spec

from bftrainer.cluster.model import Availability, Device, NodeView
from bftrainer.pilot.persistence.store import DB_NAME

FOLDER = Path(__file__).with_name("journal")
JOURNALS: Mapping[str, dict[str, dict[str, Any]]] = {
    "bftrainer": {"decisions": {"gather_s": 0.0, "max_parallel": 3}},
    "bftrainer-learning": {"learning": {"window_s": 2.0}},
    "flowcon-guarded-classes": {
        "decisions": {"policy": "flowcon?interval_s=2&guard_hours=0.0005", "max_parallel": 3},
        "classes": {"fast": {"gpu": "a100"}, "slow": {"gpu": "v100"}},
    },
    "loss-phase": {
        "decisions": {"policy": "loss-phase?iterations=20&batch_samples=1", "max_parallel": 3}
    },
    "cohort": {"decisions": {"policy": "cohort"}},
}
"""By name: the pilot's configuration."""
KEPT = ("meta", "settings", "journal", "states", "last_state")


def recorded(tables: dict[str, dict[str, Any]]) -> str:
    """The SQL that makes the database of a pilot which ran twice."""
    with tempfile.TemporaryDirectory() as folder:
        home = house(Path(folder) / "state", **tables)
        run(home)
        with closing(sqlite3.connect(home.path / DB_NAME)) as database:
            for (table,) in database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            ).fetchall():
                if table not in KEPT:
                    database.execute(f"DELETE FROM {table}")
            database.commit()
            return "\n".join((*database.iterdump(), ""))


def run(home: House) -> None:
    """Nodes come and go, trainers are submitted and report, and one finishes. A second pilot begins
    with the memory of the first.
    """
    if "classes" in home.tables:
        for number in range(1, 7):
            devices = (Device("a100" if number % 2 else "v100", 1),)
            view = NodeView(f"n{number}", Availability.FREE, ("gpu",), devices)
            home.cluster.hardware[view.name] = view
    home.cluster.give("n1", "n2", "n3")
    home.submit(*(trainer(name, rate) for name, rate in (("a", 20.0), ("b", 10.0), ("c", 5.0))))
    for second in range(1, 60):
        home.at(float(second), lambda: report(home))
    home.at(6.0, lambda: home.cluster.give("n4", "n5", "n6"))
    home.at(10.0, lambda: home.submit(trainer("d", 8.0)))
    home.at(14.0, lambda: home.cluster.take("n2"))
    home.at(18.0, lambda: home.cluster.take("n3"))
    home.at(20.0, lambda: home.launcher.finish("a"))
    home.pilot(24)
    home.at(4.0, lambda: home.cluster.give("n2"))
    home.at(7.0, lambda: home.cluster.take("n5"))
    home.at(9.0, lambda: home.launcher.finish("b"))
    home.submit(trainer("e", 4.0))
    home.pilot(16)


def trainer(name: str, samples_per_s: float) -> Any:
    return spec(
        name, max_nodes=3, samples_per_s=samples_per_s, samples_total=1e5, reports_loss=True
    )


def report(home: House) -> None:
    """Every trainer that runs has processed ten samples on each node in the last second."""
    for name, driver in home.launcher.drivers.items():
        if driver.view.alive and driver.view.on:
            samples = (driver.view.samples or 0.0) + 10.0 * len(driver.view.on)
            home.launcher.progress(name, samples, loss=100.0 / (samples + 10.0))


if __name__ == "__main__":
    for name, tables in JOURNALS.items():
        (FOLDER / f"{name}.sql").write_text(recorded(tables), encoding="utf-8")
