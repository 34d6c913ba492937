"""What commands know of the site ``pbs`` before they load it."""

from bftrainer.plugin_traits import SiteTraits

_NO_PYXIS = "needs Slurm's pyxis, and the pilot is PBS's; use a .sif file"
SITES = {"pbs": SiteTraits(refused_images={".sqsh": _NO_PYXIS}, try_on_node="qsub -I, then {}")}
