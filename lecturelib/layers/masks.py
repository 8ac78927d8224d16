"""Boolean attention masks. True means "may attend", always."""

import torch
from torch import Tensor

from lecturelib.layers.checks import ends


def causal_mask(query_len: int, key_len: int | None = None, *, device: torch.device | str | None = None) -> Tensor:
    """Let each query see the keys up to and including its own position.

    With more keys than queries (a cache of earlier steps), the queries are the *last* positions.

    Paper: Vaswani et al. 2017 [vaswani2017attention], Section 3.2.3.
    Differs: nothing.

    Shapes: (Tq, Tk), broadcasts over batch and heads
    """
    key_len = query_len if key_len is None else key_len
    if key_len < query_len:
        raise ValueError(
            f"causal_mask: {query_len} queries need at least as many keys, got {key_len}; "
            "a query must be able to see its own position"
        )
    queries = torch.arange(key_len - query_len, key_len, device=device)
    return torch.arange(key_len, device=device) <= queries[:, None]  # (Tq, Tk)


def padding_mask(lengths: Tensor, max_len: int | None = None) -> Tensor:
    """Let every query see the real tokens of its own sequence and none of the padding after them.

    Differs: nothing; it is bookkeeping, not from a paper.

    Args:
        lengths: (B,) number of real tokens in each sequence
        max_len: width of the padded batch; the longest length when left out, which on a GPU waits for it

    Shapes: (B,) -> (B, 1, Tk), broadcasts over queries; add a heads axis with `mask[:, None]`
    """
    if lengths.dim() != 1 or lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise ValueError(
            f"padding_mask: lengths must be a vector of integers, got {lengths.dtype} {tuple(lengths.shape)}"
        )
    if max_len is None:  # a stop on a GPU: how wide the mask is must be known
        max_len = int(lengths.max()) if lengths.numel() else 0
    shortest, longest = ends(lengths) or (0, 0)
    if shortest < 0:
        raise ValueError(f"padding_mask: a length of {shortest} is negative; a sequence has 0 or more tokens")
    if longest > max_len:
        raise ValueError(f"padding_mask: a length of {longest} does not fit in max_len={max_len}")
    return (torch.arange(max_len, device=lengths.device) < lengths[:, None])[:, None, :]  # (B, 1, Tk)
