"""What commands know of the site ``lsf`` before they load it."""

from bftrainer.plugin_traits import SiteTraits

_NO_PYXIS = "needs Slurm's pyxis, and the pilot is LSF's; use a .sif file"
SITES = {"lsf": SiteTraits(refused_images={".sqsh": _NO_PYXIS}, try_on_node="bsub -I {}")}
