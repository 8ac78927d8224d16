"""AdaNorm and PowerNorm against their papers' equations, and DeepNorm against its table of numbers."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from lecturelib.layers import (
    AdaNorm,
    DeepNorm,
    PostNorm,
    PowerNorm,
    deep_norm_scales,
    initialise_deep_norm,
    use_deep_norm,
)
from lecturelib.models import GPT, GPTConfig, Transformer, TransformerConfig

BATCH, LENGTH, D_MODEL = 3, 5, 7


def test_ada_norm_matches_its_equation_and_its_damping_has_no_gradient():
    x = torch.randn(BATCH, LENGTH, D_MODEL, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn_like(x)
    norm = AdaNorm(D_MODEL, scale=2.0, k=0.25)
    y = F.layer_norm(x, (D_MODEL,))
    assert_close(norm(x), 2 * (1 - 0.25 * y) * y)
    (got,) = torch.autograd.grad(norm(x), x, upstream)
    (want,) = torch.autograd.grad(y, x, upstream * 2 * (1 - 0.25 * y.detach()))
    assert_close(got, want)
    assert not list(norm.parameters())


def test_power_norm_divides_by_the_running_root_mean_square():
    norm = PowerNorm(D_MODEL, alpha=0.75, warmup=0, eps=0.0)
    first, second = torch.randn(2, BATCH, LENGTH, D_MODEL) * torch.arange(1.0, D_MODEL + 1)
    assert_close(norm(first), first)  # nothing is known yet: divided by 1
    remembered = first.square().mean(dim=(0, 1))
    assert_close(norm.power, remembered)
    assert_close(norm(second), second / remembered.sqrt())
    assert_close(norm.power, 0.75 * remembered + 0.25 * second.square().mean(dim=(0, 1)))
    norm.eval()
    before = norm.power.clone()
    assert_close(norm(first), first / before.sqrt())
    assert_close(norm.power, before)


def test_power_norm_in_its_warm_up_gives_a_mean_square_of_one():
    norm = PowerNorm(D_MODEL, warmup=3, eps=0.0)
    for size in (1.0, 10.0, 100.0):
        out = norm(size * torch.randn(BATCH, LENGTH, D_MODEL))
        assert_close(out.square().mean(dim=(0, 1)), torch.ones(D_MODEL))


def test_power_norm_gradient_is_exact_when_its_running_mean_is():
    """With nu equal to this batch's own mean, the approximate gradient is that of x / rms(x)."""
    x = torch.randn(BATCH, LENGTH, D_MODEL, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn_like(x)
    norm = PowerNorm(D_MODEL, alpha=0.0, warmup=9, eps=0.0).double()
    torch.autograd.grad(norm(x), x, upstream)  # after this, nu is the mean of this batch
    (got,) = torch.autograd.grad(norm(x), x, upstream)
    (want,) = torch.autograd.grad(x / x.square().mean(dim=(0, 1)).sqrt(), x, upstream)
    assert_close(got, want)


def test_power_norm_refuses_what_is_no_share():
    with pytest.raises(ValueError, match=r"alpha=1\.0 must be in \[0, 1\)"):
        PowerNorm(D_MODEL, alpha=1.0)


def test_power_norm_takes_an_empty_batch():
    norm = PowerNorm(D_MODEL)
    assert norm(torch.zeros(0, LENGTH, D_MODEL)).shape == (0, LENGTH, D_MODEL)
    assert norm.power.isfinite().all()


def test_deep_norm_of_alpha_one_is_post_norm():
    x, out = torch.randn(2, BATCH, LENGTH, D_MODEL)
    assert_close(DeepNorm(D_MODEL, alpha=1.0).join(x, out), PostNorm(D_MODEL).join(x, out))
    assert_close(DeepNorm(D_MODEL, alpha=3.0).join(x, out), F.layer_norm(3 * x + out, (D_MODEL,)))
    assert isinstance(DeepNorm.final_norm(D_MODEL), nn.Identity)


def test_deep_norm_scales_match_the_papers_figure():
    assert deep_norm_scales(8) == pytest.approx((16**0.25, 64**-0.25))
    encoder, decoder = deep_norm_scales(6, decoder_layers=4), deep_norm_scales(4, encoder_layers=6)
    assert encoder == pytest.approx((0.81 * (6**4 * 4) ** (1 / 16), 0.87 * (6**4 * 4) ** (-1 / 16)))
    assert decoder == pytest.approx((12**0.25, 48**-0.25))


def test_gpt_with_deep_norm_has_the_numbers_of_its_depth():
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "max_len": 9, "d_model": 64, "num_heads": 4, "num_layers": 8}
    model = GPT(GPTConfig(**sizes, wiring="post_norm", dropout=0.2))
    use_deep_norm(model.blocks)
    assert not any(type(wiring) is PostNorm for wiring in model.modules())
    assert {wiring.dropout.p for wiring in model.modules() if isinstance(wiring, DeepNorm)} == {0.2}
    alpha, beta = deep_norm_scales(8)
    assert {wiring.alpha for wiring in model.modules() if isinstance(wiring, DeepNorm)} == {alpha}
    assert isinstance(model.final_norm, nn.Identity)
    for name, times in (("query_proj", 1.0), ("key_proj", 1.0), ("value_proj", beta), ("out_proj", beta)):
        weights = torch.stack([block.mixer.get_submodule(name).weight for block in model.blocks])
        assert float(weights.detach().std()) == pytest.approx(times * (1 / 64) ** 0.5, rel=0.03)
    for name in ("widen", "narrow"):
        weights = torch.stack([block.feed_forward.get_submodule(name).weight for block in model.blocks])
        assert float(weights.detach().std()) == pytest.approx(beta * (2 / (64 + 256)) ** 0.5, rel=0.03)


def test_transformer_with_deep_norm_scales_its_two_stacks_apart():
    config = TransformerConfig(vocab_size=11, d_model=12, num_heads=3, num_layers=2, d_ff=20, wiring="post_norm")
    model = Transformer(config)
    use_deep_norm(model.encoder, decoder_layers=2)
    use_deep_norm(model.decoder, encoder_layers=2)
    alphas = [{p.alpha for p in stack.modules() if isinstance(p, DeepNorm)} for stack in (model.encoder, model.decoder)]
    assert alphas == [
        {deep_norm_scales(2, decoder_layers=2).alpha},
        {deep_norm_scales(2, encoder_layers=2).alpha},
    ]


def test_deep_norm_needs_a_post_norm_to_change():
    model = GPT(GPTConfig(vocab_size=11, max_len=9, d_model=8, num_heads=2, num_layers=1, wiring="pre_norm"))
    with pytest.raises(ValueError, match='needs blocks that are wired "post_norm"'):
        use_deep_norm(model.blocks)


def test_initialise_deep_norm_with_beta_one_is_plain_xavier():
    torch.manual_seed(0)
    layer = nn.ModuleDict({"widen": nn.Linear(200, 300)})
    initialise_deep_norm(layer, beta=1.0)
    assert float(layer["widen"].weight.detach().std()) == pytest.approx((2 / 500) ** 0.5, rel=0.02)
    assert not layer["widen"].bias.any()


def test_power_norm_remembers_in_the_precision_of_the_model() -> None:
    norm = PowerNorm(D_MODEL, alpha=0.9).double()
    first, second = torch.randn(2, BATCH, LENGTH, D_MODEL, dtype=torch.float64)
    norm(first)
    norm(second)
    want = 0.9 * first.square().mean(dim=(0, 1)) + (1 - 0.9) * second.square().mean(dim=(0, 1))
    assert_close(norm.power, want, rtol=1e-13, atol=0)
