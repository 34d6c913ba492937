"""``bftrainer doctor --state``: a pilot's directory, configuration, user and site, and what its
drivers need.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import time
from contextlib import closing
from pathlib import Path

from bftrainer.cluster.site_plugin import SitePlugin, find_site
from bftrainer.config.pilot import DecisionsConfig, HintsConfig, PilotConfig, WorkersConfig
from bftrainer.console.cli.doctor.shared_files import examine_files
from bftrainer.console.client.state_dir import CONFIG_NAME, read
from bftrainer.counted import counted
from bftrainer.decide.domain.checks import Check, CheckStatus
from bftrainer.errors import (
    BFTrainerError,
    CommandError,
    InvalidValueError,
    StateDirError,
    UserError,
)
from bftrainer.pilot.audit.totals import PROBLEMS, read_totals
from bftrainer.pilot.hints import HintCounts, send_test
from bftrainer.pilot.metrics import without_client
from bftrainer.pilot.metrics_server import SOCKET, read_token
from bftrainer.pilot.persistence.spool import open_state_dir
from bftrainer.pilot.persistence.store import DB_NAME, open_store
from bftrainer.plugin_traits import PackageProbe, all_launchers
from bftrainer.system import command
from bftrainer.system.network import interface_address
from bftrainer.system.own_programs import code_command
from bftrainer.system.processes import is_alive

_LOW_SPACE_BYTES = 100_000_000
_IMPORT_S = 120.0


def examine_pilot(state: Path, keep: Path) -> list[Check]:
    """Run all checks of the pilot with the directory ``state``; the site is that of its
    configuration.

    Output of the scheduler that cannot be parsed is written to the directory ``keep``. After a
    directory or a configuration that cannot be used, the other checks are left out.
    """
    try:
        folder = open_state_dir(state)
    except StateDirError as error:
        remedy = (
            f"`bftrainer init --state {state}`"
            if not state.exists()
            else (
                "use a directory that you own, with mode 700, below directories that only you "
                "and root can change"
            )
        )
        return [Check.broken("state", str(error), remedy)]
    checks = [_check_free_space(folder), _check_journal(folder)]
    try:
        config = read(folder, None)
        site = find_site(config.nodes.holder)
    except BFTrainerError as error:
        return [
            *checks,
            Check.broken(
                "config",
                str(error),
                "fix the file; `bftrainer init --all-keys --state DIR` writes one with every key",
            ),
        ]
    source = CONFIG_NAME if (folder / CONFIG_NAME).exists() else "defaults"
    checks.append(
        Check.ok(
            "config", f"{source}: holder {config.nodes.holder}, policy {config.decisions.policy}"
        )
    )
    return [
        *checks,
        *examine_files(folder, config.nodes.holder, site.runs_here),
        _check_metrics(config),
        examine_hints(folder, config.hints),
        examine_audit(folder, config.decisions),
        _check_user(config, site),
        *_check_interface(config, site),
        *(_packages_of(traits.probe) for traits in all_launchers().values() if traits.probe),
        *site.check(config, str(folder / CONFIG_NAME), keep),
    ]


def examine_audit(folder: Path, config: DecisionsConfig) -> Check:
    """Check that each audited decision, which was solved again as a MILP, had the same value."""
    totals = read_totals(folder)
    if totals is None:
        off = "off (decisions.audit_share = 0)"
        return Check.ok("audit", "no decision yet" if config.audit_share else off)
    if totals.differing:
        remedy = (
            f"report a bug with the files in {folder / PROBLEMS}; `bftrainer solve FILE --solver "
            "highs` and `--solver exact` show both answers"
        )
        return Check.warning("audit", str(totals), remedy)
    return Check.ok("audit", str(totals))


def _check_free_space(folder: Path) -> Check:
    """Check the free space. Owner and mode were checked when ``folder`` was opened."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < _LOW_SPACE_BYTES:
        remedy = "free some space: a pilot that cannot write its journal exits"
        return Check.warning("state", f"{folder}: only {free_bytes / 1e6:.0f} MB are free", remedy)
    return Check.ok(
        "state",
        f"{folder}: owned by you, mode 700, safe from other users; "
        f"{free_bytes / 1e9:.1f} GB are free",
    )


