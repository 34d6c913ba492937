"""``scontrol show config``: asked rarely, since it costs slurmctld two calls and changes with a
reconfiguration only.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bftrainer.errors import CommandError
from bftrainer.system import command
from bftrainer_clusters.slurm.clusters import of_cluster
from bftrainer_clusters.slurm.setup import config_argv

KEPT_S = 900.0
# The last line of a whole answer. scontrol pings the controllers for it, and exits with 1 if a ping
# is refused.
_LAST_LINE = re.compile(r"^Slurmctld\(\S+\) at \S+ is (UP|DOWN)$", re.MULTILINE)


def config_text(timeout_s: float, env: Mapping[str, str], cluster: str = "") -> str:
    """Run ``scontrol show config`` for this cluster and return its output. Raises ``CommandError``.

    An answer that is whole counts although scontrol exits with 1 (a rate limit refused its ping).
    """
    argv = of_cluster(config_argv(), cluster)
    output = command.outcome(argv, timeout_s=timeout_s, env=env)
    is_whole = "SLURM_VERSION" in output.out and _LAST_LINE.search(output.out) is not None
    if output.status not in (0, 1) or (output.status == 1 and not is_whole):
        raise command.failure(argv, output)
    return output.out


@dataclass
class KeptConfig:
    """The configuration as it was at most :data:`KEPT_S` ago, or longer ago while slurmctld does
    not answer.
    """

    elapsed_s: Callable[[], float] = time.monotonic
    cluster: str = ""
    _text: str = ""
    _until_s: float = field(default=float("-inf"))

    def text(
        self, timeout_s: float, env: Mapping[str, str], asks: Callable[[], None] = lambda: None
    ) -> str:
        """Return the configuration; it is read again after :data:`KEPT_S`, and ``asks`` is called
        before that. Where it cannot be read, the latest text counts; raises ``CommandError`` if
        there is none.
        """
        if self.elapsed_s() >= self._until_s:
            asks()
            try:
                self._text = config_text(timeout_s, env, self.cluster)
            except CommandError:
                if not self._text:
                    raise
            else:
                self._until_s = self.elapsed_s() + KEPT_S
        return self._text

    @property
    def latest(self) -> str:
        """The configuration as it was read last; empty before that."""
        return self._text

    def forget(self) -> None:
        """Read the configuration again at the next call of :meth:`text`."""
        self._until_s = float("-inf")
