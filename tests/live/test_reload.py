"""A configuration that is read again: what it changes at once, what waits for the next start, what
is refused.
"""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import pytest
from support.fakes_live import FakeClock
from support.live_house import House, house, spec
from support.live_machine import eventually, machine

from bftrainer.config.pilot import PilotConfig
from bftrainer.config.validation import check_table
from bftrainer.errors import InputFileError, InvalidValueError
from bftrainer.pilot.own_site import build_site, reconfigure
from bftrainer.pilot.persistence.journal import JournalWriter, Settings
from bftrainer.pilot.persistence.store import open_store
from bftrainer.pilot.reload import FIXED, changed, merged
from bftrainer.system.processes import this_process
from bftrainer_clusters.slurm.config import RELOADED, SlurmSettings
from bftrainer_clusters.slurm.hold import SlurmHolder


@pytest.fixture
def home(tmp_path: Path) -> House:
    it = house(tmp_path / "state", decisions={"max_parallel": 1})
    it.cluster.give("n1", "n2", "n3", "n4")
    return it


def reloads(home: House) -> list[str]:
    assert home.differences() == [], "the journal decides the same again"
    return home.noted("reload")


def held(home: House) -> list[str]:
    return sorted(f.node for f in home.cluster.fragments.values())


def test_more_trainers_at_once_and_fewer_again(home: House) -> None:
    home.submit(*(spec(name, max_nodes=1) for name in "abc"))
    seen: list[list[str]] = []

    def running() -> list[str]:
        return sorted(name for name, d in home.launcher.drivers.items() if d.view.on)

    home.at(10, lambda: seen.append(running()))
    home.at(11, lambda: home.reload(decisions={"max_parallel": 2}))
    home.at(20, lambda: seen.append(running()))
    home.at(21, lambda: home.reload(decisions={"max_parallel": 1}))
    home.at(30, lambda: seen.append(running()))
    home.at(31, lambda: home.launcher.finish("a"))
    home.at(40, lambda: seen.append(running()))
    home.at(41, lambda: home.launcher.finish("b"))
    home.at(50, lambda: seen.append(running()))
    home.pilot(55)
    assert seen == [["a"], ["a", "b"], ["a", "b"], ["b"], ["c"]], "who is admitted stays"
    assert reloads(home) == [
        "the configuration was reloaded; changed: decisions.max_parallel" for _ in range(2)
    ]


@pytest.mark.parametrize(
    "nodes", [{"exclude": ["n[1-2]"]}, {"hosts": ["n3", "n4"]}, {"max_nodes": 2}]
)
def test_what_it_may_not_have_any_more_is_given_back_and_taken_again_once_it_may(
    home: House, nodes: dict[str, object]
) -> None:
    home.submit(spec("a", max_nodes=4))
    seen: list[list[str]] = []
    home.at(10, lambda: home.reload(nodes=nodes))
    home.at(25, lambda: seen.append(held(home)))
    home.at(26, lambda: home.reload(nodes={}))
    home.at(50, lambda: seen.append(held(home)))
    home.pilot(55)
    assert seen == [["n3", "n4"], ["n1", "n2", "n3", "n4"]]
    reloads(home)


def test_what_holders_were_started_with_stays_and_is_named(home: House) -> None:
    home.site_keeps = ("slurm.partition",)
    home.at(
        5,
        lambda: home.reload(
            nodes={"slots": 3, "unused_after_s": 7.0},
            times={"lease_s": 9.0},
            slurm={"partition": "x"},
        ),
    )
    home.pilot(10)
    assert reloads(home) == [
        "the configuration was reloaded; changed: nodes.unused_after_s; "
        "unchanged until the pilot is restarted: nodes.slots, times.lease_s, slurm.partition"
    ]
    assert home.running._config.now.nodes.slots == 1
    assert home.running._config.now.nodes.unused_after_s == 7.0


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        (
            {"decisions": {"policy": "bftrainr"}},
            "unknown policy 'bftrainr', did you mean 'bftrainer'",
        ),
        ({"decisions": {"solver": "exakt"}}, "exakt"),
        ({"decisions": {"objective": "throughputt"}}, "unknown objective 'throughputt'"),
        ({"times": {"poll_s": -1}}, "times.poll_s: input should be greater than 0"),
    ],
)
def test_an_error_changes_nothing_and_ends_nothing(
    home: House, tables: dict[str, dict[str, object]], words: str
) -> None:
    home.submit(spec("a", max_nodes=4), spec("b", max_nodes=4))
    home.at(10, lambda: home.reload(**{"nodes": {"max_nodes": 1}, **tables}))
    seen: list[list[str]] = []
    home.at(30, lambda: seen.append(held(home)))
    home.pilot(35)
    assert seen == [["n1", "n2", "n3", "n4"]]
    (text,) = reloads(home)
    assert text.startswith("rejected, the old configuration remains in effect: ")
    assert words in text
    assert "\n" not in text


