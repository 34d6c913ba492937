"""Drivers ``horovod`` (Elastic Horovod 0.28.1 with our own driver) and ``horovodrun`` (the stock command).

Only ``elastic_driver.py``, ``worker_launcher.py`` and ``notices.py`` import Horovod.
"""
