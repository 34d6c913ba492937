"""From looks at a live cluster to an event log that grows."""
