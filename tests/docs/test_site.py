"""`make docs`: the site builds without a warning (a link that leads nowhere is one), has every
page, and fetches nothing.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from support.browser import Browser
from support.ran import python

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = python(
        "-m", "mkdocs", "build", "--strict", "--site-dir", folder, limit_s=120, cwd=ROOT, env=quiet
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return folder


def test_site_has_every_page(site: Path) -> None:
    pages = {
        path.relative_to(ROOT / "docs").with_suffix(".html")
        for path in (ROOT / "docs").rglob("*.md")
    }
    built = {path.relative_to(site) for path in site.rglob("*.html")}
    assert pages <= built
    assert built - pages == {
        Path(f"{name}.html")
        for name in (
            "404",
            "changelog",
            "code-of-conduct",
            "contributing",
            "index",
            "releasing",
            "security-policy",
        )
    }


def test_site_describes_the_api(site: Path) -> None:
    import bftrainer.api

    page = (site / "api.html").read_text()
    for name, value in vars(bftrainer.api).items():
        if isinstance(value, type):
            assert f'id="bftrainer.api.{name}"' in page


def test_no_page_fetches_anything(site: Path) -> None:
    for page in site.rglob("*.html"):
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page.read_text()):
            if 'rel="canonical"' not in tag:
                assert not re.search(r'(?:src|href)="(?:https?:)?//', tag), (page, tag)


def test_pages_look_right_in_a_browser(site: Path) -> None:
    with Browser() as browser:
        for name, width in (("index.html", 1280), ("api.html", 1280), ("faults.html", 400)):
            browser.open(site / name, width=width)
            wide = browser.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{name} is {wide} wide"
            assert browser.evaluate("document.querySelectorAll('article table').length") > 0
            assert browser.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
            # Nothing that Markdown should have turned into a table, a code block or a list.
            assert not browser.evaluate(
                "/^\\s*(\\||```|[-*] )/m.test([...document.querySelectorAll('article "
                "p')].map(p => p.innerText).join('\\n'))"
            )
        assert not [url for url in browser.requested if not url.startswith(("file:", "data:"))]
