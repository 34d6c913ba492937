"""What commands know of the launcher ``restart``: it starts any program."""

from bftrainer.plugin_traits import LauncherTraits, ScriptClue

LAUNCHERS = {
    "restart": LauncherTraits(
        is_default=True,
        starts_scripts_for=("torchrun", "restart"),
        clue=ScriptClue(r"\b(WORLD_SIZE|mpi4py|jax\.distributed|TF_CONFIG|BFTRAINER_HOSTS)\b"),
        group_programs=("mpirun", "mpiexec", "srun"),
        starts_single_workers=True,
        allows_group_programs=True,
    )
}
