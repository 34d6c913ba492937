"""``bftrainer init``: a state directory with a configuration of the keys that this site needs, and
what the site's own answers decide in it.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bftrainer.console.cli.choices import HOLDER, NumberRange, PluginOption, with_options
from bftrainer.console.cli.output import note, say
from bftrainer.console.cli.state import state_option
from bftrainer.console.client.state_dir import default_state
from bftrainer.errors import CommandError, SchedulerError, UndecidedError, UserError
from bftrainer.plugin_traits import default_site, site_traits

if TYPE_CHECKING:
    from bftrainer.cluster.site_advice import SiteProposal, SiteWishes
    from bftrainer.cluster.site_plugin import SitePlugin

_site_options = with_options(
    click.option(
        "--partition",
        default="",
        metavar="NAME",
        help="Partition of the holders. Default: where main jobs wait least for them.",
    ),
    click.option("--qos", default="", metavar="NAME", help="QOS of the holders."),
    click.option("--account", default="", metavar="NAME", help="Account of the holders."),
    click.option(
        "--slots",
        type=click.IntRange(min=1),
        help="Workers per node. Default: one for each GPU.",
    ),
    click.option(
        "--longest",
        "longest_s",
        type=NumberRange(min=60),
        metavar="SECONDS",
        help="Longest time limit of a holder.",
    ),
    click.option(
        "--nodes-per-holder", type=click.IntRange(1, 64), help="Nodes that share a holder job."
    ),
    click.option(
        "--interface", default="", metavar="NAME", help="Network interface for training traffic."
    ),
    click.option(
        "--chains-allowed",
        is_flag=True,
        help="The site's rules allow many short jobs one after another.",
    ),
    click.option("--blank", is_flag=True, help="Do not read the site; write its keys as comments."),
)
_NETWORK_KEYS = {
    "workers_interface": "required with several nodes; lo reaches only this host",
    "workers_allow_from": "the networks of the compute nodes and of this host",
}
_SLOTS = {"nodes_slots": "one worker for each GPU of a node is usual"}
"""Keys that most clusters set, by ``table_key``, and what they decide."""


@click.command()
@click.option(
    "--holder",
    cls=PluginOption,
    type=HOLDER,
    default=default_site,
    show_default=False,
    help="Source of nodes: {names}.  [default: {default}]",
)
@_site_options
@click.option("--all-keys", is_flag=True, help="Write every key, with its default as a comment.")
@click.option("--force", is_flag=True, help="Replace an existing configuration.")
@state_option
def init(
    holder: str, blank: bool, all_keys: bool, force: bool, state: Path, **site_options: Any
) -> None:
    """Create a state directory with the configuration that this site needs.

    At a Slurm site, the scheduler's answers decide about partition, QOS, account, limits, GPUs and
    network. Each decided key has its reason in the file; an option has the last word. Where nothing
    shows what the site's rules allow, the command asks, or names the option for the answer.
    Nothing is submitted. Keys that are not in the file have their defaults: see bftrainer config.

    \b
    Example:
      bftrainer init --holder slurm --state ~/.bftrainer
      bftrainer init --holder slurm --partition scavenger --force
    """
    from bftrainer.cluster.site_advice import SiteWishes
    from bftrainer.cluster.site_plugin import find_site
    from bftrainer.config.config_text import ALL_KEYS_LINE, commented_default, short_config
    from bftrainer.console.client.state_dir import CONFIG_NAME
    from bftrainer.pilot.persistence.spool import open_state_dir
    from bftrainer.system.files import write_atomically

    site = find_site(holder)
    path = open_state_dir(state, create=True) / CONFIG_NAME
    if path.exists() and not force:
        raise UserError(f"{path} already exists; replace it with --force")
    wishes = SiteWishes(**site_options)
    if blank and wishes != SiteWishes():
        raise UserError("--blank sets no key; remove it, or the options with values")
    proposal = None if blank else _site_proposal(holder, site, wishes)
    keys = () if proposal is None else proposal.keys
    tables = {} if site.table is None else {holder: site.table}
    by_holder = dict.fromkeys(site.init_values, f"the value for holder {holder}")
    reasons = {
        "nodes_holder": "as --holder says" if _is_given("holder") else "the default",
        **by_holder,
        **{f"{key.table}_{key.key}": key.reason for key in keys},
    }
    values = {
        "nodes_holder": holder,
        **site.init_values,
        **{f"{key.table}_{key.key}": key.value for key in keys},
    }
    remarks = () if proposal is None else proposal.remarks
    if all_keys:
        text = commented_default(tables, reasons, remarks, **values)
    else:
        open_keys = _keys_to_set(holder, site, is_read=proposal is not None)
        text = short_config(tables, reasons, open_keys, remarks, **values)
    write_atomically(path, text.encode(), 0o600)
    say(f"written: {path}")
    if proposal is not None:
        _show_proposal(proposal)
    where = "" if state == default_state() else f" --state {shlex.quote(str(state))}"
    say(f"{ALL_KEYS_LINE}{where}")


def _is_given(parameter: str) -> bool:
    """Whether the user gave an option of this command on the command line."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is click.core.ParameterSource.COMMANDLINE


