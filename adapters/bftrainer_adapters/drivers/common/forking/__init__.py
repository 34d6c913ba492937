"""Workers forked from an interpreter that has done the script's imports. The files ``fork_*.py`` run by path, with the
user's Python and the standard library alone: bftrainer may be missing in the user's environment."""
