"""One importer a file; all yield an :class:`~bftrainer_replay.logs.model.EventLog`."""
