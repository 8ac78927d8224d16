"""The window explorer in a real browser: what it shows is what lecturelib's windows, roll and mask do."""

import pytest
import torch

from lecturelib.figures import WindowExplorer
from lecturelib.layers.windows import partition_windows, shift_mask

CASES = [((8, 8), (4, 4), (2, 2)), ((6, 12), (3, 4), (1, 2)), ((10, 4), (5, 2), (2, 0))]
each_case = pytest.mark.parametrize(("grid", "window", "shift"), CASES)


def windows_and_masks(grid, window, shift):
    """The patches of every window of the rolled grid, by number, and who may attend to whom among them."""
    numbers = torch.arange(grid[0] * grid[1]).view(1, *grid, 1)
    rolled = numbers.roll((-shift[0], -shift[1]), dims=(1, 2))
    return rolled.flatten().tolist(), partition_windows(rolled, window).squeeze(-1), shift_mask(grid, window, shift)


def go(page, step):
    page.get_by_role("radiogroup", name="Step").get_by_role("radio").nth(step - 1).click()


def click(page, patch):
    page.locator(f'.grid [data-patch="{patch}"] > rect').click()


def shown(page, kind):
    marked = page.locator(f".grid .{kind}").evaluate_all("all => all.map(one => Number(one.dataset.patch))")
    return sorted(marked)


def order(page):
    return page.locator(".grid .patch").evaluate_all("all => all.map(one => Number(one.dataset.patch))")


@each_case
def test_window_explorer_rolls_the_grid_and_back(open_page, grid, window, shift):
    page = open_page(WindowExplorer(grid, window, shift))
    rolled, _, _ = windows_and_masks(grid, window, shift)
    for step in (2, 3, 4):
        go(page, step)
        assert order(page) == rolled
    for step in (1, 5):
        go(page, step)
        assert order(page) == sorted(rolled)


@each_case
def test_window_explorer_shows_the_mask_of_every_window(open_page, grid, window, shift):
    page = open_page(WindowExplorer(grid, window, shift))
    go(page, 4)
    _, windows, masks = windows_and_masks(grid, window, shift)
    for number, (patches, mask) in enumerate(zip(windows.tolist(), masks, strict=True)):
        click(page, patches[-1])
        cells = page.locator(".mask rect").evaluate_all("all => all.map(one => one.classList.contains('may'))")
        assert cells == mask.flatten().tolist()
        assert f"Mask of window {number + 1}" in page.locator(".mask p").inner_text()
        may = [patch for patch, allowed in zip(patches, mask[-1].tolist(), strict=True) if allowed]
        assert sorted(shown(page, "seen") + shown(page, "query")) == sorted(may)
        assert sorted(shown(page, "hidden")) == sorted(set(patches) - set(may))
        assert f"may attend to {len(may)} of {len(patches)}" in page.locator("p.live").inner_text()


@each_case
def test_window_explorer_shows_what_each_patch_sees_in_place(open_page, grid, window, shift):
    explorer = WindowExplorer(grid, window, shift)
    page = open_page(explorer)
    for patch in (0, grid[0] * grid[1] // 2, grid[0] * grid[1] - 1):
        explorer.patch = divmod(patch, grid[1])
        click(page, patch)
        go(page, 1)
        assert sorted([*shown(page, "seen"), patch]) == explorer.seen((0, 0))
        go(page, 5)
        assert sorted([*shown(page, "seen"), patch]) == explorer.seen(shift)
        page.get_by_role("radio", name="none").click()
        assert sorted([*shown(page, "seen"), patch]) == explorer.seen((0, 0))
        page.get_by_role("radiogroup", name="Shift").get_by_role("radio").nth(1).click()


def test_window_explorer_marks_the_patches_that_came_round(open_page):
    page = open_page(WindowExplorer((8, 8), (4, 4), (2, 2), patch=(4, 4)))
    go(page, 2)
    assert shown(page, "round") == [p for p in range(64) if p // 8 < 2 or p % 8 < 2]


def test_window_explorer_follows_the_keyboard(open_page):
    page = open_page(WindowExplorer())
    page.get_by_role("slider", name="Patch: row").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert shown(page, "query") == [7]
    page.get_by_role("radiogroup", name="Step").get_by_role("radio").first.focus()
    page.keyboard.press("End")
    assert "row 1, column 8 has seen 4 patches" in page.locator("p.live").inner_text()


def test_window_explorer_works_by_touch_on_a_phone(open_on_phone, tap):
    page = open_on_phone(WindowExplorer())
    tap(page.get_by_role("radiogroup", name="Step").get_by_role("radio").nth(3))
    tap(page.locator('.grid [data-patch="63"] > rect'))
    assert shown(page, "query") == [63]


def test_window_explorer_says_its_finding_without_scripts(open_page):
    explorer = WindowExplorer()
    page = open_page(explorer, java_script_enabled=False)
    assert explorer.text() in page.locator("body").inner_text()
    assert "sees 16 patches in its window" in explorer.text()


def test_window_explorer_gives_the_same_bytes_every_time():
    assert WindowExplorer()._repr_html_() == WindowExplorer()._repr_html_()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((8, 6), (4, 4), (2, 2)), "whole ones"),
        (((4, 8), (4, 4), (2, 2)), "two or more windows"),
        (((8, 8), (4, 4), (4, 0)), "less than the window"),
    ],
)
def test_window_explorer_refuses_what_it_cannot_show(arguments, message):
    with pytest.raises(ValueError, match=message):
        WindowExplorer(*arguments)
    with pytest.raises(ValueError, match="outside a grid"):
        WindowExplorer(patch=(8, 0))
