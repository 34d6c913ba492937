"""Trials of Optuna as tasks of a pool: each worker asks the study for parameters, and tells it the
value.
"""

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from bftrainer.progress.tasks import tasks


def objective(trial):
    """The value to be made small."""
    x, layers = trial.suggest_float("x", -10, 10), trial.suggest_int("layers", 1, 3)
    return (x - 2) ** 2 + layers


study = optuna.create_study(
    study_name="search",
    storage=JournalStorage(JournalFileBackend("study.log")),
    load_if_exists=True,
)
for task in tasks(range(100), results="trials.jsonl"):
    trial = study.ask()
    value = objective(trial)
    study.tell(trial, value)
    task.done({"trial": trial.number, "value": value, **trial.params})
