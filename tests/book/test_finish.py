"""The last hand on every page: what belongs together stays on one line."""

import pytest


@pytest.fixture(scope="module")
def finished(root, load_script):
    return load_script(root / "book" / "_ext" / "finish.py").finished


def test_comma_stays_with_its_formula(finished):
    formula = r'<span class="math notranslate nohighlight">\(x\)</span>'
    assert finished(f"<p>with {formula}, and</p>") == f'<p>with <span class="unbroken">{formula},</span> and</p>'
    assert finished(f"<p>with {formula} and, so</p>") == f"<p>with {formula} and, so</p>"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ('<span class="pasted-text">76 %</span> of', '<span class="pasted-text">76\u00a0%</span> of'),
        ('<span class="pasted-text">76</span> % of', '<span class="pasted-text">76</span>\u00a0% of'),
        ('<span class="pasted-text">2 ± 1</span>', '<span class="pasted-text">2\u00a0±\u00a01</span>'),
        ('<span class="pasted-text">3 × 10²</span>', '<span class="pasted-text">3\u00a0×\u00a010²</span>'),
        ('<span class="pasted-text">1 to 2</span>', '<span class="pasted-text">1 to 2</span>'),
        ("<pre>76 % 2</pre>", "<pre>76 % 2</pre>"),
    ],
)
def test_number_stays_with_its_sign(finished, given, wanted):
    assert finished(given) == wanted


def test_number_of_an_equation_has_one_pair_of_brackets(finished):
    link = '<a class="reference internal" href="08_x.html#equation-al-eq">{}</a>'
    assert finished(f"so ({link.format('(8.1)')}) holds") == f"so ({link.format('8.1')}) holds"
    assert finished(f"by {link.format('(8.1)')}, so") == f"by {link.format('(8.1)')}, so"
