"""What every chapter repeats: sizes, captions, numbers for the prose."""

import pytest
import torch

from lecturelib.book import captioned, glue, sizes
from lecturelib.figures import SoftmaxExplorer, line_plot

SCALES = {"smoke": {"steps": 3}, "default": {"steps": 50}, "full": {"steps": 700}}
NAME = "al-fig-line"


@pytest.fixture
def threads():
    """Two threads, and afterwards as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("scale", "steps", "threads_after"), [("smoke", 3, 1), ("default", 50, 1), ("full", 700, 2)])
def test_sizes_are_those_of_the_scale_and_full_pins_nothing(scale, steps, threads_after, monkeypatch):
    monkeypatch.setattr("lecturelib.book.scales.choose_device", lambda: torch.device("meta"))
    size = sizes(scale, **SCALES)
    assert (size.steps, size.is_trained) == (steps, scale != "smoke")
    assert size.device == ("meta" if scale == "full" else "cpu")
    assert torch.get_num_threads() == threads_after


@pytest.mark.usefixtures("threads")
def test_dry_run_cuts_what_full_computes_and_keeps_its_models(monkeypatch):
    monkeypatch.setattr("lecturelib.book.scales.choose_device", lambda: torch.device("meta"))
    monkeypatch.setenv("LECTURELIB_DRY_RUN", "1")
    scales = {name: choice | {"d_model": 7 * choice["steps"]} for name, choice in SCALES.items()}
    size = sizes("full", **scales)
    assert (size.steps, size.d_model, size.is_trained) == (3, 4900, False)
    assert (size.device, torch.get_num_threads()) == ("meta", 2)
    assert (sizes("default", **scales).steps, sizes("default", **scales).is_trained) == (50, True)


@pytest.mark.usefixtures("threads")
def test_sizes_say_what_is_wrong():
    with pytest.raises(ValueError, match="scale must be one of smoke, default, full, got 'large'"):
        sizes("large", **SCALES)
    with pytest.raises(ValueError, match="full and default differ in: heads"):
        sizes("smoke", **SCALES | {"full": {"steps": 700, "heads": 8}})
    with pytest.raises(AttributeError, match="no size 'stesp'; there are: device, is_trained, steps"):
        _ = sizes("smoke", **SCALES).stesp


@pytest.mark.parametrize(
    "drawn",
    [line_plot({"n": ([1, 2], [1, 4])}, x="n", y="n²", alt="The line rises from one to four."), SoftmaxExplorer()],
)
def test_captioned_keeps_the_drawing_and_says_its_caption(drawn):
    figure = captioned(drawn, caption="Four is more\n than one & two.", name=NAME)
    page = figure._repr_html_()
    assert page.startswith(f'<figure class="course-figure" data-name="{NAME}"')
    assert drawn._repr_html_() in page
    assert ">Four is more than one &amp; two.</figcaption></figure>" in page
    assert "Four is more than one & two." in repr(figure)


@pytest.mark.parametrize("caption", ["", "Four.", "Four is more than one", "The width $d$ is four."])
def test_captioned_insists_on_a_plain_sentence(caption):
    with pytest.raises(ValueError, match="plain sentence that states the finding"):
        captioned(SoftmaxExplorer(), caption=caption, name=NAME)


@pytest.mark.parametrize("name", ["line", "al fig line", 'al-"line', "AL-line"])
def test_captioned_insists_on_a_name_that_can_be_referred_to(name):
    with pytest.raises(ValueError, match="words joined by hyphens"):
        captioned(SoftmaxExplorer(), caption="Four is more than one.", name=name)


def test_glue_writes_the_record_the_site_reads_and_prints_nothing(monkeypatch, capsys):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, **options: shown.append((data, options)))
    glue(error="0.120", steps=40)
    assert [data for data, _ in shown] == [
        {"application/papermill.record/text/plain": text} for text in ("'0.120'", "40")
    ]
    assert shown[0][1] == {
        "metadata": {"scrapbook": {"name": "error", "mime_prefix": "application/papermill.record/"}},
        "raw": True,
    }
    assert capsys.readouterr().out == ""