def test_every_key_is_either_taken_or_kept() -> None:
    """No key is changed in silence: whatever differs is said to be new or as before."""
    old = PilotConfig()
    for table, keys in FIXED.items():
        assert keys <= set(type(getattr(old, table)).model_fields), table
    tables = {
        "nodes": {"slots": 2, "max_nodes": 5},
        "times": {"lease_s": 5.0, "poll_s": 5.0},
    }
    fresh = check_table(tables, PilotConfig, "test")
    now, kept = merged(old, fresh)
    assert kept == ("nodes.slots", "times.lease_s")
    assert set(changed(old, fresh)) == {*kept, *changed(old, now)}
    assert changed(now, merged(now, old)[0]) == ("nodes.max_nodes", "times.poll_s")


def test_a_real_pilot_is_sent_sighup(tmp_path: Path) -> None:
    with machine(tmp_path, "n1 n2 n3") as on:
        on.submit("a", 100_000, 0.05, 3)
        pilot = on.pilot()
        eventually(on.state_is_there)
        eventually(lambda: len([r for r in on.rows("nodes") if r["trainer"] == "a"]) == 3)
        path = on.state / "bftrainer.toml"
        path.write_text(
            path.read_text().replace("[nodes]\n", '[nodes]\nexclude = ["n1"]\nslots = 2\n')
        )
        pilot.send_signal(signal.SIGHUP)
        eventually(
            lambda: (
                sorted(str(r["node"]) for r in on.rows("nodes") if r["trainer"] == "a")
                == ["n2", "n3"]
            )
        )
        path.write_text("[nodes]\nmax_node = 1\n")
        pilot.send_signal(signal.SIGHUP)
        eventually(lambda: "did you mean 'max_nodes'" in str(on.rows("events", "-n", 1000)))
        said = str(on.rows("events", "-n", 1000))
        assert "changed: nodes.exclude; unchanged until the pilot is restarted: nodes.slots" in said
        on.end(pilot)
        assert "0 differ" in on.bftrainer_replay()


def test_options_of_holders_to_come_are_taken_and_their_partition_stays(tmp_path: Path) -> None:
    def config(**keys: object) -> PilotConfig:
        return check_table(
            {"nodes": {"holder": "slurm"}, "slurm": {"partition": "scavenge", **keys}},
            PilotConfig,
            "test",
        )

    site = build_site(config(), tmp_path, FakeClock())
    assert reconfigure(site, config(longest_s=600.0, options=["--constraint=ib"])) == ()
    assert isinstance(site.holder, SlurmHolder)
    now = site.holder._slurm.settings
    assert (now.longest_s, now.options, site.holder._settings) == (600.0, ("--constraint=ib",), now)
    assert reconfigure(site, config(partition="other", max_pending=3)) == ("slurm.partition",)
    now = site.holder._slurm.settings
    assert (now.partition, now.max_pending, now.longest_s) == ("scavenge", 3, 86_400.0)
    with pytest.raises(InputFileError, match="unknown key 'partitoin'"):
        reconfigure(site, config(partitoin="x"))
    workers = config().model_copy(
        update={"workers": PilotConfig().workers.model_copy(update={"hang_s": 7.0})}
    )
    assert reconfigure(site, workers) == ()
    assert site.driver["hang_s"] == 7.0
    assert site.driver["prefix"], "what the site adds stays"


def test_the_log_that_is_played_stays(tmp_path: Path) -> None:
    def config(**keys: object) -> PilotConfig:
        return check_table({"nodes": {"holder": "trace"}, "trace": keys}, PilotConfig, "test")

    site = build_site(config(nodes=4), tmp_path, FakeClock())
    assert reconfigure(site, config(nodes=4)) == ()
    assert reconfigure(site, config(seed=99, nodes=4, days=2.0)) == ("trace.days", "trace.seed")
    with pytest.raises(InputFileError, match="unknown key 'sede'"):
        reconfigure(site, config(sede=1))


def test_a_shared_cap_that_nobody_could_count_is_refused(tmp_path: Path) -> None:
    config = check_table({"nodes": {"holder": "trace", "site_max_nodes": 3}}, PilotConfig, "test")
    with pytest.raises(
        InvalidValueError,
        match=r"nodes.site_max_nodes: holder 'trace' cannot count other pilots' nodes",
    ):
        build_site(config, tmp_path, FakeClock())


def test_the_page_on_operations_says_which_keys_wait() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    chapter = page[page.index("## Change the configuration") : page.index("## Stop")]
    now, waits = (
        chapter[: chapter.index("- At the next start only")],
        chapter[chapter.index("- At the next start only") :],
    )
    for table, keys in FIXED.items():
        assert all(f"`{table}.{key}`" in waits for key in keys) or f"`[{table}]`" in waits
    assert all(f"`{key}`" in now for key in RELOADED)
    assert set(SlurmSettings.model_fields) >= RELOADED


@pytest.mark.parametrize("max_parallel", [None, 2])
def test_settings_come_back_from_their_columns(tmp_path: Path, max_parallel: int | None) -> None:
    """A parameter that the user has written after the policy stays there."""
    settings = Settings("afs?gather_s=5", "exact", "throughput", 120.0, 7, max_parallel, 0.5)
    with closing(open_store(tmp_path, create=True)) as store:
        store.take_lease(this_process(), "", 0.0, 60.0, lambda _: None)
        JournalWriter(store).begin(settings, 1.0)
        (row,) = store.read("SELECT * FROM settings")
    assert Settings.of_row(row) == settings
