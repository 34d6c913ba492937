"""The pages of ``report``, ``compare`` and ``demo``: one HTML file each, with pictures and data beside it."""
