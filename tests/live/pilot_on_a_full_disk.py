"""The real pilot in a process of its own whose disk is full as soon as a file appears: ``STATE_DIR
FILE``.
"""

import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

from bftrainer.console.cli.main import run

state, sign = sys.argv[1], Path(sys.argv[2])


def fill() -> None:
    """No file of this process grows beyond its first bytes from now on: EFBIG, which SQLite reports
    like a full disk.
    """
    while not sign.exists():
        time.sleep(0.02)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, resource.RLIM_INFINITY))


# What it says goes through another process: only its own files are limited.
out = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
assert out.stdin is not None
for stream in (1, 2):
    os.dup2(out.stdin.fileno(), stream)
threading.Thread(target=fill, daemon=True).start()
status = run(["pilot", "--state", state])
resource.setrlimit(
    resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
)  # for `make coverage`
sys.exit(status)
