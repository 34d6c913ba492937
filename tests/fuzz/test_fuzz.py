"""A minute of ``make fuzz``, the same inputs in every run: each reader reads or refuses in one
line, in bounded memory.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from fuzz.readers import Reader, readers
from fuzz.runner import CORPUS, ROOM_BYTES, fuzz, slug, table

INPUTS = 150
SLOW = {"journal": 60, "registry": 60, "profiles": 120, "any log": 120}
FAMILIES: dict[str, list[str]] = defaultdict(list)
for _place, _name in enumerate(readers()):
    FAMILIES[f"{_place // 8}"].append(_name)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_reader_reads_or_refuses(family: str) -> None:
    names = FAMILIES[family]
    results = {}
    for count in sorted({SLOW.get(name, INPUTS) for name in names}):
        results |= fuzz(
            [name for name in names if SLOW.get(name, INPUTS) == count],
            seed=0,
            seconds=0,
            count=count,
        )
    assert not [found for found in results.values() if found["findings"]], table(results)
    assert all(found["inputs"] for found in results.values())
    assert all(found["peak_mb"] < ROOM_BYTES >> 20 for found in results.values())


def test_every_reader_reads_one_of_its_samples(tmp_path: Path) -> None:
    """Else its mutations end at its first check: a new parser needs a sample in fuzz/readers."""
    shallow = {
        name
        for name, reader in readers().items()
        if not any(_is_read(reader, each, tmp_path) for each in reader.samples)
    }
    assert not shallow


def _is_read(reader: Reader, sample: bytes, folder: Path) -> bool:
    try:
        reader.read(sample, folder)
    except reader.clean:
        return False
    return True


def test_every_folder_of_the_corpus_has_a_reader() -> None:
    assert {path.name for path in CORPUS.glob("*")} <= {slug(name) for name in readers()}


@pytest.mark.slow
def test_the_fuzzer_reports_what_it_should(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A reader that raises, one that never ends and one that takes memory are findings."""
    from fuzz import runner

    def raises(data: bytes, folder: object) -> None:
        raise KeyError("x")

    def takes(data: bytes, folder: object) -> None:
        raise MemoryError

    folder = tmp_path_factory.mktemp("fuzz")
    for read in (raises, takes):
        reader = runner.Reader("a", read, (b"",))
        assert runner.tried(reader, b"", folder)[0] == "finding"
