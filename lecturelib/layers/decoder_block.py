"""The block of a decoder that also reads a source: two attentions and a feed-forward net."""

from collections.abc import Callable

from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import Wiring
from lecturelib.layers.cache import LayerCache


class DecoderBlock(nn.Module):
    """One layer of a decoder: look back over the target, look across at the source, then think.

    Paper: Vaswani et al. 2017 [vaswani2017attention], Section 3.1.
    Differs: nothing, wired with `PostNorm`.

    Args:
        mixer: self-attention over the target
        cross: attention from the target to the source
        feed_forward: (B, T, D) -> (B, T, D)
        wiring: makes a new `PreNorm`, `PostNorm` or other `Wiring` for each of the three sublayers
    """

    def __init__(
        self,
        mixer: nn.Module,
        cross: MultiHeadAttention,
        feed_forward: nn.Module,
        wiring: Callable[[], Wiring],
    ) -> None:
        super().__init__()
        self.mixer, self.mixer_wiring = mixer, wiring()
        self.cross, self.cross_wiring = cross, wiring()
        self.feed_forward, self.feed_forward_wiring = feed_forward, wiring()

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        *,
        is_causal: bool = False,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Read the whole target at once, as in training, or with a cache what is new of it.

        Args:
            x: target (B, T, D)
            memory: the encoder's output (B, S, D)
            mask: True = may attend, broadcasts to (B, T, T)
            memory_mask: True = may attend, broadcasts to (B, T, S)
            is_causal: a target sees itself and those before it
            cache: earlier targets, and the memory's keys and values from the first step on

        Shapes: -> (B, T, D)
        """
        around = self.mixer_wiring
        x = around.join(x, self.mixer(around.enter(x), mask=mask, is_causal=is_causal, cache=cache))
        around, kept = self.cross_wiring, None if cache is None else cache.part("cross")
        x = around.join(x, self.cross(around.enter(x), memory, mask=memory_mask, cache=kept))
        around = self.feed_forward_wiring
        return around.join(x, self.feed_forward(around.enter(x)))
