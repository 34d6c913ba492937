"""``bftrainer replay reproduce``."""
