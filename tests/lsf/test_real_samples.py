"""All LSF text of the shared data: every record is read, or refused with its place and its
words.
"""

from __future__ import annotations

import ast
import re
import tarfile
import textwrap
from pathlib import Path

import pytest
from support.data import data_file
from support.reading_logs import read, totals

from bftrainer.errors import InputFileError
from bftrainer_clusters.lsf import jobs as lsf_jobs

SAMPLES = Path(__file__).parent / "samples"
LSF_WORDS = re.compile(rb"JOB_FINISH|\bbslots\b|\bjobstat\b|\bbjobs\b|Adapters::Lsf")
USED = {
    "summit-jobstat-bslots/summit_user_guide_2060-2185.rst",
    "ood-lsf-pbs-specs/lsf_spec.rb",
    "ood-lsf-pbs-specs/helper_spec.rb",
    "xdmod-shredder-lsf/accounting-logs.log",
    "xdmod-shredder-lsf/utf8-multibyte-chars.log",
    "apel-tests/test_lsf.py",
}

pytestmark = pytest.mark.data


def members() -> dict[str, bytes]:
    found = {}
    with tarfile.open(data_file("slurm-formats/scheduler-output-samples.tar.gz")) as archive:
        for member in archive.getmembers():
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                found[member.name.removeprefix("./")] = content.read()
    return found


def test_no_lsf_text_is_left_out() -> None:
    with_lsf = {
        name
        for name, data in members().items()
        if LSF_WORDS.search(data) and not name.endswith("SOURCE.txt")
    }
    assert with_lsf == USED


def test_what_summits_guide_shows_is_what_the_samples_are() -> None:
    guide = members()["summit-jobstat-bslots/summit_user_guide_2060-2185.rst"].decode()
    blocks = re.findall(r"^    \$ (\S+)[^\n]*\n((?:    \S[^\n]*\n)+)", guide, re.MULTILINE)
    texts = [(name, textwrap.dedent(text)) for name, text in blocks]
    assert [name for name, _ in texts] == ["jobstat", "bslots", "bslots"]
    names = ("summit-bslots.txt", "summit-bslots-1000-nodes.txt")
    for (_, text), name in zip(texts[1:], names, strict=True):
        assert text == (SAMPLES / name).read_text()


def test_states_of_jobs_that_others_have_seen_are_known() -> None:
    spec = members()["ood-lsf-pbs-specs/lsf_spec.rb"].decode()
    states = set(re.findall(r'status: "(\w+)"', spec))
    assert states
    assert states <= lsf_jobs.PHASES.keys()


def accounts() -> list[str]:
    """Every accounting record: XDMoD's files, and the strings in the tests of APEL's parser."""
    found = members()
    lines = [
        line
        for name in sorted(USED)
        if "xdmod" in name
        for line in found[name].decode().splitlines()
        if line
    ]
    tree = ast.parse(found["apel-tests/test_lsf.py"])
    strings = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return [*lines, *(text.replace("\n", " ") for text in strings if text.startswith('"JOB_'))]


def test_every_accounting_record_is_read_or_refused_with_its_words(tmp_path: Path) -> None:
    """Two fields of APEL's have grown together, one job ends before it starts, one record is no
    job's.
    """
    refused = []
    for number, line in enumerate(accounts()):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            assert totals(read(folder, f"{line}\n"))[:2] == (1, 1), line[:200]
        except InputFileError as error:
            refused.append(str(error).partition("/log")[2].partition(" (--")[0])
    assert len(accounts()) == 10
    assert sorted(refused) == [
        ": looks like LSF lsb.acct, but none of its 1 records is a job",
        ":1: ends within the list of its 64 execution hosts",
        ":1: no space after field 62 at character 3390",
        ":1: the job ends 2,456 s before it starts",
    ]
