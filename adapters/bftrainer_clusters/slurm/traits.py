"""What commands know of the site ``slurm`` before they load it."""

from bftrainer.plugin_traits import SiteTraits

_KEYS_TO_SET = {
    "partition": "a partition or a qos is required, whose jobs main jobs preempt",
    "qos": "a partition or a qos is required, whose jobs main jobs preempt",
    "account": "needed where the user has several accounts",
}
SITES = {
    "slurm": SiteTraits(
        holds_gpus=True,
        shows_pilots=True,
        keys_to_set=_KEYS_TO_SET,
        try_on_node="srun -N1 {}",
    )
}
