"""Grouped-query attention (GQA): several query heads share one head of keys and values."""

from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention


class GroupedQueryAttention(MultiHeadAttention):
    """Multi-head attention with fewer heads of keys and values than of queries; a cache keeps only those few.

    Query heads 0 … G - 1 read the first head of keys and values, the next G the second, and so on. With as many heads
    of keys as of queries it is multi-head attention, with one it is multi-query attention (Shazeer 2019).

    Paper: Ainslie et al. 2023 [ainslie2023gqa], Section 2.2.
    Differs: nothing. Its projections have no biases by default, as in LLaMA.

    Args:
        d_model: width in and out
        num_heads: of queries; must divide d_model
        num_kv_heads: of keys and values; must divide num_heads
        dropout, bias, positions: as in `MultiHeadAttention`
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_kv_heads: int,
        *,
        dropout: float = 0.0,
        bias: bool = False,
        positions: nn.Module | None = None,
    ) -> None:
        super().__init__(d_model, num_heads, dropout=dropout, bias=bias, positions=positions)
        check_groups(num_heads, num_kv_heads, "GroupedQueryAttention")
        self.num_kv_heads, self.group = num_kv_heads, num_heads // num_kv_heads
        self.key_proj = nn.Linear(d_model, num_kv_heads * self.head_dim, bias=bias)
        self.value_proj = nn.Linear(d_model, num_kv_heads * self.head_dim, bias=bias)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, is_causal: bool, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """As in `MultiHeadAttention`, after each key and value head (B, Hkv, Tk, Dh) has been lent to its group."""
        k, v = (lent.repeat_interleave(self.group, dim=1) for lent in (k, v))  # (B, H, Tk, Dh)
        return super().attend(q, k, v, mask, is_causal=is_causal, need_weights=need_weights)


def check_groups(num_heads: int, num_kv_heads: int, owner: str) -> None:
    """Raise unless the query heads fall into equal groups; `owner` is whose numbers they are."""
    if num_kv_heads < 1 or num_heads % num_kv_heads:
        raise ValueError(
            f"{owner}: num_kv_heads must divide num_heads, got num_heads={num_heads} and num_kv_heads={num_kv_heads}"
        )
