"""What commands know of the launcher ``torchft``."""

from bftrainer.plugin_traits import LauncherTraits, ScriptClue

LAUNCHERS = {
    "torchft": LauncherTraits(
        starts_scripts_for=("torchft", "restart"),
        # Its scripts may name torch.distributed as well.
        clue=ScriptClue(r"\b(torchft|progress\.replicas)\b", rank=10),
    )
}
