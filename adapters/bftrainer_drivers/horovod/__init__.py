"""Drivers ``horovod`` (Elastic Horovod 0.28.1 with our own driver) and ``horovodrun`` (the stock
command).

Only ``backend.py``, ``elastic_driver.py``, ``in_worker.py`` and ``stock_backend.py`` import
Horovod.
"""
