"""Where the job of a pilot itself runs: a partition whose jobs nothing preempts, away from the
holders. Pure.
"""

from __future__ import annotations

from bftrainer.cluster.pilot_submission import PilotJobWishes
from bftrainer.errors import UndecidedError, UserError
from bftrainer_clusters.holding.pilot_script import LIMIT_S
from bftrainer_clusters.slurm.config import SlurmSettings
from bftrainer_clusters.slurm.site_choice import Place, SiteView, account_of, ranked_places

_MAX_CHOICES = 6
_DEFAULT_QOS = "normal"
"""Slurm's own default where an association names none."""


def pilot_options(
    view: SiteView, settings: SlurmSettings, wishes: PilotJobWishes
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the options of sbatch for a pilot's job, by their flags, and the reasons.

    Raises ``UndecidedError`` where several partitions would do and none is the default one, and
    ``UserError`` where main jobs would preempt the pilot everywhere.
    """
    place, why = _place(view, settings, wishes)
    options = {"--partition": f"--partition={place.partition.name}"}
    reasons = [f"partition {place.partition.name}: {why}"]
    if wishes.qos or place.qos not in ("", _default_qos(view, place)):
        options["--qos"] = f"--qos={place.qos}"
        why_qos = "as --qos says" if wishes.qos else "your default QOS is not for such a job there"
        reasons.append(f"QOS {place.qos}: {why_qos}")
    is_holders = settings.account in place.accounts or not place.accounts
    holders_account = settings.account if is_holders else ""
    if account := account_of(view, place, wishes.account or holders_account):
        options["--account"] = f"--account={account}"
        why_account = "as --account says" if wishes.account else "yours there"
        reasons.append(f"account {account}: {why_account}")
    limit_s = min(LIMIT_S, place.longest_s) if wishes.limit_s is None else wishes.limit_s
    limit = limit_text(limit_s)
    if settings.cluster:  # its answers have decided
        options["--clusters"] = f"--clusters={settings.cluster}"
        reasons.append(f"cluster {settings.cluster}: as slurm.cluster says")
    options["--time"] = f"--time={limit}"
    if wishes.limit_s is not None:
        why_limit = "as --time-limit says"
        if limit_s > place.longest_s:
            cause = place.longest_why or "a limit"
            why_limit += f", though {cause} of {limit_text(place.longest_s)}: it may never start"
    elif place.longest_s < LIMIT_S:
        why_limit = place.longest_why or "the longest there"
    else:
        why_limit = "a day; before its end, the job submits its successor"
    reasons.append(f"time limit {limit}: {why_limit}")
    return options, tuple(reasons)


def limit_text(seconds: float) -> str:
    """Return a time limit as sbatch reads it: ``1-00:00:00``."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{days}-{hour:02}:{minute:02}:{second:02}"


def _place(view: SiteView, settings: SlurmSettings, wishes: PilotJobWishes) -> tuple[Place, str]:
    """Return the place of the pilot's job, and why."""
    candidates = _allowed(view, wishes)
    lasting = [place for place in candidates if not place.ends_later]
    if wishes.partition:
        best = min(lasting or candidates, key=lambda place: _order(view, settings, place))
        _check_qos(view, best, lasting or candidates)
        but = "" if lasting else ", though main jobs preempt jobs there"
        return best, f"as --partition says{but}"
    if not lasting:
        raise UserError(
            "main jobs preempt every job of yours, so a pilot would not last as a job; run "
            "`bftrainer pilot` on a login or service node, or name a partition with --partition"
        )
    best = min(lasting, key=lambda place: _order(view, settings, place))
    _check_partition(best, lasting, settings.partition)
    _check_qos(view, best, lasting)
    if best.partition.is_default:
        kind = "the default one"
    elif best.partition.name == settings.partition:
        kind = "the only one"
    else:
        kind = "not the holders'"
    return best, f"{kind}, and Slurm preempts no job there"


def _allowed(view: SiteView, wishes: PilotJobWishes) -> list[Place]:
    """Return the places that the user's options leave. Raises ``UserError`` if there is none."""
    every = ranked_places(view)
    allowed = [place for place in every if _is_allowed(place, wishes)]
    if allowed:
        return allowed
    options = {
        "--partition": wishes.partition,
        "--qos": wishes.qos,
        "--account": wishes.account,
    }
    words = " ".join(f"{option} {name}" for option, name in options.items() if name)
    names = ", ".join(tuple(dict.fromkeys(place.name for place in reversed(every)))[:_MAX_CHOICES])
    raise UserError(
        f"{words or 'no partition'}: your jobs cannot run there; expected one of "
        f"{names or 'none: ask the administrators for access'}"
    )


def _is_allowed(place: Place, wishes: PilotJobWishes) -> bool:
    """Return whether the user's options allow a place."""
    return (
        wishes.partition in ("", place.partition.name)
        and wishes.qos in ("", place.qos)
        and (not wishes.account or not place.accounts or wishes.account in place.accounts)
    )


def _check_partition(best: Place, lasting: list[Place], holders: str) -> None:
    """Raise ``UndecidedError`` if several partitions beside the ``holders``' would do, and none is
    the default one.
    """
    choices = dict.fromkeys(place.partition.name for place in lasting)
    choices.pop(holders, None)
    if len(choices) > 1 and not best.partition.is_default:
        raise UndecidedError(
            "--partition",
            "several partitions could run the pilot's job of one core",
            tuple(choices)[:_MAX_CHOICES],
        )


def _check_qos(view: SiteView, best: Place, places_: list[Place]) -> None:
    """Raise ``UndecidedError`` if several QOSes would do in the partition of the ``best`` place,
    and none is the default one.
    """
    names = [place.qos for place in places_ if place.partition.name == best.partition.name]
    if len(names) > 1 and best.qos not in ("", _default_qos(view, best)):
        raise UndecidedError(
            "--qos",
            f"the pilot's job in partition {best.partition.name} may have several QOSes",
            tuple(sorted(names)[:_MAX_CHOICES]),
        )


def _order(view: SiteView, settings: SlurmSettings, place: Place) -> tuple[object, ...]:
    """Return the key by which places for the pilot are sorted, the better one first."""
    return (
        place.ends_later,
        place.partition.name == settings.partition,
        not place.partition.is_default,
        place.qos not in ("", _default_qos(view, place)),
        place.partition.name,
        place.qos,
    )


def _default_qos(view: SiteView, place: Place) -> str:
    """Return the QOS that a job of the user has there if it names none."""
    associations = [
        association
        for association in view.associations
        if not place.accounts or association.account in place.accounts
    ]
    names = {association.default_qos or _DEFAULT_QOS for association in associations}
    return names.pop() if len(names) == 1 else _DEFAULT_QOS
