"""Rewrites a training script for idle nodes: the syntax tree finds the places, edits of the text
keep everything else.
"""

from bftrainer.console.client.adapt.script import Adapted, adapted

__all__ = ["Adapted", "adapted"]
