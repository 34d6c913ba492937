"""The decision loop and its coordinator: pure functions, driven by a live World or a replayed
one.
"""
