"""bftrainer: neural network training on the nodes that a batch scheduler cannot fill (Liu et al. 2021)."""

__version__ = "0.1.0"
