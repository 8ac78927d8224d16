"""The quantiser against explicit distances, a hand-made gradient and transformers; ids and images, there and back."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from lecturelib.models import VectorQuantizer, VQTokenizer, VQTokenizerConfig, tokenizer_loss
from lecturelib.models.vq_tokenizer import ConvResidual

from .parity import moved

B, ROWS, COLUMNS, K, D = 3, 2, 5, 7, 4
SIZES = {"num_channels": 2, "num_codes": K, "d_code": D, "d_model": 6, "d_ff": 9, "num_halvings": 2}


def quantizer(seed=0):
    torch.manual_seed(seed)
    made = VectorQuantizer(K, D).double()
    torch.nn.init.normal_(made.codebook)
    return made


def build(**changes):
    torch.manual_seed(0)
    return moved(VQTokenizer(VQTokenizerConfig(**SIZES | changes))).double()


def vectors(*shape, seed=1):
    return torch.randn(*shape, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def images(seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(B, 2, 4 * ROWS, 4 * COLUMNS, generator=generator, dtype=torch.float64)


def test_quantizer_chooses_the_nearest_code():
    made, given = quantizer(), vectors(B, ROWS, COLUMNS)
    distances = (given[..., None, :] - made.codebook).norm(dim=-1)  # (B, rows, columns, K), every pair written out
    found = made(given)
    assert torch.equal(found.ids, distances.argmin(dim=-1))
    assert len(found.ids.unique()) > 3
    assert_close(found.codes, made.codebook[found.ids])
    assert_close(found.codebook_loss, distances.amin(dim=-1).square() / D)
    assert_close(found.commitment_loss, found.codebook_loss)


def test_quantizer_gives_a_tie_to_the_lowest_id():
    made = VectorQuantizer(3, 1).double()
    made.codebook.data = torch.tensor([[3.0], [1.0], [-1.0]], dtype=torch.float64)
    assert made.nearest(torch.tensor([[2.0], [0.0], [0.5]], dtype=torch.float64)).tolist() == [0, 1, 1]


def test_quantizer_gradients_are_those_of_the_formulas():
    """Straight through to the vectors; 2 (e − z) / D to the codes; 2 (z − e) / D to the vectors by commitment."""
    made, given = quantizer(), vectors(11).requires_grad_()
    weight = vectors(11, seed=3)
    found = made(given)
    by_vector, by_code = torch.autograd.grad(
        (found.codes * weight).sum(), (given, made.codebook), allow_unused=True, retain_graph=True
    )
    assert_close(by_vector, weight)  # copied
    assert by_code is None
    chosen = made.codebook[found.ids].detach()
    by_vector, by_code = torch.autograd.grad(
        found.codebook_loss.sum(), (given, made.codebook), allow_unused=True, retain_graph=True
    )
    assert by_vector is None
    want = torch.zeros(K, D, dtype=torch.float64).index_add(0, found.ids, 2 * (chosen - given.detach()) / D)
    assert_close(by_code, want)
    by_vector, by_code = torch.autograd.grad(found.commitment_loss.sum(), (given, made.codebook), allow_unused=True)
    assert_close(by_vector, 2 * (given.detach() - chosen) / D)
    assert by_code is None


def test_quantizer_matches_transformers_but_for_the_weight_on_the_other_loss():
    """transformers' Chameleon weighs the codebook loss by beta, a known slip of the code it comes from; the paper, the
    commitment loss. With the two swapped, all agrees: codes, ids, loss and both gradients."""
    pytest.importorskip("transformers")
    from transformers import ChameleonVQVAEConfig
    from transformers.models.chameleon.modeling_chameleon import ChameleonVQVAEVectorQuantizer

    theirs = ChameleonVQVAEVectorQuantizer(ChameleonVQVAEConfig(num_embeddings=K, embed_dim=D)).double()
    assert theirs.beta == VQTokenizerConfig().commitment == 0.25
    ours = quantizer()
    theirs.embedding.weight.data = ours.codebook.data.clone()
    given, weight = vectors(B, ROWS, COLUMNS).requires_grad_(), vectors(B, ROWS, COLUMNS, seed=3)
    codes, loss, ids = theirs(given.permute(0, 3, 1, 2))
    want = torch.autograd.grad((codes.permute(0, 2, 3, 1) * weight).sum() + loss, (given, theirs.embedding.weight))
    found = ours(given)
    swapped = found.commitment_loss.mean() + theirs.beta * found.codebook_loss.mean()
    got = torch.autograd.grad((found.codes * weight).sum() + swapped, (given, ours.codebook))
    assert_close(found.codes, codes.permute(0, 2, 3, 1), atol=1e-12, rtol=0)
    assert torch.equal(found.ids.flatten(), ids)
    assert_close(swapped, loss, atol=1e-12, rtol=0)
    assert_close(got, want, atol=1e-12, rtol=0)


def test_quantizer_restarts_codes_that_nothing_chose():
    made, given = quantizer(), vectors(40)
    made.codebook.data[[1, 4]] = 100.0  # out of reach
    before = made.codebook.data.clone()
    used = set(made.nearest(given).tolist())
    assert made.restart(given, torch.Generator().manual_seed(0)) == K - len(used) >= 2
    assert set(made.nearest(given).tolist()) >= {1, 4}
    for code in range(K):
        if code in used:
            assert torch.equal(made.codebook[code], before[code])
        else:
            assert (made.codebook[code] == given).all(dim=1).any()
    assert VectorQuantizer(2, 1).restart(torch.tensor([[0.6], [-0.6]])) == 0  # both are in use


def test_tokenizer_goes_to_ids_and_back():
    model, given = build(), images()
    with torch.no_grad():
        seen = model(given)
    ids = model.encode(given)
    assert ids.shape == (B, ROWS * COLUMNS)
    assert torch.equal(seen.ids, ids)
    assert seen.images.shape == given.shape
    assert_close(model.decode(ids, rows=ROWS), seen.images)
    grid = model.features(given)  # in reading order: the id at row 1, column 2 is that of its own vector
    assert model.quantizer.nearest(grid[:, 1, 2]).tolist() == ids[:, COLUMNS + 2].tolist()


def test_tokenizer_decodes_a_square_when_rows_are_left_out():
    model, ids = build(), torch.randint(K, (B, 9), generator=torch.Generator().manual_seed(2))
    assert model.decode(ids).shape == (B, 2, 12, 12)
    assert_close(model.decode(ids), model.decode(ids, rows=3))
    with pytest.raises(ValueError, match="9 ids do not fill 2 rows"):
        model.decode(ids, rows=2)
    with pytest.raises(ValueError, match=f"ids must be ids from 0 to {K - 1}, got {K}"):
        model.decode(ids + 1)
    with pytest.raises(ValueError, match=r"ids must be \(batch, N\) codes, got \(9,\)"):
        model.decode(ids[0])


def test_tokenizer_loss_is_the_papers_three_terms_and_reaches_every_part():
    model, given = build(), images()
    loss = tokenizer_loss(model, given, 0.25)
    loss.backward()
    got = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    vectors_ = model.features(given)  # the terms written out, without the quantiser's forward
    ids = (vectors_[..., None, :] - model.quantizer.codebook).square().sum(dim=-1).argmin(dim=-1)
    codes = model.quantizer.codebook[ids]
    through = vectors_ + (codes - vectors_).detach()
    painted = model.grow(model.paint(model.from_code(through.permute(0, 3, 1, 2))))
    want = F.mse_loss(painted, given) + F.mse_loss(codes, vectors_.detach()) + F.mse_loss(vectors_, codes.detach()) / 4
    want.backward()
    assert_close(loss, want)
    for name, parameter in model.named_parameters():
        assert parameter.grad.any(), name
        assert_close(got[name], parameter.grad)


def test_tokenizer_regions_depend_on_what_is_near():
    """Of pixels 40 to 43: two residual blocks reach two regions to each side, the strided convolutions three pixels."""
    model = build(num_blocks=2)
    given = torch.randn(1, 2, 4, 80, dtype=torch.float64, generator=torch.Generator().manual_seed(4)).requires_grad_()
    (grad,) = torch.autograd.grad(model.features(given)[0, 0, 10].sum(), given)
    felt = grad.abs().sum(dim=(0, 1, 2)).nonzero().flatten()  # columns of pixels
    assert 40 - 8 - 3 <= felt.min() < 40
    assert 43 < felt.max() <= 43 + 8 + 3


def test_tokenizer_has_the_size_of_its_table():
    """Counted by hand, for the sizes of the paper's CIFAR model: 256 channels, two halvings, two residual blocks."""
    config = VQTokenizerConfig(d_code=64)
    d, ff, code = 256, 256, 64
    block = 9 * d * ff + ff + ff * d + d
    strided = 16 * 3 * d + d + 16 * d * d + d
    transposed = 16 * d * d + d + 16 * d * 3 + 3
    between = d * code + code + 9 * code * d + d
    want = strided + transposed + 4 * block + between + config.num_codes * code
    assert sum(p.numel() for p in VQTokenizer(config).parameters()) == want
    assert config.stride == 4


def test_conv_residual_is_relu_conv_relu_conv_and_a_shortcut():
    torch.manual_seed(0)
    part, given = ConvResidual(5, 7), torch.randn(2, 5, 3, 4)
    wide = F.conv2d(given.clamp_min(0), part.wide.weight, part.wide.bias, padding=1)
    assert_close(part(given), given + F.conv2d(wide.clamp_min(0), part.narrow.weight, part.narrow.bias))


def test_tokenizer_explains_what_does_not_fit():
    with pytest.raises(ValueError, match="cannot be cut into whole patches of 4 × 4"):
        build()(torch.zeros(1, 2, 8, 10, dtype=torch.float64))
    with pytest.raises(ValueError, match="commitment must be 0 or more, got -1"):
        build(commitment=-1)
    with pytest.raises(ValueError, match="num_codes must be at least 1, got 0"):
        build(num_codes=0)
