"""``python -m bftrainer``."""

from bftrainer.cli.main import main

if __name__ == "__main__":
    main()
