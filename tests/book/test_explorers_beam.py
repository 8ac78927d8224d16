"""The beam search explorer in a real browser, against lecturelib's own beam search."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from lecturelib.evaluation import Start
from lecturelib.figures import BeamExplorer

SYMBOLS = ["<eos>", "K", "AE", "T", "S", "IH", "N"]
PENALTIES = (0.0, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Memory:
    vectors: Tensor  # (B, D)

    def select(self, index: Tensor) -> "Memory":
        return Memory(self.vectors[index])


class Teller:
    """A recurrence with random weights, whose next token depends on all tokens before."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.embedding = 1.5 * torch.randn(len(SYMBOLS), 5, generator=generator)
        self.mix = torch.randn(5, 5, generator=generator) / 5**0.5
        self.output = torch.randn(5, len(SYMBOLS), generator=generator)

    def start(self) -> Start:
        return Start(*self.step(torch.tensor([1]), Memory(torch.zeros(1, 5))))

    def step(self, tokens: Tensor, state: Memory) -> tuple[Tensor, Memory]:
        memory = torch.tanh(state.vectors @ self.mix + self.embedding[tokens])
        return memory @ self.output, Memory(memory)


def explorer_of(seed, **options):
    model = Teller(seed)
    options = {"max_len": 6, "length_penalties": PENALTIES, "title": "“kits”", **options}
    return BeamExplorer(model, model.start(), SYMBOLS, eos_id=0, **options)


def shown(page, table="finished"):
    rows = page.locator(f"table.{table} tbody tr")
    return [
        (rows.nth(i).locator("th").inner_text(), rows.nth(i).locator("td").all_inner_texts())
        for i in range(rows.count())
    ]


def choose(page, group, name):
    page.get_by_role("radiogroup", name=group).get_by_role("radio", name=name, exact=True).click()


def assert_shows(page, found):
    rows = shown(page)
    assert [words for words, _ in rows] == [" ".join(s.replace("<eos>", "■") for s in symbols) for symbols, _ in found]
    assert [float(cells[0]) for _, cells in rows] == pytest.approx([score for _, score in found], abs=0.0005 + 1e-5)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_beam_explorer_finds_what_beam_search_finds(open_page, seed):
    explorer = explorer_of(seed)
    page = open_page(explorer)
    for beam_size in range(1, 6):
        choose(page, "Beam size", str(beam_size))
        for penalty in PENALTIES:
            choose(page, "Length penalty", f"{penalty:g}")
            assert_shows(page, explorer.found(beam_size, penalty))


def test_beam_explorer_walks_the_steps_by_keyboard(open_page):
    explorer = explorer_of(3)
    page = open_page(explorer)
    choose(page, "Beam size", "2")
    slider = page.get_by_role("slider", name="Step")
    slider.focus()
    page.keyboard.press("Home")
    assert slider.get_attribute("aria-valuetext").startswith("1 of ")
    rows = shown(page, "candidates")
    log_probs = explorer.start.logits[0].log_softmax(-1)
    best = log_probs.topk(4)
    assert [words for words, _ in rows] == [SYMBOLS[i].replace("<eos>", "■") for i in best.indices.tolist()]
    assert [float(cells[1]) for _, cells in rows] == pytest.approx(best.values.tolist(), abs=0.0005 + 1e-6)
    fates = [cells[2] for _, cells in rows]
    assert fates.count("kept") == 2
    assert page.locator(".tree .node").count() == 1 + fates.count("kept") + fates.count("finished")
    page.keyboard.press("End")
    assert "The search stops. Best so far: " in page.locator("p.live").inner_text()
    assert page.locator(".tree .node.path").count() == len(explorer.found(2, 0.0)[0][0]) + 1


def test_beam_explorer_works_by_touch_on_a_phone(open_on_phone, tap):
    explorer = explorer_of(1, largest_beam=3)
    page = open_on_phone(explorer)
    tap(page.get_by_role("radiogroup", name="Beam size").get_by_role("radio", name="1", exact=True))
    assert_shows(page, explorer.found(1, 0.0))


def test_beam_explorer_says_its_finding_without_scripts(open_page):
    explorer = explorer_of(0)
    page = open_page(explorer, java_script_enabled=False)
    assert explorer.text() in page.locator("body").inner_text()
    assert "greedy decoding writes" in explorer.text()


def test_beam_explorer_gives_the_same_bytes_every_time():
    assert explorer_of(0)._repr_html_() == explorer_of(0)._repr_html_()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"largest_beam": 0}, "largest_beam=0"), ({"length_penalties": ()}, "must not be empty")],
)
def test_beam_explorer_refuses_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        explorer_of(0, **options)


def test_beam_explorer_refuses_what_it_cannot_show():
    model = Teller(0)
    two = Start(*model.step(torch.tensor([1, 2]), Memory(torch.zeros(2, 5))))
    with pytest.raises(ValueError, match="2 rows"):
        BeamExplorer(model, two, SYMBOLS, eos_id=0)
    with pytest.raises(ValueError, match="3 symbols do not name the model's 7 tokens"):
        BeamExplorer(model, model.start(), SYMBOLS[:3], eos_id=0)
