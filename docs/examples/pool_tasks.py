"""Tasks that do not talk to each other, for the launcher ``pool``. By itself the script does all of
them.
"""

import argparse
import time

from bftrainer.progress.tasks import tasks

options = argparse.ArgumentParser()
options.add_argument("--tasks", type=int, default=100)
options.add_argument("--pace-s", type=float, default=0.0, help="how long a task takes")
given = options.parse_args()
for task in tasks(range(given.tasks), results="squares.jsonl"):
    time.sleep(given.pace_s)
    task.done(task.value**2)
print(f"{given.tasks} steps are done")
