"""A worker that ignores SIGTERM and every request, with a child in a session of its own: ``FILE``,
which says that it is up.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) > 1:
    subprocess.Popen([sys.executable, __file__], start_new_session=True)
    Path(sys.argv[1]).write_text(str(os.getpid()))
while True:
    time.sleep(0.1)
