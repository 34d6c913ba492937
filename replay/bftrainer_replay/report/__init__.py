"""The pages of ``report`` and ``compare``: one HTML file each, with pictures and data beside it."""