def _keys_to_set(holder: str, site: SitePlugin, is_read: bool) -> dict[str, str]:
    """Return the keys (``table_key``) that the user should look at where nothing has decided them,
    and why. A site that was read (``is_read``) has decided all but the network.
    """
    own_keys = {f"{holder}_{key}": why for key, why in site_traits(holder).keys_to_set.items()}
    if site.runs_here:
        return own_keys
    return _NETWORK_KEYS if is_read else {**_NETWORK_KEYS, **_SLOTS, **own_keys}


def _site_proposal(holder: str, site: SitePlugin, wishes: SiteWishes) -> SiteProposal | None:
    """Return the configuration keys that the site decides; None if it decides none, or cannot be
    read.

    Where nothing shows what the site's rules allow, the user is asked on a terminal; otherwise
    ``UndecidedError`` is raised. Options (``wishes``) that a site cannot use are a ``UserError``.
    """
    from bftrainer.cluster.site_advice import ProposingSite, SiteWishes

    if not isinstance(site, ProposingSite):
        if wishes != SiteWishes():
            raise UserError(
                f"--holder {holder} has no partitions to choose among; set its keys in the file"
            )
        return None
    while True:
        try:
            proposal = site.propose(wishes)
        except UndecidedError as question:
            if not sys.stdin.isatty():
                raise
            wishes = _ask_user(question, wishes)
        except (CommandError, SchedulerError) as error:
            if wishes != SiteWishes():
                raise  # the options would be ignored
            why = error.brief if isinstance(error, CommandError) else error
            note(
                f"the site could not be read, so its keys are comments: {why}; on a login node of "
                "the cluster, replace the file with --force"
            )
            return None
        else:
            if proposal is None and wishes != SiteWishes():
                raise UserError(
                    "the scheduler's commands are not on PATH, so its site cannot be read; remove "
                    "the options, and set the keys in the file"
                )
            if proposal is None:
                note("the scheduler's commands are not on PATH, so the site's keys are comments")
            return proposal


def _ask_user(question: UndecidedError, wishes: SiteWishes) -> SiteWishes:
    """Ask the user, and return the wishes with the answer.

    A question without choices is one of yes or no. Raises ``UserError`` for no.
    """
    say(question.question + ("." if question.choices else "?"))
    field = question.option.removeprefix("--").replace("-", "_")
    answer: object = True
    if question.choices:
        answer = click.prompt(question.option, type=click.Choice(question.choices))
    elif not click.confirm(question.option, default=False):
        raise UserError(f"nothing is written: {question}")
    return replace(wishes, **{field: answer})  # type: ignore[arg-type]  # a field by its option


def _show_proposal(proposal: SiteProposal) -> None:
    """Print what was decided, as the file has it."""
    for key in proposal.keys:
        say(f"  {key.table}.{key.key} = {key.value!r}: {key.reason}")
    for remark in proposal.remarks:
        say(f"  {remark}")