def _check_journal(folder: Path) -> Check:
    """Check that the journal opens, and name the pilot that writes it."""
    if not (folder / DB_NAME).exists():
        return Check.ok("journal", "none yet")
    try:
        with closing(open_store(folder)) as store:
            holder = store.holder()
    except StateDirError as error:
        return Check.broken("journal", str(error), "specify another --state")
    except BFTrainerError as error:
        return Check.broken("journal", str(error), "check the disk")
    if holder is None:
        return Check.ok("journal", "no pilot is running")
    job = f", job {holder.job_id}" if holder.job_id else ""
    age_s = max(time.time() - holder.heartbeat_s, 0)
    process_state = ""  # on another host, not known
    if holder.host == os.uname().nodename:
        process_state = ", alive" if is_alive(holder.process) else ", dead"
    return Check.ok(
        "journal",
        f"pilot {holder.process.pid} on {holder.host}{job}{process_state}, seen {age_s:.0f} s ago",
    )


def _check_metrics(config: PilotConfig) -> Check:
    """Check the package for metrics, and the token of their port."""
    metrics = config.metrics
    if not metrics.socket and metrics.port is None:
        return Check.ok("metrics", "off")
    if problem := without_client():
        remedy = "pip install 'bftrainer[metrics]'"
        is_required = metrics.port is not None
        return Check("metrics", CheckStatus.MISSING, problem, remedy, required=is_required)
    places = [f"socket {SOCKET} (mode 600)"] if metrics.socket else []
    if metrics.port is not None:
        try:
            read_token(metrics.token_file)
        except UserError as error:
            remedy = (
                "`openssl rand -hex 16 > token; chmod 600 token` in the state directory makes one"
            )
            return Check.broken("metrics", str(error), remedy)
        places.append(f"port {metrics.port} of {metrics.address}, with a token")
    return Check.ok("metrics", " and ".join(places))


def _check_user(config: PilotConfig, site: SitePlugin) -> Check:
    """Check the user: as root, every trainer's command would run as root."""
    if os.geteuid() != 0:
        return Check.ok("user", f"uid {os.geteuid()}: trainings run with its permissions")
    if config.workers.allow_root:
        remedy = "run it as an ordinary user; nothing needs root"
        return Check.warning(
            "user",
            "root, allowed by workers.allow_root: trainings run as root",
            remedy,
        )
    detail = "root: every training's command would run as root"
    if site.runs_here:  # the pilot would start: see refuse_root
        return Check.warning("user", f"{detail}, on this host only", "run it as an ordinary user")
    return Check.broken(
        "user", detail, "run it as an ordinary user, or set workers.allow_root = true"
    )


def _check_interface(config: PilotConfig, site: SitePlugin) -> list[Check]:
    """Check the network interface of workers: that it has an address, and that the allowed networks
    include this address. If so, check as well what other users can do there.
    """
    name, networks = config.workers.interface, config.workers.allow_from
    try:
        address = interface_address(name)
        allowed = [ipaddress.ip_network(network) for network in networks]
    except (InvalidValueError, ValueError) as error:
        remedy = "set workers.interface (`ip -4 address` lists them) and workers.allow_from"
        return [Check.broken("interface", str(error), remedy)]
    if not any(ipaddress.ip_address(address) in network for network in allowed):
        detail = (
            f"{name} has {address}, and workers.allow_from has {', '.join(networks)}: no "
            "worker could connect"
        )
        return [Check.broken("interface", detail, "set workers.allow_from to the nodes' networks")]
    if not site.runs_here and ipaddress.ip_address(address).is_loopback:
        detail = f"{name} is {address}: workers on other hosts could not connect"
        remedy = "set workers.interface and workers.allow_from to the nodes' network"
        return [Check.warning("interface", detail, remedy)]
    detail = (
        f"{name} has {address}, open to {', '.join(networks)}; other addresses are refused when "
        "they connect (no packet filter)"
    )
    return [
        Check.ok("interface", detail),
        examine_strangers(config.workers, address),
    ]


