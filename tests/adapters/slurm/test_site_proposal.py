"""The keys that ``bftrainer init`` decides and their reasons; and the command itself on a Slurm that
answers as recorded.
"""

from __future__ import annotations

import io
import re
import sys
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from support.answering_slurm import answering_slurm
from support.command_line import Ended, bftrainer, complaint
from support.public_sites import SITES, PublicSite, config, partition, qos
from support.unseen_sites import UNSEEN

from bftrainer.cluster.site_advice import SiteWishes
from bftrainer.config.config_text import short_config
from bftrainer.config.pilot import read_config
from bftrainer.console.cli.main import run
from bftrainer.errors import InvalidValueError, UndecidedError
from bftrainer_clusters.slurm.associations import Association
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.setup import parse_config
from bftrainer_clusters.slurm.site_choice import SiteView, choose
from bftrainer_clusters.slurm.site_limits import Holders, holders_of
from bftrainer_clusters.slurm.site_proposal import Network, folded, proposal_of, settings_of
from bftrainer_clusters.slurm.site_reader import read_network

ENFORCED = "AccountingStorageEnforce = associations,limits\n"
YES = SiteWishes(chains_allowed=True)
KEY = re.compile(r"^#?[a-z_]+ = ", re.MULTILINE)
MAX_KEYS = 15
"""What a user can read at once: the keys of a configuration that init writes."""


def proposed(
    site: PublicSite,
    *own: Association,
    wishes: SiteWishes = YES,
    gpus: dict[str, int] | None = None,
) -> tuple[dict[str, object], dict[str, str], str]:
    """Values and reasons by key, and the remarks."""
    view = SiteView(site.facts, "me", own, gpus=gpus or {})
    choice = choose(view, wishes.partition, wishes.qos, wishes.account)
    facts = site.facts
    limits: Holders = holders_of(
        choice.place.settings(),
        parse_config(site.config),
        facts.partitions,
        facts.accounting.qos or {},
        own,
    )
    proposal = proposal_of(view, choice, limits, Network(), wishes)
    assert settings_of(proposal).partition == choice.place.partition.name
    values = {f"{key.table}.{key.key}": key.value for key in proposal.keys}
    reasons = {f"{key.table}.{key.key}": key.reason for key in proposal.keys}
    assert all(reasons.values())
    return values, reasons, "\n".join(proposal.remarks)


def test_only_decided_keys_are_set() -> None:
    values, reasons, remarks = proposed(SITES["a secondary partition below the owners'"])
    values.pop("nodes.give_way", None)
    assert values == {"slurm.partition": "secondary"}
    assert "stat preempts holders" in reasons["slurm.partition"]
    assert "Mode site: Slurm ends holders for main jobs (PriorityTier 1: stat" in remarks
    assert "Second best: partition stat (12 nodes), mode yield" in remarks


@pytest.mark.parametrize("name", [*SITES, *UNSEEN])
def test_the_file_of_a_site_is_short(name: str) -> None:
    site = {**SITES, **UNSEEN}[name]
    try:
        values, reasons, _ = proposed(site)
    except UndecidedError as question:  # which of two partitions
        wishes = SiteWishes(partition=question.choices[0], chains_allowed=True)
        values, reasons, _ = proposed(site, wishes=wishes)
    chosen = {key.replace(".", "_", 1): value for key, value in values.items()}
    why = {key.replace(".", "_", 1): reason for key, reason in reasons.items()}
    text = short_config({"slurm": SlurmSettings}, why, {}, nodes_holder="slurm", **chosen)
    assert len(chosen) < len(KEY.findall(text)) <= MAX_KEYS
    assert text.count("# Set: ") == len(chosen)


def test_a_chain_of_short_jobs_needs_the_users_word() -> None:
    site = SITES["one partition without preemption"]
    with pytest.raises(UndecidedError, match="one job of 30 min after another") as question:
        proposed(site, wishes=SiteWishes())
    assert (question.value.option, question.value.choices) == ("--chains-allowed", ())
    values, _, remarks = proposed(site)
    assert values["slurm.partition"] == "general"
    assert "Mode yield: the pilot watches the queue" in remarks
    assert "There is no second partition for holders." in remarks


