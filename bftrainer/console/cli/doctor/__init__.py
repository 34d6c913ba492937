"""``bftrainer doctor``: the installation, a pilot's directory and its site."""
