"""Watch what a model attends to, from outside."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from lecturelib.layers.attention import Attention


@contextmanager
def attention_weights(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Within the block, gather every attention layer's weights (B, H, Tq, Tk) under the layer's name, the latest last::

        with attention_weights(model) as seen:
            model(tokens)
        seen["blocks.0.mixer"]

    The weights are those before dropout, and part of the graph if there is one. Layers compute them only in here.
    """
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, Attention)}
    if not layers:
        raise ValueError(f"{type(model).__name__} has no attention layer whose weights could be watched")
    seen: dict[str, Tensor] = {}

    def watcher(name: str) -> Callable[[Tensor], None]:
        def keep(weights: Tensor) -> None:
            seen.pop(name, None)  # so that the order is that of the calls
            seen[name] = weights

        return keep

    before = {name: layer.watchers for name, layer in layers.items()}
    for name, layer in layers.items():
        layer.watchers = (*layer.watchers, watcher(name))
    try:
        yield seen
    finally:
        for name, layer in layers.items():
            layer.watchers = before[name]