def test_limits_of_time_are_written_where_they_are_below_the_default() -> None:
    lines = [partition("main", "n[1-4]", 9), partition("low", "n[1-4]", 1, "CANCEL")]
    for limit, expected in (("7-00:00:00", None), ("04:00:00", 14400.0)):
        own = [lines[0], partition("low", "n[1-4]", 1, "CANCEL", MaxTime=limit)]
        site = PublicSite(config("partition_prio", "CANCEL"), own, SlurmSettings(partition="low"))
        assert proposed(site)[0].get("slurm.longest_s") == expected
        given = SiteWishes(longest_s=600.0)
        assert proposed(site, wishes=given)[0]["slurm.longest_s"] == 600.0


def test_a_hidden_queue_bounds_every_window() -> None:
    values, _, remarks = proposed(SITES["a site that never ends a job, and hides the others'"])
    assert values["slurm.assume_window_s"] == 1800.0
    assert "Mode blind" in remarks
    ready = SITES["a secondary partition below the owners'"]
    hidden = replace(ready, config=ready.config.replace("PrivateData = none", "PrivateData = jobs"))
    values, _, remarks = proposed(hidden)
    assert values["slurm.assume_window_s"] == 3600.0
    assert "Mode site" in remarks


def test_gpus_of_the_smallest_node_count() -> None:
    site = SITES["a secondary partition below the owners'"]
    even = {"golub113": 4, "golub114": 4, "elsewhere": 8}
    values, reasons, _ = proposed(site, gpus=even)
    assert values["nodes.slots"] == 4
    values, reasons, _ = proposed(site, gpus={**even, "golub115": 2})
    assert values["nodes.slots"] == 2
    assert "1 node with 2, 2 nodes with 4" in reasons["nodes.slots"]
    assert proposed(site, gpus=even, wishes=SiteWishes(slots=3))[0]["nodes.slots"] == 3


def test_a_limit_on_jobs_makes_holders_of_several_nodes() -> None:
    lines = [partition("gpu", "n[001-100]", mode="CANCEL")]
    kinds = [qos("normal", "low"), qos("low", factor=0.0)]
    own = Association("lab", "me", qos=frozenset({"low"}), caps={"MaxJobs": "32"})
    text = config("qos", "CANCEL") + ENFORCED
    site = PublicSite(text, lines, SlurmSettings(partition="gpu"), qos=kinds)
    values, reasons, _ = proposed(site, own)
    assert values["slurm.nodes_per_holder"] == 4
    assert "MaxJobs 32: 32 jobs for 100 nodes" in reasons["slurm.nodes_per_holder"]
    old = PublicSite(text.replace("25.05.1", "22.05.8"), lines, site.settings, qos=kinds)
    assert proposed(old, own)[0]["slurm.nodes_per_holder"] == 4


def test_folded_lists_name_the_same_nodes() -> None:
    assert folded({"n01", "n02", "n03", "n7", "gpu", "n10"}) == ("gpu", "n[01-03,10]", "n7")
    assert folded(()) == ()


NODES = (
    "NodeName=a1 Arch=x NodeAddr=10.1.0.5 State=IDLE\nNodeName=a2 Arch=x NodeAddr=10.1.0.6 State=IDLE\n"
    "NodeName=a3 Arch=x NodeAddr=10.9.0.6 State=IDLE\n"
)


def test_the_interface_is_the_route_to_a_node() -> None:
    def route(host: str) -> tuple[str, IPv4Network]:
        assert host == "10.1.0.5"
        return "ib0", IPv4Network("10.1.0.0/24")

    own = read_network(NODES, frozenset({"a1", "a2"}), route)
    assert (own.interface, own.network, own.node) == ("ib0", "10.1.0.0/24", "a1")
    stranger = read_network(NODES, frozenset({"a1", "a3"}), route)
    assert "node a3 is outside of 10.1.0.0/24" in stranger.why_none
    assert read_network(NODES, frozenset({"b"}), route).why_none


