"""Elastic Horovod 0.28.1 driven by a trainer's directory. Only ``driver.py`` and ``notices.py`` import Horovod."""
