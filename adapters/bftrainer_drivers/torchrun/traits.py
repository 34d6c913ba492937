"""What commands know of the launcher ``torchrun``."""

from bftrainer.plugin_traits import LauncherTraits, ScriptClue

_CLUE = (
    r"\b(init_process_group|init_device_mesh|init_distributed|torch\.distributed|progress\.torch)\b"
    r"|^\s*(?:import|from) (accelerate|deepspeed|lightning|pytorch_lightning|transformers)\b"
)
LAUNCHERS = {
    "torchrun": LauncherTraits(
        starts_scripts_for=("torchrun", "restart"),
        clue=ScriptClue(_CLUE, rank=30),
        group_programs=("torchrun",),
        group_modules=("torch.distributed.run", "torch.distributed.launch"),
        starts_single_workers=True,
    )
}
