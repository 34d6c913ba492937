"""A worker of pool.py: squares, and a line (task, pid, time) as each task begins; ``pool_worker.py
PACE_S TASKS``.
"""

import os
import sys
import time

from bftrainer.progress.tasks import tasks

begins = os.open("begins", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for task in tasks(range(1, int(sys.argv[2]) + 1), results="out.jsonl"):
    os.write(begins, f"{task.id} {os.getpid()} {time.time()}\n".encode())
    time.sleep(float(sys.argv[1]))
    task.done(task.value**2)
