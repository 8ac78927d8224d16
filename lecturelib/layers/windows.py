"""Attention inside windows of a grid: cut, shift, mask, attend, and put back; shared by Swin and Swin V2."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention

Window = tuple[int, int]


def partition_windows(x: Tensor, window: Window) -> Tensor:
    """Cut a grid into windows that do not overlap, row of windows by row of windows.

    Paper: Liu et al. 2021 [liu2021swin], Section 3.2.
    Differs: nothing.

    Shapes: (B, rows, columns, D) -> (B · windows, window rows · window columns, D)
    """
    batch, rows, columns, d_model = x.shape
    height, width = window
    if rows % height or columns % width:
        raise ValueError(
            f"windows of {height} × {width} do not tile a grid of {rows} × {columns}; pad the grid first, or choose "
            "sides that divide it"
        )
    x = x.view(batch, rows // height, height, columns // width, width, d_model)  # (B, down, h, across, w, D)
    return x.transpose(2, 3).reshape(-1, height * width, d_model)  # (B · down · across, h · w, D)


def merge_windows(windows: Tensor, window: Window, grid: tuple[int, int]) -> Tensor:
    """Put windows back where `partition_windows` cut them.

    Shapes: (B · windows, window rows · window columns, D) -> (B, rows, columns, D)
    """
    (height, width), (rows, columns) = window, grid
    down, across, d_model = rows // height, columns // width, windows.shape[-1]
    batch = windows.shape[0] // (down * across)
    x = windows.view(batch, down, across, height, width, d_model)  # (B, down, across, h, w, D)
    return x.transpose(2, 3).reshape(batch, rows, columns, d_model)  # (B, rows, columns, D)


def shift_regions(grid: tuple[int, int], window: Window, shift: Window, device: torch.device | None = None) -> Tensor:
    """Number the pieces of a grid that was rolled by `shift`: neighbours from before share a number within a window.

    Patches that only rolling brought into one window have different numbers.

    Paper: Liu et al. 2021 [liu2021swin], Figure 4.
    Differs: nothing.

    Args:
        grid: rows and columns, multiples of the window's
        window: its rows and columns
        shift: how far the grid was rolled up, and to the left

    Shapes: -> integers (rows, columns), 0 to 8
    """
    region = torch.zeros(grid, dtype=torch.long, device=device)
    for axis, (size, side, step) in enumerate(zip(grid, window, shift, strict=True)):
        if step:
            where = torch.arange(size, device=device)
            part = (where >= size - side).long() + (where >= size - step).long()  # 0, then 1, then 2 that came round
            region = 3 * region + (part[:, None] if axis == 0 else part)
    return region


def shift_mask(grid: tuple[int, int], window: Window, shift: Window, device: torch.device | None = None) -> Tensor:
    """Who may attend to whom in a grid that was rolled by `shift`: only patches that were neighbours before.

    Rolling puts the top rows below the bottom ones. The last windows then hold up to four patches of the image that
    never touched: each attends within its own, and windows keep their number and their size.

    Paper: Liu et al. 2021 [liu2021swin], Section 3.2 and Figure 4.
    Differs: nothing.

    Args: as those of `shift_regions`

    Shapes: -> boolean (windows, T, T), T being the patches of one window; True = may attend
    """
    region = shift_regions(grid, window, shift, device)
    of_window = partition_windows(region[None, :, :, None], window).squeeze(-1)  # (windows, T)
    return of_window[:, :, None] == of_window[:, None, :]


class WindowAttention(nn.Module):
    """Attend within windows of a grid, the windows shifted or not; a mixer for `Block`.

    The cost is linear in the number of patches: each sees the same few others, however large the image.

    Paper: Liu et al. 2021 [liu2021swin], Section 3.2.
    Differs: nothing. A grid that the windows do not tile is padded with zeros on the right and below, which are
    attended to like patches, and then rolled, as in the authors' detection code and in transformers; timm rolls such a
    grid before it pads. An axis that fits in one window is not shifted, and the other still is, as in timm. (Where just
    one axis fits, the authors' code and transformers' Swin shift neither; transformers' Swin V2 decides once, by the
    size in its config. For square images of that size all agree.)

    Args:
        attention: what happens inside a window
        window: rows and columns of a window
        shift: rows and columns that the windows are moved by, (0, 0) for every other layer

    Shapes: (B, rows, columns, D) -> (B, rows, columns, D)
    """

    def __init__(self, attention: MultiHeadAttention, window: Window, shift: Window = (0, 0)) -> None:
        super().__init__()
        if not all(0 <= step < side for step, side in zip(shift, window, strict=True)):
            raise ValueError(f"a shift must be 0 or more and less than the window, got {shift} and {window}")
        self.attention, self.window, self.shift = attention, window, shift

    def forward(
        self, x: Tensor, key: None = None, *, mask: None = None, is_causal: bool = False, cache: None = None
    ) -> Tensor:
        """Pad to whole windows; roll, attend behind a mask, roll back; and cut what was padded."""
        if key is not None or mask is not None or is_causal or cache is not None:
            raise ValueError("windows of a grid attend to themselves: no key, mask, causality or cache")
        if x.dim() != 4:
            raise ValueError(f"a grid must be (batch, rows, columns, width), got {tuple(x.shape)}")
        rows, columns = x.shape[1:3]
        below, beside = -rows % self.window[0], -columns % self.window[1]
        x = F.pad(x, (0, 0, 0, beside, 0, below)) if below or beside else x
        grid, (down, right) = (x.shape[1], x.shape[2]), self.effective_shift((rows, columns))
        if down or right:
            x = x.roll((-down, -right), dims=(1, 2))
            allowed = shift_mask(grid, self.window, (down, right), x.device).repeat(len(x), 1, 1)  # (B · windows, T, T)
        else:
            allowed = None
        windows = self.attention(partition_windows(x, self.window), mask=allowed)  # (B · windows, T, D)
        x = merge_windows(windows, self.window, grid)
        if down or right:
            x = x.roll((down, right), dims=(1, 2))
        return x[:, :rows, :columns]  # (B, rows, columns, D)

    def effective_shift(self, grid: tuple[int, int]) -> Window:
        """The shift that a grid of this many rows and columns gets."""
        return (self.shift[0] if grid[0] > self.window[0] else 0, self.shift[1] if grid[1] > self.window[1] else 0)


def join_neighbours(x: Tensor) -> Tensor:
    """Put 2 × 2 patches side by side in one vector, padding an odd side with zeros: the first half of patch merging.

    Paper: Liu et al. 2021 [liu2021swin], Section 3.1.
    Differs: nothing; of the four, the lower one comes before the right one, as in the authors' code.

    Shapes: (B, rows, columns, D) -> (B, rows / 2, columns / 2, 4 · D)
    """
    x = F.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2)) if x.shape[1] % 2 or x.shape[2] % 2 else x
    batch, rows, columns, d_model = x.shape
    x = x.reshape(batch, rows // 2, 2, columns // 2, 2, d_model)  # (B, rows / 2, 2, columns / 2, 2, D)
    return x.permute(0, 1, 3, 4, 2, 5).flatten(3)  # (B, rows / 2, columns / 2, 4 · D), down before across
