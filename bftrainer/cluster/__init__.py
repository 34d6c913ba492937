"""The cluster as a pilot sees it: the ports of batch schedulers and node holders, and what an
observation says.
"""