def test_no_route_and_the_loopback_decide_nothing() -> None:
    def none(host: str) -> tuple[str, IPv4Network]:
        raise InvalidValueError("no route")

    assert read_network(NODES, frozenset({"a1"}), none) == Network(why_none="no route")
    loopback = read_network(NODES, frozenset({"a1"}), lambda _: ("lo", IPv4Network("127.0.0.0/8")))
    assert loopback == Network()


# --- The command, on programs that answer as recorded


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the answers of a Slurm whose partitions preempt."""
    return answering_slurm(tmp_path, monkeypatch)


def init(folder: Path, *options: str) -> tuple[Ended, Path]:
    state = folder / "state"
    return bftrainer(
        "init", "--holder", "slurm", "--state", state, *options
    ), state / "bftrainer.toml"


def test_init_reads_the_site_and_says_why(slurm: Path, tmp_path: Path) -> None:
    ended, path = init(tmp_path)
    assert (ended.status, ended.err) == (0, "")
    assert "slurm.partition = 'scavenge'" in ended.out
    text = path.read_text()
    set_keys = tomllib.loads(text)
    assert set_keys["slurm"] == {"partition": "scavenge"}
    assert set_keys["nodes"].pop("holder") == "slurm"
    set_keys["nodes"].pop("give_way", None)
    assert not set_keys["nodes"]
    assert "account" not in set_keys["slurm"]
    assert "\n#account" not in text, "keys that need no value are not in the file"
    assert "\n#interface = " in text, "no route was found"
    assert len(KEY.findall(text)) <= MAX_KEYS
    lines = text.splitlines()
    reasons = lines[: lines.index('partition = "scavenge"')][-3:]
    assert "# Set: partition scavenge (8 nodes)" in " ".join(reasons)
    assert "# Mode site: Slurm ends holders for main jobs" in text
    assert "# Second best: partition main (8 nodes), mode yield" in text
    assert read_config(path).site_table("slurm") == {"partition": "scavenge"}
    calls = (tmp_path / "calls").read_text().splitlines()
    submissions = [call for call in calls if "sbatch" in call.split()[0]]
    assert len(submissions) == 1
    assert "--test-only" in submissions[0]


def test_an_option_has_the_last_word(slurm: Path, tmp_path: Path) -> None:
    options = ("--partition", "main", "--chains-allowed", "--slots", "2", "--interface", "ib0")
    ended, path = init(tmp_path, *options, "--longest", "900", "--nodes-per-holder", "3")
    assert ended.status == 0, ended
    keys = tomllib.loads(path.read_text())
    assert keys["slurm"] == {"partition": "main", "longest_s": 900.0, "nodes_per_holder": 3}
    assert keys["nodes"]["slots"] == 2
    assert keys["workers"] == {"interface": "ib0"}
    assert "Mode yield" in ended.out


def test_without_a_terminal_a_question_is_one_line_and_nothing_is_written(
    slurm: Path, tmp_path: Path
) -> None:
    ended, path = init(tmp_path, "--partition", "main")
    line = complaint(ended)
    assert line.endswith("; decide with --chains-allowed")
    assert not path.exists()


class Terminal(io.StringIO):
    """Standard input of a user who sits there."""

    def isatty(self) -> bool:
        return True


def at_terminal(answers: str, *arguments: object) -> tuple[int, str]:
    """Status and output of a command whose questions are answered."""
    out, before = io.StringIO(), sys.stdin
    sys.stdin = Terminal(answers)
    try:
        with redirect_stdout(out), redirect_stderr(out):
            return run([str(argument) for argument in arguments]), out.getvalue()
    finally:
        sys.stdin = before


def test_on_a_terminal_the_user_is_asked(slurm: Path, tmp_path: Path) -> None:
    path = tmp_path / "s" / "bftrainer.toml"
    words = ("init", "--holder", "slurm", "--partition", "main", "--state", tmp_path / "s")
    status, out = at_terminal("n\n", *words)
    assert (status, path.exists()) == (2, False)
    assert "do the site's rules allow that" in out
    assert "nothing is written" in out
    status, out = at_terminal("y\n", *words)
    assert (status, path.exists()) == (0, True), out
    assert "Mode yield" in out


def test_on_a_terminal_the_user_chooses_among_partitions(slurm: Path, tmp_path: Path) -> None:
    main, scavenge = (slurm / "show_partition").read_text().splitlines()
    few = scavenge.replace("=scavenge ", "=few ").replace("[01-08]", "[01-02]")
    few = few.replace(",node=8", ",node=2,gres/gpu=8")
    assert "gres/gpu=8" in few
    rest = scavenge.replace("=scavenge ", "=rest ").replace("[01-08]", "[03-08]")
    (slurm / "show_partition").write_text("\n".join([main, few, rest, ""]))
    nodes = slurm / "show_node"
    nodes.write_text(nodes.read_text().replace("Partitions=main,scavenge", "Partitions=main,rest"))
    words = ("init", "--holder", "slurm", "--state", tmp_path / "s")
    status, out = at_terminal("rest\n", *words)
    assert status == 0, out
    assert "partition few (2 nodes, 8 GPUs) has the most GPUs, partition rest (6 nodes) has" in out
    keys = tomllib.loads((tmp_path / "s" / "bftrainer.toml").read_text())
    assert keys["slurm"] == {"partition": "rest"}


def test_a_holder_that_sbatch_refuses_is_a_refusal(slurm: Path, tmp_path: Path) -> None:
    (slurm / "refusal").write_text("sbatch: error: the filter wants --mem-per-cpu")
    ended, path = init(tmp_path)
    assert "refuses a holder" in complaint(ended)
    assert "the filter wants --mem-per-cpu" in ended.err
    assert not path.exists()
    ended, path = init(tmp_path, "--blank")
    assert ended.status == 0
    assert (
        "slurm" not in tomllib.loads(path.read_text())
        or not tomllib.loads(path.read_text())["slurm"]
    )


def test_a_slurm_that_does_not_answer_leaves_the_keys_to_the_user(
    slurm: Path, tmp_path: Path
) -> None:
    (slurm / "show_config").unlink()
    ended, path = init(tmp_path)
    assert ended.status == 0
    assert "note: the site could not be read, so its keys are comments" in ended.err
    assert '#partition = ""' in path.read_text()
    path.unlink()
    ended, path = init(tmp_path, "--partition", "scavenge")
    assert ended.status == 1
    assert not path.exists()


def test_options_that_nothing_reads_are_refused(tmp_path: Path) -> None:
    state = tmp_path / "s"
    wrong = bftrainer("init", "--holder", "trace", "--partition", "x", "--state", state)
    assert "--holder trace has no partitions" in complaint(wrong)
    blank = bftrainer("init", "--holder", "slurm", "--blank", "--qos", "x", "--state", state)
    assert "--blank sets no key" in complaint(blank)


def test_words_of_others_do_not_end_a_comment(slurm: Path, tmp_path: Path) -> None:
    path = slurm / "show_partition"
    path.write_text(path.read_text().replace("PartitionName=main", "PartitionName=m\x1b[2Jx"))
    _, written = init(tmp_path)
    text = written.read_text()
    assert "\x1b" not in text
    assert "m\\x1b[2Jx preempts holders" in text.replace("\n# ", " ")


def test_site_setup_prints_and_runs_nothing(slurm: Path, tmp_path: Path) -> None:
    config_path = slurm / "show_config"
    text = config_path.read_text()
    config_path.write_text(text.replace("preempt/partition_prio", "preempt/none"))
    ended = bftrainer("site-setup", "--partition", "idle")
    assert ended.status == 0, ended
    assert "+PartitionName=idle Nodes=node[01-08] PriorityTier=1 PreemptMode=CANCEL" in ended.out
    calls = (tmp_path / "calls").read_text().splitlines()
    assert {call.split()[-2] for call in calls} == {"show"}
