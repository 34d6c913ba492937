"""What commands know of the site ``trace`` before they load it."""

from bftrainer.plugin_traits import SiteTraits

SITES = {"trace": SiteTraits(is_default=True, paths=("log",))}
