"""What commands know of the launcher ``pool``."""

from bftrainer.plugin_traits import LauncherTraits

LAUNCHERS = {"pool": LauncherTraits(is_pool=True)}
