"""Nodes without a batch scheduler's holders: a recorded log played on this host, and the pilot's own allocation."""
