"""Records which nodes of a live cluster are idle, as an event log that grows."""
