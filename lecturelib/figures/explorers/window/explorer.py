"""Step through a shifted-window layer: cut, roll, cut again, mask, and roll back."""

import torch

from lecturelib.figures.explorers.explorer import Explorer
from lecturelib.layers.windows import Window, partition_windows, shift_mask, shift_regions

STEPS = ("1 windows", "2 roll", "3 windows of the rolled grid", "4 mask", "5 roll back")


class WindowExplorer(Explorer):
    """Choose a step, a shift and a patch of the grid; see where the patch goes and which patches it may attend to.

    Paper: Liu et al. 2021 [liu2021swin], Figures 2 and 4.
    Differs: nothing.

    Args:
        grid: rows and columns of patches, multiples of the window's
        window: rows and columns of a window
        shift: rows and columns that the windows are moved by; no shift can be chosen too
        patch: row and column of the patch chosen first, counted from 0
    """

    title = "How do shifted windows work?"
    hint = "press play, then choose a patch near a border."

    def __init__(
        self,
        grid: tuple[int, int] = (8, 8),
        window: Window = (4, 4),
        shift: Window = (2, 2),
        *,
        patch: tuple[int, int] = (3, 3),
    ) -> None:
        if any(size % side or size <= side for size, side in zip(grid, window, strict=True)):
            raise ValueError(
                f"WindowExplorer: a grid of {grid[0]} × {grid[1]} must hold two or more windows of "
                f"{window[0]} × {window[1]} each way, and whole ones"
            )
        if not all(0 <= step < side for step, side in zip(shift, window, strict=True)):
            raise ValueError(f"WindowExplorer: shift={shift} must be 0 or more and less than the window {window}")
        if not all(0 <= place < size for place, size in zip(patch, grid, strict=True)):
            raise ValueError(f"WindowExplorer: patch={patch} lies outside a grid of {grid[0]} × {grid[1]}")
        self.grid, self.window, self.shift, self.patch = grid, window, shift, patch
        self.shifts = [(0, 0), shift] if any(shift) else [(0, 0)]

    def data(self) -> dict[str, object]:
        numbers = torch.arange(self.grid[0] * self.grid[1]).view(self.grid)
        return {
            "grid": list(self.grid),
            "window": list(self.window),
            "shifts": [list(shift) for shift in self.shifts],
            "start": int(numbers[self.patch]),
            "steps": list(STEPS),
            "rolled": [numbers.roll((-s[0], -s[1]), dims=(0, 1)).flatten().tolist() for s in self.shifts],
            "regions": [shift_regions(self.grid, self.window, s).flatten().tolist() for s in self.shifts],
        }

    def text(self) -> str:
        alone, moved = (len(self.seen(shift)) for shift in ((0, 0), self.shift))
        count = self.grid[0] * self.grid[1] // (self.window[0] * self.window[1])
        return (
            f"A grid of {self.grid[0]} × {self.grid[1]} patches in {count} windows of {self.window[0]} × "
            f"{self.window[1]}. The patch in row {self.patch[0] + 1}, column {self.patch[1] + 1} sees {alone} patches "
            f"in its window; with the windows moved by {self.shift[0]} down and {self.shift[1]} to the right, it sees "
            f"{moved}, others among them. Rolling the grid keeps the number of windows at {count}."
        )

    def seen(self, shift: Window) -> list[int]:
        """The numbers of the patches that the chosen patch may attend to, by `shift_mask`."""
        numbers = torch.arange(self.grid[0] * self.grid[1]).view(self.grid)
        rolled = numbers.roll((-shift[0], -shift[1]), dims=(0, 1))
        windows = partition_windows(rolled[None, :, :, None], self.window).squeeze(-1)  # (windows, T)
        window, query = (windows == numbers[self.patch]).nonzero()[0].tolist()
        return windows[window][shift_mask(self.grid, self.window, shift)[window, query]].sort().values.tolist()
