"""What commands know of the site ``pbs`` before they load it."""

from bftrainer.plugin_traits import SiteTraits

_NO_PYXIS = "needs Slurm's pyxis, and the pilot is PBS's; use a .sif file"
_KEYS_TO_SET = {
    "queue": "required; a queue whose jobs main jobs preempt",
    "account": "needed where jobs are charged to an account",
}
SITES = {
    "pbs": SiteTraits(
        refused_images={".sqsh": _NO_PYXIS},
        keys_to_set=_KEYS_TO_SET,
        try_on_node="qsub -I, then {}",
    )
}
