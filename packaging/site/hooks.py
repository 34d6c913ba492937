"""What makes the repository's pages a site: https://www.mkdocs.org/user-guide/configuration/#hooks

The pages are written for a code host. Here the README becomes the first page, the other pages of
the root join it, and links are made to fit: those to a folder lead to its first page, those to a
file outside of docs/ to a copy of that file. A list or a table may begin right under a line of
text, as on a code host; Python-Markdown wants an empty line there.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "RELEASING.md": "releasing.md",
    "SECURITY.md": "security-policy.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages of the repository's root, and what they are called on the site."""

_STYLE = ROOT / "packaging" / "site" / "extra.css"
_FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\(\s*)([^)\s#]+)(#[^)\s]*)?(?=[)\s])")
_FIRST_ITEM = re.compile(r" *(?:[-*+]|1[.)]) ")
_ITEM = re.compile(r" *(?:[-*+]|\d+[.)]) ")
_ROW = re.compile(r" *\|")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root, the files that pages link to, and the style sheet."""
    for source, name in PAGES.items():
        if (ROOT / source).is_file():
            files.append(
                File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8"))
            )
    files.append(File.generated(config, "stylesheets/extra.css", abs_src_path=str(_STYLE)))
    for file in list(files.documentation_pages()):
        for target in _LINK.findall(_FENCE.sub("", file.content_string)):
            path = _in_repository(file.src_uri, target[1])
            if path is not None and path.is_file() and _on_site(path) not in files.src_uris:
                files.append(File.generated(config, _on_site(path), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Text outside of code blocks, with links and empty lines as Python-Markdown and the site need
    them.
    """
    source, parts, last = page.file.src_uri, [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [_adapt(markdown[last : fence.start()], source), fence.group()]
        last = fence.end()
    return "".join([*parts, _adapt(markdown[last:], source)])


def _adapt(text: str, source: str) -> str:
    return _LINK.sub(
        lambda link: f"{link[1]}{_target(source, link[2])}{link[3] or ''}", _with_empty_lines(text)
    )


def _with_empty_lines(text: str) -> str:
    lines: list[str] = []
    for line in text.split("\n"):
        before = lines[-1] if lines else ""
        begins = (_FIRST_ITEM.match(line) and not _ITEM.match(before)) or (
            _ROW.match(line) and not _ROW.match(before)
        )
        # What is indented belongs to an item above it.
        if begins and before.strip() and not before.startswith((" ", "#")):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


def _in_repository(source: str, target: str) -> Path | None:
    """What a link on a page means in the repository; None for an address or a place that does not
    exist.
    """
    if re.match(r"[a-z]+:|/", target):
        return None
    folder = ROOT if source in PAGES.values() else (ROOT / "docs" / source).parent
    path = (folder / target).resolve()
    return path if path.exists() and path.is_relative_to(ROOT) else None


def _on_site(path: Path) -> str:
    """Where a file or folder of the repository is on the site: its place in docs/, else its place
    in the repository.
    """
    if path.is_dir():
        path = min(path.glob("*.md"), default=path)
    name = path.relative_to(ROOT).as_posix()
    return PAGES.get(name) or name.removeprefix("docs/")


def _target(source: str, target: str) -> str:
    path = _in_repository(source, target)
    if path is None:
        return target
    return posixpath.relpath(_on_site(path), posixpath.dirname(source) or ".")
