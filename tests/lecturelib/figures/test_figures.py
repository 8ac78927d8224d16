"""Pictures and explorers: self-contained, the same bytes every time, and never without words."""

import re

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb

from lecturelib.figures import (
    AttentionExplorer,
    Explorer,
    Picture,
    SoftmaxExplorer,
    attention_map,
    house_style,
    line_plot,
    new_figure,
    sequence_grid,
)
from lecturelib.figures.explorers.explorer import pack
from lecturelib.figures.plots.picture import COLOURS

ALT = "The line rises from one to nine & never < falls."


def page(thing):
    return thing._repr_html_()


def some_line(alt=ALT):
    return line_plot({"squares": ([1, 2, 3], [1, 4, 9]), "lines": ([1, 2, 3], [1, 2, 3])}, x="n", y="n²", alt=alt)


def some_weights(layers=2, heads=3, queries=4, keys=5):
    scores = torch.randn(layers, heads, queries, keys, generator=torch.Generator().manual_seed(0))
    return scores.softmax(dim=-1)


def pictures():
    weights = some_weights()[0]
    return [
        some_line(),
        attention_map(weights[0], list("abcd"), list("vwxyz"), alt=ALT),
        attention_map(weights - 0.5, alt=ALT, signed=True, titles=["a", "b", "c"]),
        sequence_grid([{"in": np.arange(5), "out": np.ones(5)}] * 3, alt=ALT, titles=["a", "b", "c"]),
    ]


@pytest.mark.parametrize("picture", pictures())
def test_picture_carries_its_alt_text_everywhere(picture):
    escaped = "The line rises from one to nine &amp; never &lt; falls."
    html = page(picture)
    assert html.count(f'role="img" aria-label="{escaped}"') == 2, "one for a page and one for a phone"
    assert ALT in repr(picture)


@pytest.mark.parametrize("picture", pictures())
def test_picture_takes_the_pages_colours_and_asks_nobody_for_anything(picture):
    html = page(picture)
    assert "currentColor" in html
    assert "#ffffff" not in html
    assert "#000000" not in html
    assert not re.search(r'(?:href|src)="(?:https?:)?//', html)
    assert '<g id="' not in html


def test_picture_is_the_same_bytes_every_time():
    assert page(some_line()) == page(some_line())
    first, second = (page(some_line(alt)) for alt in (ALT, "Another sentence, about another line."))
    ids = [set(re.findall(r' id="([^"]+)"', html)) for html in (first, second)]
    assert not ids[0] & ids[1], "two pictures on one page must not share ids"


@pytest.mark.parametrize("picture", pictures())
def test_picture_has_text_of_eleven_pixels_on_a_phone(picture):
    (width,) = re.findall(r'viewBox="0 0 ([\d.]+) ', picture.narrow_svg)
    sizes = [float(size) for size in re.findall(r"font(?:-size)?: ?([\d.]+)px", picture.narrow_svg)]
    assert sizes
    assert min(sizes) * 350 / float(width) >= 11


def test_picture_insists_on_alt_text():
    with house_style():
        figure, _ = new_figure()
    with pytest.raises(ValueError, match="a sentence that states what the figure shows, got 'a plot'"):
        Picture(figure, "a plot")


def test_house_style_gives_the_callers_settings_back():
    before = matplotlib.rcParams["font.size"], matplotlib.rcParams["text.color"]
    with house_style():
        assert matplotlib.rcParams["axes.facecolor"] == "none"
    assert (matplotlib.rcParams["font.size"], matplotlib.rcParams["text.color"]) == before


@pytest.mark.parametrize("background", ["#ffffff", "#14181e", "#111111"])
@pytest.mark.parametrize("colour", COLOURS)
def test_colours_stand_out_on_light_and_dark_pages(colour, background):
    def luminance(name):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(name)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lights = sorted((luminance(colour), luminance(background)))
    assert (lights[1] + 0.05) / (lights[0] + 0.05) >= 3


def test_lines_differ_in_dash_and_marker_not_in_colour_alone():
    svg = some_line().svg
    assert "stroke-dasharray" in svg
    assert len(set(re.findall(r'<use xlink:href="#(m[^"]+)"', svg))) >= 2


def test_ticks_of_logarithmic_axes_are_plain_numbers():
    picture = line_plot({"cost": ([128, 4096], [0.01, 1e4])}, x="n", y="seconds", log="xy", alt=ALT)
    texts = set(re.findall(r">([\d.,]+)</text>", picture.svg))
    assert {"128", "4,096", "0.01", "10,000"} <= texts
    assert "<tspan" not in picture.svg


def test_logarithmic_axis_of_little_reach_has_more_ticks_than_powers_of_ten():
    picture = line_plot({"error": ([4, 256], [0.16, 1.5])}, x="m", y="error", log="xy", alt=ALT)
    assert {"0.2", "0.5", "1"} <= set(re.findall(r">([\d.,]+)</text>", picture.svg))


def test_maps_side_by_side_stand_in_rows_where_there_is_no_room():
    maps, words = np.full((3, 9, 9), 1 / 9), [f"word {index}" for index in range(9)]
    picture = attention_map(maps, words, words, titles=list("abc"), alt=ALT)
    assert picture.svg.count(">query<") == 1
    assert picture.narrow_svg.count(">query<") > 1
    assert ">.11<" not in picture.narrow_svg, "numbers are left out where they would touch"


