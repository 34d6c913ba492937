"""Pages from the templates: one frame, one style, no network."""

from __future__ import annotations

import jinja2

from bftrainer import __version__


def render_template(name: str, **values: object) -> bytes:
    """A page as UTF-8 HTML; a value that the template misses is an error."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("bftrainer_replay.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters["percent"] = lambda fraction: "-" if fraction is None else f"{fraction:.1%}"
    environment.filters["millions"] = lambda samples: f"{samples / 1e6:,.0f}"
    environment.filters["whole"] = lambda number: f"{number:,.0f}"
    return environment.get_template(name).render(version=__version__, **values).encode()
