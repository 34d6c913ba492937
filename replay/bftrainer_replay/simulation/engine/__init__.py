"""Replays in C++ with the results of the Python core, to the last bit, where a compiled library is
present.
"""