def examine_strangers(workers: WorkersConfig, address: str) -> Check:
    """Check what other users can do at the ports of torch, whose protocol has no key.

    ``address`` is that of the workers' interface.
    """
    name = workers.interface
    if workers.private_interface:
        detail = (
            f"workers.private_interface: no other user can reach {name}, and gloo's "
            "connections are not checked"
        )
        return Check.ok("strangers", detail)
    if ipaddress.ip_address(address).is_loopback:
        detail = f"{name} is this host's only: users of this host are kept out of gloo's groups"
        return Check.ok("strangers", detail)
    detail = (
        f"other users may reach {name} ({address}): they are kept out of gloo's groups, and NCCL "
        "over several nodes is refused, since its sockets know no key"
    )
    remedy = (
        "for NCCL, let workers.interface be of a network that only your nodes reach, and set "
        "workers.private_interface = true"
    )
    return Check.warning("strangers", detail, remedy)


def _packages_of(probe: PackageProbe) -> Check:
    """Check that the packages of a launcher can be imported.

    They are imported in a process of its own, since that may take long or end the interpreter. The
    last line that it prints is a JSON list: detail, problem and remedy.
    """
    try:
        text = command.run(code_command(probe.code), timeout_s=_IMPORT_S)
        detail, problem, remedy = json.loads(text.splitlines()[-1])
    except CommandError as error:
        is_missing = "ModuleNotFoundError" in error.problem
        state = CheckStatus.MISSING if is_missing else CheckStatus.BROKEN
        last_line = error.problem.rpartition(" / ")[2][:160]
        return Check(probe.name, state, last_line, probe.remedy, required=False)
    except (ValueError, IndexError) as error:
        finding = f"unexpected output: {error}"
        return Check.broken(probe.name, finding, probe.remedy, required=False)
    if problem:
        return Check.broken(probe.name, problem, remedy, required=False)
    return Check.ok(probe.name, detail, required=False)


_TEST_TIMEOUT_S = 4.0
_OLD_S = 86_400.0


def examine_hints(folder: Path, config: HintsConfig) -> Check:
    """Send a test packet to the pilot, and check that it and hints of the scheduler arrive."""
    if config.port is None:
        return Check.ok("hints", "off (hints.port is not set)")
    counts = HintCounts.read(folder)
    if counts is None:
        return Check.warning(
            "hints", "no pilot has listened for hints yet", "start the pilot, or remove hints.port"
        )
    port = f"UDP port {counts.port} of {counts.address}"
    if not (send_test(counts) and _has_test_arrived(folder, counts)):
        remedy = (
            "see `bftrainer events` whether the pilot runs; on another host, see whether "
            "a firewall drops UDP packets"
        )
        return Check.warning(
            "hints",
            f"{port}: a test from this host did not arrive, {_arrivals_text(counts)}",
            remedy,
        )
    detail = f"{port}: a test from this host arrived, {_arrivals_text(counts)}"
    if time.time() - max(counts.last_s, counts.since_s) > _OLD_S or not counts.received:
        remedy = (
            "install the Epilog (jobscripts/hint.sh) with this address and port, and see "
            "docs/hints.md"
        )
        return Check.warning("hints", detail, remedy)
    return Check.ok("hints", detail)


def _has_test_arrived(folder: Path, counts: HintCounts) -> bool:
    """Wait until the pilot has counted more tests than in ``counts``, which were read before the
    test was sent; False if it has not within ``_TEST_TIMEOUT_S``. It writes its counts once a
    second.
    """
    deadline_s = time.monotonic() + _TEST_TIMEOUT_S
    while time.monotonic() < deadline_s:
        new_counts = HintCounts.read(folder)
        if new_counts is not None and new_counts.tests > counts.tests:
            return True
        time.sleep(0.1)
    return False


def _arrivals_text(counts: HintCounts) -> str:
    """Say how many hints have arrived, and when the last one did."""
    now_s = time.time()
    since = f"since the pilot began to listen {_age_text(now_s - counts.since_s)}"
    if not counts.received:
        return f"but no hint {since}"
    return (
        f"{counted(counts.received, 'hint')} {since}, the last {_age_text(now_s - counts.last_s)}"
    )


def _age_text(age_s: float) -> str:
    age_s = max(age_s, 0.0)  # another host's clock may be ahead
    return f"{age_s:.0f} s ago" if age_s < 600 else f"{age_s / 60:.0f} min ago"
