"""``python -m bftrainer``.

``-m`` puts the working directory first on ``sys.path``, where a file may have the name of an
installed module. It is removed before more is imported. Python itself has looked there by then:
where others may write, use the console script, or ``python -P -m bftrainer``.
"""

import sys

if __name__ == "__main__":
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        del sys.path[0]

    from bftrainer.console.cli.main import main

    main()
