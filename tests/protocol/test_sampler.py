"""Each sample of an epoch once, over any sequence of sizes, restarts and losses."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bftrainer.errors import InvalidValueError
from bftrainer.progress import Batches, Sampler, Scaling

WEAK = Batches(Scaling.WEAK, 4)


def group(
    size: int, batches: Batches, workers: int, state: dict[str, object] | None = None
) -> list[Sampler]:
    """The samplers of all ranks, each as after a start from a checkpoint."""
    made = [Sampler(size, batches, rank, workers, seed=3) for rank in range(workers)]
    for one in made if state is not None else ():
        assert state is not None
        one.load_state_dict(json.loads(json.dumps(state)))
    return made


def test_by_hand_in_order() -> None:
    """10 samples, two workers with 2 each: the third step takes the first two samples of the next
    epoch.
    """
    two = [Sampler(10, Batches(Scaling.WEAK, 2), rank, 2, shuffle=False) for rank in range(2)]
    assert [list(one) for one in two] == [[[0, 1], [4, 5], [8, 9]], [[2, 3], [6, 7], [0, 1]]]
    assert [len(one) for one in two] == [3, 3]
    for _ in range(3):
        two[0].advance()
    assert (two[0].epoch, two[0].samples) == (1, 12)
    assert two[0].latest_indices() == [(0, 8), (0, 9)]
    assert list(two[0]) == [[2, 3], [6, 7]]


@settings(deadline=None, max_examples=300)
@given(
    st.integers(1, 60),
    st.builds(Batches, st.sampled_from(Scaling), st.integers(6, 20)),
    st.lists(
        st.tuples(
            st.integers(1, 6), st.integers(0, 12), st.sampled_from(["keep", "lose", "elastic"])
        ),
        max_size=12,
    ),
    st.integers(1, 7),
)
def test_any_story_of_sizes_restarts_and_losses_sees_each_sample_once(
    size: int, batches: Batches, story: list[tuple[int, int, str]], save_every: int
) -> None:
    """``keep``: a restart from a checkpoint of this moment; ``lose``: from the last one;
    ``elastic``: no restart.
    """
    history: list[tuple[int, int]] = []  # (epoch, index), in the order of processing
    saved, kept = group(size, batches, 1)[0].state_dict(), 0
    workers, samplers = 1, group(size, batches, 1)
    for number, steps, how in [*story, (1, 3, "keep")]:
        if how == "elastic":
            state = samplers[0].state_dict()
            samplers = (samplers + group(size, batches, number))[:number]
            for rank, one in enumerate(samplers):
                one.shard(rank, number)
                one.load_state_dict(state)
        else:
            if how == "keep":
                saved, kept = samplers[0].state_dict(), len(history)
            del history[kept:]
            samplers = group(size, batches, number, saved)
        workers, passes = number, [iter(one) for one in samplers]
        assert len(samplers) == workers
        for step in range(steps):
            taken = [next(one, None) for one in passes]
            if any(share is None for share in taken):  # the end of an epoch, on all ranks at once
                assert all(share is None for share in taken)
                passes = [iter(one) for one in samplers]
                taken = [next(one, None) for one in passes]
            before = len(history)
            for one, share in zip(samplers, taken, strict=True):
                one.advance()
                assert share is not None
                assert [index for _, index in one.latest_indices()] == share
                history += one.latest_indices()
            assert len(history) - before == batches.total(workers)
            if step % save_every == save_every - 1:
                saved, kept = samplers[0].state_dict(), len(history)
        assert len({one.samples for one in samplers}) == 1
    seen = Counter(history)
    assert set(seen.values()) <= {1}
    last = samplers[0].epoch
    assert {one for one in seen if one[0] < last} == {
        (epoch, index) for epoch in range(last) for index in range(size)
    }


def test_epochs_have_their_own_orders_and_seeds_theirs() -> None:
    def orders(seed: int) -> list[list[int]]:
        one, found = Sampler(100, Batches(Scaling.WEAK, 100), seed=seed), []
        for _ in range(3):
            found += list(one)
            one.advance()
        return found

    found = [tuple(order) for seed in (0, 1) for order in orders(seed)]
    assert len(set(found)) == 6
    assert all(sorted(order) == list(range(100)) for order in found)


def test_the_length_counts_the_steps_made_and_those_left() -> None:
    """Progress bars, and Lightning, count from the start of the epoch, also where a restart began
    within it.
    """
    one = Sampler(64, WEAK, 0, 2)
    assert len(one) == 8
    one.advance()
    one.advance()
    again = Sampler(64, WEAK, 0, 1)
    again.load_state_dict(one.state_dict())
    assert len(list(again)) == 12
    assert len(again) == 14


def test_a_pass_that_is_not_counted_is_an_error_not_an_endless_epoch() -> None:
    one = Sampler(8, WEAK)
    assert len(list(one)) == 2
    with pytest.raises(InvalidValueError, match=r"call sampler\.advance\(\)"):
        iter(one)


def test_what_belongs_to_other_data_is_refused() -> None:
    with pytest.raises(
        InvalidValueError, match="8 samples in the order of seed 0; here are 9 samples"
    ):
        Sampler(9, WEAK).load_state_dict(Sampler(8, WEAK).state_dict())
    with pytest.raises(InvalidValueError, match=r"not the state of a progress\.Sampler"):
        Sampler(9, WEAK).load_state_dict({"epoch": 3})
    with pytest.raises(InvalidValueError, match="empty"):
        Sampler([], WEAK)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_what_a_data_loader_s_workers_have_read_ahead_is_not_lost() -> None:
    """Two workers read up to eight batches ahead; a restart after three steps continues with the
    fourth.
    """
    import torch.utils.data as data

    plain, state = [list(map(int, batch)) for batch in Sampler(64, WEAK)], None
    found: list[list[int]] = []
    while len(found) < len(plain):
        sampler = Sampler(64, WEAK)
        if state is not None:
            sampler.load_state_dict(state)
        loader = data.DataLoader(range(64), batch_sampler=sampler, num_workers=2, prefetch_factor=4)  # type: ignore[arg-type, var-annotated]
        for number, batch in enumerate(loader):
            if number == 3:
                break
            found.append(batch.tolist())
            sampler.advance()
        state = sampler.state_dict()
    assert found == plain
