"""Clusters: one package per batch scheduler, each a set of pairs "build the command line" and
"parse its output".

They implement the ports in :mod:`bftrainer.cluster.ports`; the pilot finds them by entry point and
imports none of them.
"""