def test_attention_map_names_its_axes():
    plain, named = attention_map([[1.0]], alt=ALT).svg, attention_map([[1.0]], alt=ALT, axes_names=("bit", "place")).svg
    assert ">query<" in plain
    assert ">key<" in plain
    assert ">bit<" in named
    assert ">place<" in named
    assert ">key<" not in named


def test_attention_map_turns_words_and_leaves_digits_upright():
    def turned(keys):
        svgs = attention_map(np.ones((2, len(keys))), ["a", "b"], keys, alt=ALT)
        return [re.findall(r"<text[^>]*rotate[^>]*>([^<]*)</text>", svg) for svg in (svgs.svg, svgs.narrow_svg)]

    digits, words = [str(number) for number in range(9)], ["she", "saw", "the", "bank"]
    assert turned(digits) == [["query"], ["query"]]
    assert turned(words) == [[*words, "query"], [*words, "query"]]
    many = [str(number) for number in range(24)]
    assert turned(many) == [["query"], [*many, "query"]], "where they would touch, they are turned"


def test_legend_takes_a_second_row_before_it_leaves_a_narrow_figure():
    def rows_of_legend(names):
        svg = line_plot({name: ([1, 2], [3, 4]) for name in names}, x="x", y="y", alt=ALT).narrow_svg
        return {found for name in names for found in re.findall(rf'y="([\d.]+)"[^>]*>{name}<', svg)}

    assert len(rows_of_legend(["Paris", "cold"])) == 1
    assert len(rows_of_legend(["Paris", "cold", "west", "four"])) == 2


def test_attention_map_writes_small_matrices_in_numbers():
    svg = attention_map([[0.25, 0.75]], ["q"], ["a", "b"], alt=ALT).svg
    assert ".25" in svg
    assert ".75" in svg


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: attention_map(np.ones(3), alt=ALT), r"\(Tq, Tk\) or \(maps, Tq, Tk\), got shape \(3,\)"),
        (lambda: attention_map(np.ones((2, 3)), ["a"], alt=ALT), "queries must name all 2 of them, got 1"),
        (lambda: line_plot({}, x="x", y="y", alt=ALT, log="z"), "got 'z'"),
        (lambda: AttentionExplorer(np.ones((2, 3)), ["a"]), r"\(layers, heads, 1 queries, 1 keys\), got \(2, 3\)"),
        (lambda: AttentionExplorer(np.ones((1, 1, 2, 2)), ["a", "b"]), "must be a softmax"),
        (lambda: AttentionExplorer(some_weights(), list("abcd"), list("vwxyz"), start=(2, 0, 0)), r"start=\(2, 0, 0\)"),
        (lambda: SoftmaxExplorer(widths=(0, 2)), "at least 1"),
        (lambda: SoftmaxExplorer(num_keys=1), "at least 2 keys"),
    ],
)
def test_figures_say_what_they_need(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    "make", [lambda: AttentionExplorer(some_weights(), list("abcd"), list("vwxyz")), lambda: SoftmaxExplorer()]
)
def test_explorer_is_self_contained_deterministic_and_has_a_text_fallback(make):
    html = make()._repr_html_()
    assert html == make()._repr_html_()
    assert not re.search(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)\w+\.\w+", html.replace("// ", ""))
    visible = html[: html.index("<script>")]
    assert make().text() in visible.replace("&quot;", '"').replace("&#x27;", "'")
    assert len(html) < 40_000
    assert make().text() in repr(make())


def test_explorer_cannot_be_broken_out_of_by_its_data():
    tokens = ["</script><b>", "<!--", "'", '"', "\\"]
    explorer = AttentionExplorer(np.full((1, 1, 5, 5), 0.2), tokens)
    html = explorer._repr_html_()
    assert html.count("</script>") == 1
    assert "<!--" not in html[html.index("<script>") :]
    assert "<b>" not in html


def test_explorer_subclass_needs_only_data_text_and_a_script_beside_it(tmp_path, monkeypatch):
    (tmp_path / "explorer.js").write_text("kit.root.append(kit.element('b', {}, data.word));", encoding="utf-8")
    (tmp_path / "explorer.css").write_text("b { color: inherit }", encoding="utf-8")
    (tmp_path / "tiny_explorer.py").write_text(
        "from lecturelib.figures import Explorer\n"
        "class Tiny(Explorer):\n"
        "    title = 'What does it say?'\n"
        "    hint = 'read it.'\n"
        "    def data(self):\n        return {'word': 'hello'}\n"
        "    def text(self):\n        return 'It says hello.'\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    import tiny_explorer

    html = tiny_explorer.Tiny()._repr_html_()
    assert issubclass(tiny_explorer.Tiny, Explorer)
    assert "kit.element('b', {}, data.word)" in html
    assert "b { color: inherit }" in html
    assert '{"title": "What does it say?", "hint": "read it."}' in html


def test_pack_is_little_endian_float32_with_its_shape():
    packed = pack(np.array([[1.0, -2.5]]))
    assert packed == {"shape": [1, 2], "f4": "AACAPwAAIMA="}


def test_softmax_explorer_weights_follow_the_definition():
    explorer = SoftmaxExplorer(widths=(2, 8), num_keys=3, seed=5)
    scores = explorer.keys @ explorer.query[0]
    torch.testing.assert_close(explorer.weights(8, "1/√d", 2.0), (scores / 8**0.5 / 2).softmax(-1))
    torch.testing.assert_close(explorer.weights(8, "none"), scores.softmax(-1))
    torch.testing.assert_close(explorer.weights(8, "1/d"), (scores / 8).softmax(-1))
