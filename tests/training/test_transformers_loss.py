"""The gradients of Transformers' models do not grow with the number of workers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest


class MeanOfItsOwn:
    def forward(self, x: object, **kwargs: object) -> dict[str, object]:
        return {"loss": x}


class Adapter:
    def __init__(self, model: object) -> None:
        self._model = model

    def get_base_model(self) -> object:
        return self._model

    def forward(self, *args: object, **kwargs: object) -> None:
        """Like PEFT's: it says nothing of the loss."""


def arguments(workers: int, average: bool = True) -> SimpleNamespace:
    return SimpleNamespace(world_size=workers, average_tokens_across_devices=average)


@pytest.mark.slow  # the import of transformers
def test_a_mean_is_not_multiplied_by_the_workers() -> None:
    transformers = pytest.importorskip("transformers")
    from bftrainer.progress.transformers import _multiplies_mean_loss

    def of_class(name: str) -> object:
        kind = getattr(transformers, name)
        return kind.__new__(kind)

    means = (MeanOfItsOwn(), Adapter(MeanOfItsOwn()), of_class("BertForSequenceClassification"))
    gpt = of_class("GPT2LMHeadModel")
    sums = (gpt, Adapter(gpt), of_class("LlamaForCausalLM"), None)
    assert all(_multiplies_mean_loss(arguments(2), model) for model in means)
    assert not any(_multiplies_mean_loss(arguments(2), model) for model in sums)
    assert not any(_multiplies_mean_loss(arguments(1), model) for model in means)
    assert not any(_multiplies_mean_loss(arguments(2, average=False), model) for model in means)
