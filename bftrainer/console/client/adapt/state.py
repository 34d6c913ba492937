"""Finds what a script's loop changes beside model and optimizer, and how each part is kept."""

from __future__ import annotations

from collections.abc import Sequence

from bftrainer.console.client.adapt.kept_state import KeptState
from bftrainer.console.client.adapt.project import Project
from bftrainer.console.client.adapt.search import TrainingLoop
from bftrainer.console.client.adapt.state_guards import find_guarded_statements
from bftrainer.console.client.adapt.state_objects import (
    check_remade,
    find_epoch_schedulers,
    find_objects,
    find_unknown_schedulers,
)
from bftrainer.console.client.adapt.state_rates import find_counting, find_rates
from bftrainer.console.client.adapt.state_search import StateSearch
from bftrainer.console.client.adapt.state_variables import (
    find_epoch_values,
    find_globals,
    find_training_values,
)
from bftrainer.console.client.adapt.state_warnings import (
    find_agreements,
    find_attribute_reads,
    find_reads_after_loop,
)


def kept_state(
    project: Project, loop: TrainingLoop, models: Sequence[str], optimizers: Sequence[str]
) -> KeptState:
    """Return what a training loop changes beside its models and optimizers.

    ``models`` and ``optimizers`` are names in the scope of the outer loop. Raises RefusalError for
    what cannot be kept.
    """
    search = StateSearch(project, loop, models, optimizers)
    check_remade(search)
    find_objects(search)
    find_unknown_schedulers(search)
    find_training_values(search)
    find_globals(search)
    find_epoch_values(search)
    find_epoch_schedulers(search)
    find_guarded_statements(search)
    find_rates(search)
    find_counting(search)
    find_reads_after_loop(search)
    find_attribute_reads(search)
    find_agreements(search)
    return search.state
