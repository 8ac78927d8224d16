"""The explorer of patterns in a real browser: it draws and counts the scores that the mixers compute."""

import pytest
import torch

from lecturelib.figures import PatternExplorer
from lecturelib.layers import BigBird

SIZES = (8, 12)


def explorer():
    torch.manual_seed(0)
    found = []
    for size in SIZES:
        layer = BigBird(8, 2, max_len=size, block=2, num_random=1)
        with torch.no_grad():
            found.append(layer(torch.randn(1, size, 8), need_weights=True)[1][0, 0] > 0)
    full = [torch.ones(size, size, dtype=torch.bool) for size in SIZES]
    few = [torch.ones(size, 3, dtype=torch.bool) for size in SIZES]
    about = {"all pairs": "Everyone asks everyone.", "Big Bird": "In blocks.", "few": "Three mixtures."}
    return PatternExplorer(SIZES, {"all pairs": full, "Big Bird": found, "few": few}, about)


def area(page, kind):
    """Cells that a path fills, from its runs along the rows, in units of one cell of the largest matrix."""
    path = page.locator(f".pattern path.{kind}").get_attribute("d") or ""
    return sum(float(run.split("h")[1].split("v")[0]) for run in path.split("M")[1:])


def test_pattern_explorer_counts_every_mixer_at_every_length(open_page):
    card = explorer()
    page = open_page(card)
    for index, size in enumerate(SIZES):
        page.get_by_label("N", exact=True).fill(str(index))
        numbers = [int(text) for text in page.locator("td.number").all_inner_texts()]
        assert numbers == [card.count(name, size) for name in card.patterns]
        for number, name in enumerate(card.patterns):
            page.get_by_role("radio", name=name).click()
            assert f"computes {card.count(name, size):,} scores" in page.locator("p.live").inner_text()
            cells = (area(page, "on") + area(page, "asking")) / (288 / size)
            assert cells == pytest.approx(card.count(name, size)), (number, size)


def test_pattern_explorer_marks_the_row_of_the_chosen_token(open_page):
    card = explorer()
    page = open_page(card)
    page.get_by_role("radio", name="Big Bird").click()
    page.get_by_label("Token", exact=True).fill("5")
    row = int(card.patterns["Big Bird"][-1][4].sum())
    assert area(page, "asking") / (288 / SIZES[-1]) == pytest.approx(row)
    assert f"Token 5 computes {row}." in page.locator("p.live").inner_text()


def test_pattern_explorer_says_on_both_axes_what_they_are(open_page):
    page = open_page(explorer())
    words = page.locator(".pattern text").all_text_contents()
    assert words == ["what is asked →", "who asks →", "1", "12", "1", "12"]
    page.get_by_role("radio", name="few").click()  # three mixtures of keys: no column is token 12
    assert page.locator(".pattern text").all_text_contents() == words[:-1]
    drawn = page.locator(".pattern svg").bounding_box()
    for word in page.locator(".pattern text").all():
        box = word.bounding_box()
        assert drawn["x"] <= box["x"], word.inner_html()
        assert box["x"] + box["width"] <= drawn["x"] + drawn["width"], word.inner_html()


def test_pattern_explorer_refuses_what_it_cannot_draw():
    full = torch.ones(8, 8, dtype=torch.bool)
    with pytest.raises(ValueError, match="rising"):
        PatternExplorer((8,), {"a": [full]}, {"a": "All."})
    with pytest.raises(ValueError, match="sentence"):
        PatternExplorer(SIZES, {"a": [full, full]}, {})
    with pytest.raises(ValueError, match="N rows"):
        PatternExplorer(SIZES, {"a": [full, full]}, {"a": "All."})
    with pytest.raises(ValueError, match="no pattern 'b'"):
        PatternExplorer((4, 8), {"a": [full, full]}, {"a": "All."}, mixer="b")
