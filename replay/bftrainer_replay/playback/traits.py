"""What commands know of the site ``trace`` before they load it."""

from bftrainer.plugin_traits import SiteTraits

_KEYS_TO_SET = {"log": "without a file, a log is generated"}
SITES = {"trace": SiteTraits(is_default=True, paths=("log",), keys_to_set=_KEYS_TO_SET)}
