"""Watch what a model attends to, and where it sends its tokens, from outside."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import Tensor, nn

from lecturelib.layers.attention import Attention
from lecturelib.layers.switch import Routing, SwitchFFN

Seen = TypeVar("Seen")


@contextmanager
def attention_weights(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Within the block, gather every attention layer's weights (B, H, Tq, Tk) under the layer's name, the latest last::

        with attention_weights(model) as seen:
            model(tokens)
        seen["blocks.0.mixer"]

    The weights are those before dropout, and part of the graph if there is one. Layers compute them only in here.
    """
    seen: dict[str, Tensor] = {}
    with _watched(model, Attention, seen, "attention layer whose weights"):
        yield seen


@contextmanager
def routings(model: nn.Module) -> Iterator[dict[str, Routing]]:
    """Within the block, gather where each `SwitchFFN` sends its tokens, as `attention_weights` gathers weights::

        with routings(model) as seen:
            logits = model(tokens)
        loss = ... + 0.01 * balance_loss(seen.values())

    They are part of the graph if there is one, which is how a balance loss reaches the routers.
    """
    seen: dict[str, Routing] = {}
    with _watched(model, SwitchFFN, seen, "SwitchFFN whose routing"):
        yield seen


@contextmanager
def _watched(model: nn.Module, kind: Any, seen: dict[str, Seen], what: str) -> Iterator[None]:
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, kind)}
    if not layers:
        raise ValueError(f"{type(model).__name__} has no {what} could be watched")

    def watcher(name: str) -> Callable[[Seen], None]:
        def keep(found: Seen) -> None:
            seen.pop(name, None)  # so that the order is that of the calls
            seen[name] = found

        return keep

    before = {name: layer.watchers for name, layer in layers.items()}
    for name, layer in layers.items():
        layer.watchers = (*layer.watchers, watcher(name))
    try:
        yield
    finally:
        for name, layer in layers.items():
            layer.watchers = before[name]
