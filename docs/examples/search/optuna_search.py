"""Optuna asks, idle nodes answer: each trial is a trainer, and several run at once.

    python docs/examples/search/optuna_search.py --trials 40 --at-once 8

A pilot must be running on the state directory ($BFTRAINER_STATE). Started again after an
interruption, the search continues: the study is on disk, and trials that were submitted are found
by name.
"""

import argparse
from pathlib import Path

import optuna
from optuna.distributions import FloatDistribution, IntDistribution

import bftrainer

options = argparse.ArgumentParser()
options.add_argument("--trials", type=int, default=40)
options.add_argument("--at-once", type=int, default=8)
options.add_argument(
    "--study", default="search", help="name of the study, and group of its trainers"
)
options.add_argument("--storage", default="sqlite:///search.db")
options = options.parse_args()

FILE = Path(__file__).with_name("trial.toml")
study = optuna.create_study(
    study_name=options.study,
    storage=options.storage,
    load_if_exists=True,
    direction="maximize",
    sampler=optuna.samplers.TPESampler(seed=1),
)
there = {handle.name: handle for handle in bftrainer.trainers(group=options.study)}
running = {}


def start(number, parameters):
    """Submit a trial, or find the trainer that an interrupted search submitted."""
    name = f"{options.study}-{number}"
    handle = there.get(name) or bftrainer.submit(
        FILE, name=name, group=options.study, parameters=parameters
    )
    running[handle] = number


for trial in study.get_trials(states=[optuna.trial.TrialState.RUNNING]):
    start(trial.number, trial.params)
while True:
    while len(running) < options.at_once and len(study.trials) < options.trials:
        trial = study.ask(
            {"lr": FloatDistribution(1e-3, 3, log=True), "hidden": IntDistribution(4, 64, log=True)}
        )
        start(trial.number, trial.params)
    if not running:
        break
    handle = next(bftrainer.as_completed(running))
    number, result = running.pop(handle), handle.result(check=False)
    if result.ok:
        study.tell(number, result.most("accuracy"))
    else:
        study.tell(number, state=optuna.trial.TrialState.FAIL)
    print(
        f"{handle.name}: {result.status.value}",
        *(f"{k}={v.most:.3f}" for k, v in result.metrics.items()),
        flush=True,
    )
print(
    f"best: {study.best_trial.number} with accuracy {study.best_value:.3f} at {study.best_params}"
)
