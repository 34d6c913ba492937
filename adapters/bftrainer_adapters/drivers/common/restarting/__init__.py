"""Drivers that rescale by checkpoint, stop and start on the new nodes."""
