"""What commands know of the site ``lsf`` before they load it."""

from bftrainer.plugin_traits import SiteTraits

_NO_PYXIS = "needs Slurm's pyxis, and the pilot is LSF's; use a .sif file"
_KEYS_TO_SET = {
    "queue": "required; a queue whose jobs main jobs preempt",
    "slots_per_node": "required; the slots of one whole node",
    "gpus_per_node": "needed where nodes have GPUs",
}
SITES = {
    "lsf": SiteTraits(
        refused_images={".sqsh": _NO_PYXIS}, keys_to_set=_KEYS_TO_SET, try_on_node="bsub -I {}"
    )
}
