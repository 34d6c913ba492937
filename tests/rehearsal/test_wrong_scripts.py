"""Scripts that train wrongly fail the rehearsal with a line that names the cause; the examples they are made from pass."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from test_rehearse import rehearsed, trainer_file, verdicts
from wrong_scripts import WRONG

OPTIONS = ["--epochs=100000", "--step-s=0.02"]


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_a_script_that_trains_wrongly_fails_and_the_line_names_the_cause(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    wrong = WRONG[name]
    if wrong.launcher == "horovod":
        request.getfixturevalue("elastic_horovod")
    if importlib.util.find_spec("torch") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("torch is not installed; sh .ci/horovod.sh installs it")
    wrong.write(tmp_path)
    options = [*OPTIONS, "--checkpoint-every=20"] if wrong.launcher == "torchrun" else OPTIONS
    status, found = rehearsed(
        trainer_file(tmp_path, ["wrong.py", *options], launcher=wrong.launcher), "--quick", "--steps", "4"
    )
    assert status == 1
    failed = {check["check"]: check for check in found["checks"] if check["verdict"] == "FAIL"}
    assert wrong.check in failed, found
    assert wrong.words in failed[wrong.check]["seen"], failed
    assert verdicts(found, "FAIL") <= {wrong.check, "samples", "order"}, "no other check is misled"
