"""Which names look like secrets, and which values stand in a trainer file."""

from __future__ import annotations

import pytest

from bftrainer.console.client.secret_names import secrets_in_command, secrets_in_lines


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("export HF_TOKEN=hf_Ab1", ("HF_TOKEN",)),
        ("export A=1 WANDB_API_KEY='x1' DB_PASSWORD=\"p\"", ("WANDB_API_KEY", "DB_PASSWORD")),
        (
            "MY_SECRET=x ./fetch.sh && token=y ./fetch.sh; export aws_secret_access_key=z",
            ("MY_SECRET", "token", "aws_secret_access_key"),
        ),
        ("export HF_TOKEN=$(cat ~/.hf_token)", ()),
        ('export HF_TOKEN="$(cat ~/.hf_token)" SSH_KEY=~/.ssh/id API_KEY=`get key`', ()),
        ("export TOKENIZER=gpt2 MONKEY=2 KEYBOARD=us MAX_TOKEN=512 TOKEN=", ()),
        ('curl -H "Authorization: Bearer $HF_TOKEN" && module load cuda', ()),
    ],
)
def test_secrets_of_shell_lines(line: str, names: tuple[str, ...]) -> None:
    assert secrets_in_lines([line, line]) == names


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("python t.py --token hf_Ab1 --api-key=x", ("--token", "--api-key")),
        ("python t.py --hf_token=x --db-password y", ("--hf_token", "--db-password")),
        (
            "python t.py --tokenizer gpt2 --sort-key loss --max-token 512 --token {token} "
            "--password /a/file --secret",
            (),
        ),
        ("python t.py --token --verbose", ()),
    ],
)
def test_secrets_of_a_command(command: str, options: tuple[str, ...]) -> None:
    assert secrets_in_command(command.split()) == options
