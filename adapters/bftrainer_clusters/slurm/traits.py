"""What commands know of the site ``slurm`` before they load it."""

from bftrainer.plugin_traits import SiteTraits

SITES = {"slurm": SiteTraits(holds_gpus=True, shows_pilots=True, try_on_node="srun -N1 {}")}
