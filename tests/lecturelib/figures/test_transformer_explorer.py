"""What the all-heads explorer asks of its maps, and the sentence it leaves where scripts do not run."""

import numpy as np
import pytest

from lecturelib.figures import TransformerExplorer


@pytest.fixture
def parts():
    draw = np.random.default_rng(3)

    def rows(*shape):
        raised = np.exp(draw.normal(size=shape))
        return raised / raised.sum(-1, keepdims=True)

    decoder = np.tril(rows(2, 3, 4, 4))
    return {
        "encoder": rows(1, 3, 5, 5),
        "decoder": decoder / decoder.sum(-1, keepdims=True),
        "cross": rows(2, 3, 4, 5),
        "source": list("abcde"),
        "read": list("⊢xyz"),
        "written": list("xyz⊣"),
    }


def test_transformer_explorer_text_names_the_strongest_key(parts):
    explorer = TransformerExplorer(**parts, start=("cross", 1, 2, 3))
    row = parts["cross"][1, 2, 3]
    assert "All 15 attention maps" in explorer.text()
    assert f"“z” attends most to “{'abcde'[row.argmax()]}” ({row.max():.3f})" in explorer.text()
    assert explorer._repr_html_() == TransformerExplorer(**parts, start=("cross", 1, 2, 3))._repr_html_()


def test_transformer_explorer_refuses_a_decoder_that_looks_ahead(parts):
    parts["decoder"] = np.full((2, 3, 4, 4), 0.25)
    with pytest.raises(ValueError, match="above its diagonal"):
        TransformerExplorer(**parts)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": list("abcd")}, r"encoder must be \(layers, heads, 4 queries, 4 keys\), got \(1, 3, 5, 5\)"),
        ({"written": ["x"]}, "read has 4 tokens and written 1"),
        ({"cross": np.ones((2, 3, 4, 5))}, "each row of cross must be a softmax"),
        ({"start": ("cross", 2, 0, 0)}, "outside"),
        ({"start": ("middle", 0, 0, 0)}, "one of encoder, decoder, cross, got 'middle'"),
    ],
)
def test_transformer_explorer_says_what_does_not_fit(parts, change, message):
    with pytest.raises(ValueError, match=message):
        TransformerExplorer(**(parts | change))
