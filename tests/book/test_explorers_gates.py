"""The gate explorer in a real browser: what it shows is what the LSTM did."""

import pytest
import torch

from lecturelib.figures import GateExplorer
from lecturelib.layers import LSTM, Recurrent

TEXT = "To be,\nor"


@pytest.fixture(scope="module")
def trace():
    torch.manual_seed(5)
    recurrent = Recurrent(LSTM, 3, 4)
    with torch.no_grad():
        return recurrent.trace(2 * torch.randn(1, len(TEXT), 3))[2][0]


def expected(trace, unit, place):
    """Gates, and the memory and hidden state that follow from them by the LSTM's own equations."""
    forget, write, show, candidate = (
        float(trace.gates[name][0, place, unit]) for name in ("forget", "input", "output", "candidate")
    )
    memory = forget * float(trace.states[place][1][0, unit]) + write * candidate
    return (forget, write, show), memory, show * float(torch.tensor(memory).tanh())


def assert_shows(page, trace, unit, place):
    gates, memory, hidden = expected(trace, unit, place)
    shown = [float(text) for text in page.locator("table.bars td.number").all_inner_texts()]
    assert shown == pytest.approx(gates, abs=6e-4)
    sums = [text.replace("−", "-") for text in page.locator("dl.sums dd").all_inner_texts()]
    assert float(sums[0].rpartition("= ")[2]) == pytest.approx(memory, abs=6e-4)
    assert float(sums[1].rpartition("= ")[2]) == pytest.approx(hidden, abs=6e-4)
    assert float(trace.states[place + 1][0][0, unit]) == pytest.approx(hidden, abs=1e-5)


def test_gate_explorer_shows_the_step_of_the_lstm_by_mouse(open_page, trace):
    page = open_page(GateExplorer(trace, list(TEXT), start=(2, 1)))
    assert_shows(page, trace, 2, 1)
    page.get_by_role("radiogroup", name="Text").get_by_role("radio", name="⏎").click()
    assert_shows(page, trace, 2, 6)
    page.locator("svg.map rect").nth(3 * len(TEXT) + 4).click()  # unit 4, character 5
    assert_shows(page, trace, 3, 4)
    assert page.get_by_role("slider", name="Unit").get_attribute("aria-valuetext") == "4 of 4"
    assert "Character 5, “e”: unit 4 keeps" in page.locator("p.live").inner_text()


def test_gate_explorer_follows_the_keyboard(open_page, trace):
    page = open_page(GateExplorer(trace, list(TEXT)))
    page.get_by_role("slider", name="Unit").focus()
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert_shows(page, trace, 3, len(TEXT) - 1)
    page.keyboard.press("ArrowLeft")
    assert_shows(page, trace, 3, len(TEXT) - 2)


def test_gate_explorer_colours_the_text_by_what_is_shown(open_page, trace):
    page = open_page(GateExplorer(trace, list(TEXT), start=(1, 0)))
    letters = page.get_by_role("radiogroup", name="Text").get_by_role("radio")
    for name, values in (
        ("forget f", trace.gates["forget"][0, :, 1]),
        ("candidate g", trace.gates["candidate"][0, :, 1]),
        ("memory C", torch.stack([state[1][0, 1] for state in trace.states[1:]])),
    ):
        page.get_by_role("radio", name=name).click()
        titles = letters.evaluate_all("all => all.map(one => one.title)")
        assert titles == [f"{name} = {float(value):.3f}" for value in values]
        orange = letters.evaluate_all("all => all.map(one => one.style.backgroundColor.includes('210, 105, 30'))")
        assert orange == [bool(value < 0) for value in values]


def test_gate_explorer_works_by_touch_on_a_phone(open_on_phone, trace, tap):
    page = open_on_phone(GateExplorer(trace, list(TEXT)))
    tap(page.get_by_role("radiogroup", name="Text").get_by_role("radio", name="b"))
    assert_shows(page, trace, 0, 3)


def test_gate_explorer_says_what_it_cannot_show(trace):
    with pytest.raises(ValueError, match="one sequence of 3 tokens"):
        GateExplorer(trace, list("abc"))
    with pytest.raises(ValueError, match="outside"):
        GateExplorer(trace, list(TEXT), start=(4, 0))
    rnn = Recurrent(lambda d, h: LSTM(d, h), 3, 4).trace(torch.zeros(1, 2, 3))[2][0]
    rnn.gates.pop("forget")
    with pytest.raises(ValueError, match="must be an LSTM's"):
        GateExplorer(rnn, list("ab"))
