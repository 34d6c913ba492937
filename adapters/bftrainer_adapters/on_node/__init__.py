"""Programs that run with a compute node's own python3 (3.6 or newer), by path.

This folder is their ``sys.path[0]``: no module here may be named like one of the standard library.
"""
