"""The graph explorer in a real browser: lines as wide as the weights, by mouse and by keyboard."""

import numpy as np
import pytest

from lecturelib.figures import GraphExample, GraphExplorer
from lecturelib.figures.explorers.graph.explorer import lay_out

EDGES = np.array([[1, 2, 0, 3, 1, 0], [0, 0, 0, 1, 2, 3]])
HEADS = {"first": [0.5, 0.3, 0.2, 1.0, 1.0, 0.0], "second": [0.1, 0.2, 0.7, 1.0, 1.0, 0.0]}


def example(**change):
    given = {"nodes": ["a", "b", "c", "d"], "groups": ["Theory", "Trees", "Theory", "Rules"], "edges": EDGES}
    return GraphExample(**(given | {"weights": HEADS, "name": "one"} | change))


def shown(page):
    return [float(text) for text in page.locator("table.bars td.number").all_inner_texts()]


def widths(page):
    return page.locator(".heard").evaluate_all("all => all.map(one => Number(one.getAttribute('stroke-width')))")


def test_graph_explorer_draws_lines_as_wide_as_weights(open_page):
    page = open_page(GraphExplorer([example()]))
    assert shown(page) == [0.5, 0.3, 0.2]
    assert widths(page) == pytest.approx([1 + 13 * 0.5, 1 + 13 * 0.3])
    assert float(page.locator(".ring").get_attribute("stroke-width")) == pytest.approx(1 + 13 * 0.2)
    said = page.locator("p.live").inner_text()
    assert said == "first: a (Theory) hears b (Trees) most, with 0.500. Nodes of its own group have 50 % of its weight."
    assert page.locator(".node text").all_text_contents() == ["Th", "Tr", "Th", "R"]
    page.get_by_role("radio", name="second").click()
    assert shown(page) == [0.7, 0.2, 0.1]
    assert "a (Theory) hears itself most, with 0.700" in page.locator("p.live").inner_text()
    assert "hears itself most" in page.get_by_role("img").get_attribute("aria-label")


def test_graph_explorer_follows_pointer_and_keyboard(open_page, open_on_phone):
    other = example(name="two", edges=EDGES[:, :3], weights={"only": [0.2, 0.2, 0.6]})
    page = open_page(GraphExplorer([example(), other]))
    page.locator(".node").nth(1).click()
    assert page.locator("p.live").inner_text().startswith("first: b (Trees) hears d (Rules) most, with 1.000.")
    for key in ("Tab", "Tab", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator("p.live").inner_text().startswith("first: c (Theory) hears b (Trees) most")
    page.get_by_role("radio", name="two").click()
    page.get_by_role("slider").fill("3")
    assert page.locator("p.live").inner_text() == "d (Rules) hears nobody."
    assert page.locator(".heard").count() == 0
    open_on_phone(GraphExplorer([example(), other]))


def test_graph_explorer_leaves_room_for_bars_beside_long_names(open_page):
    """On a laptop the names of papers and topics once took the whole table."""
    names = [f"paper {number} with a name" for number in (1056, 1193, 2402, 2707)]
    page = open_page(GraphExplorer([example(nodes=names, groups=["Probabilistic Methods"] * 4)]))
    for width in (1366, 1100, 900, 640):
        page.set_viewport_size({"width": width, "height": 800})
        longest = page.locator("table.bars .bar").evaluate_all(
            "all => all.map(one => one.clientWidth || one.offsetWidth)"
        )
        assert longest[0] > 60, width


def test_graph_explorer_keeps_its_letters_readable_beside_the_table(open_page):
    page = open_page(GraphExplorer([example()]), viewport={"width": 760, "height": 800})
    graph, table = page.locator("svg.graph").bounding_box(), page.locator("table.bars").bounding_box()
    assert graph["x"] + graph["width"] <= table["x"]
    letters = page.locator(".node text").evaluate_all(
        "all => all.map(one => parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a)"
    )
    assert min(letters) >= 11


def test_graph_explorer_puts_nodes_where_it_is_told(open_page):
    page = open_page(GraphExplorer([example(places=[[0, 0], [1, 0], [0, 1], [1, 1]])]))
    x, y = (
        page.locator(".disc").evaluate_all(f"all => all.map(one => Number(one.getAttribute('c{axis}')))")
        for axis in "xy"
    )
    assert x[0] == x[2] < x[1] == x[3]
    assert y[0] == y[1] < y[2] == y[3]


def test_graph_explorer_says_its_finding_without_a_script():
    assert "a (Theory) hears b (Trees) most, with a weight of 0.50" in GraphExplorer([example()]).text()
    assert (
        "d (Rules) hears nobody"
        in GraphExplorer([example(edges=EDGES[:, :5], weights={"x": [1] * 5})], start=(0, 3)).text()
    )


def test_layout_puts_neighbours_closer_than_strangers():
    """Two rings that one edge joins."""
    ring = np.arange(7)
    one = np.stack([ring, (ring + 1) % 7])
    edges = np.concatenate([one, one + 7, [[0], [7]]], axis=1)
    place = lay_out(edges, 14)
    assert place.min() == 0
    assert place.max() == 1
    far = np.linalg.norm(place[:, None] - place[None], axis=2)
    joined = far[edges[0], edges[1]]
    assert joined.max() < far[:7, 7:].mean()
    assert (far + np.eye(14)).min() > 0.05
    np.testing.assert_array_equal(place, lay_out(edges, 14))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": ["Theory"]}, "4 nodes need as many groups, got 1"),
        ({"edges": EDGES + 1}, r"edges must be \(2, E\) with numbers below 4"),
        ({"weights": {}}, "has no head"),
        ({"places": [[0, 0]]}, r"places must be \(4, 2\), got \(1, 2\)"),
        ({"weights": {"x": [1.0]}}, r"6 edges need as many weights, got \(1,\)"),
    ],
)
def test_graph_explorer_refuses_what_does_not_fit(change, message):
    with pytest.raises(ValueError, match=message):
        GraphExplorer([example(), example(**change)])
    with pytest.raises(ValueError, match="outside the 1 graphs"):
        GraphExplorer([example()], start=(0, 4))
