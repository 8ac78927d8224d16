"""Captioning: the grid of regions, soft and hard glimpses, and the gradient through a draw."""

import itertools

import pytest
import torch

from lecturelib.evaluation import decode, read_source
from lecturelib.models.conv_encoder import VGG19, ConvEncoder, ConvEncoderConfig
from lecturelib.models.show_attend_tell import (
    XU2015_COCO,
    HardGlimpse,
    OneVector,
    ShowAttendTell,
    ShowAttendTellConfig,
    SoftGlimpse,
)
from lecturelib.tokens import collate_captions
from lecturelib.training import caption_loss, reinforce_loss

CONFIG = ShowAttendTellConfig(
    vocab_size=7,
    image=ConvEncoderConfig(num_channels=1, widths=(4, 6), layers=(1, 1)),
    embedding_dim=5,
    hidden_dim=8,
    attention_dim=3,
)


def images(batch=2, height=4, width=6):
    return torch.randn(batch, 1, height, width, generator=torch.Generator().manual_seed(0))


def build(glimpse=None):
    torch.manual_seed(0)
    return ShowAttendTell(CONFIG, glimpse)


def test_conv_encoder_reads_regions_row_by_row():
    torch.manual_seed(1)
    encoder = ConvEncoder(ConvEncoderConfig(num_channels=1, widths=(4, 6, 5), layers=(1, 1, 1))).eval()
    image = images(1, 24, 32)
    changed = image.clone()
    changed[..., 12:14, 20:22] += 3  # in row 3, column 5 of 6 × 8 regions
    moved = (encoder(changed) - encoder(image)).abs().sum(dim=-1).view(6, 8)
    rows, columns = (moved > 0).any(dim=1).nonzero().flatten(), (moved > 0).any(dim=0).nonzero().flatten()
    assert rows.tolist() == [1, 2, 3, 4, 5]
    assert columns.tolist() == [3, 4, 5, 6, 7]


def test_conv_encoder_says_where_a_region_is():
    encoder = ConvEncoder(ConvEncoderConfig(num_channels=1, widths=(4, 6), layers=(1, 1)))
    down, across = encoder(images(1, 6, 10)).view(3, 5, 8)[..., -2:].unbind(-1)
    assert down[:, 0].tolist() == [-1, 0, 1]
    assert across[0].tolist() == [-1, -0.5, 0, 0.5, 1]


def test_vgg19_has_the_published_convolutions_and_grid():
    with torch.device("meta"):
        encoder = ConvEncoder(VGG19)
        assert sum(p.numel() for p in encoder.parameters()) == 20_024_384
        assert encoder(torch.empty(1, 3, 224, 224)).shape == (1, 14 * 14, 512 + 2)
    assert XU2015_COCO.image is VGG19


def test_soft_weights_are_a_softmax_and_a_copied_region_shares_its_weight():
    model = build().eval()
    written = model.write(images(), torch.tensor([[1, 2, 3], [1, 4, 5]]))
    assert written.weights.shape == (2, 3, 6)
    torch.testing.assert_close(written.weights.sum(dim=-1), torch.ones(2, 3))
    glimpse, grid = model.glimpse, torch.randn(2, 6, 8)
    grid[:, 4] = grid[:, 1]
    look = glimpse(torch.randn(2, 8), glimpse.keys(grid), grid)
    torch.testing.assert_close(look.weights[:, 4], look.weights[:, 1])
    torch.testing.assert_close(look.context, torch.einsum("bn,bnd->bd", look.weights, grid))


def test_soft_context_does_not_depend_on_the_order_of_regions():
    torch.manual_seed(2)
    glimpse, grid, hidden = SoftGlimpse(CONFIG), torch.randn(2, 6, 8), torch.randn(2, 8)
    order = torch.randperm(6)
    look, shuffled = (
        glimpse(hidden, glimpse.keys(grid), grid),
        glimpse(hidden, glimpse.keys(grid[:, order]), grid[:, order]),
    )
    torch.testing.assert_close(look.context, shuffled.context)
    torch.testing.assert_close(look.weights[:, order], shuffled.weights)


def test_hard_glimpse_takes_one_region_the_likeliest_when_it_does_not_train():
    torch.manual_seed(3)
    glimpse, grid, hidden = HardGlimpse(CONFIG, soft_share=0.0), torch.randn(40, 6, 8), torch.randn(40, 8)
    look = glimpse(hidden, glimpse.keys(grid), grid)
    taken = (look.context[:, None] == grid).all(dim=-1)  # (40, 6)
    assert (taken.sum(dim=1) == 1).all()
    torch.testing.assert_close(look.log_chosen, look.weights[taken].log())
    assert taken.int().argmax(dim=1).unique().numel() > 1
    sure = glimpse.eval()(hidden, glimpse.keys(grid), grid)
    assert torch.equal(sure.context, grid[torch.arange(40), sure.weights.argmax(dim=1)])


def test_hard_glimpse_looks_softly_at_a_share_of_the_images():
    torch.manual_seed(4)
    glimpse, grid = HardGlimpse(CONFIG, soft_share=0.3), torch.randn(1000, 6, 8)
    look = glimpse(torch.randn(1000, 8), glimpse.keys(grid), grid)
    assert 0.2 < (look.log_chosen == 0).float().mean() < 0.4
    with pytest.raises(ValueError, match=r"soft_share=1\.0"):
        HardGlimpse(CONFIG, soft_share=1.0)


def test_reinforce_gradient_is_that_of_the_expected_log_probability():
    """All ways to look at 2 words with 3 regions, weighted by how likely they are, give the exact gradient."""
    path = []
    glimpse = HardGlimpse(CONFIG, soft_share=0.0, choose=lambda weights: path.pop(0))
    model = build(glimpse).double()
    batch = collate_captions(images(1, 2, 6).double(), [[3]], pad_id=0, bos_id=1, eos_id=2)
    twice = collate_captions(images(1, 2, 6).double().repeat(2, 1, 1, 1), [[3], [3]], pad_id=0, bos_id=1, eos_id=2)
    scores = list(glimpse.attention.parameters())
    expected = 0.0  # of log p(words | looks), every look counted by its own probability
    ways = list(itertools.product(range(3), repeat=2))
    chances = []
    for way in ways:
        path[:] = [torch.tensor([region]) for region in way]
        written = model.write(batch.images, batch.target_in)
        log_words = written.logits.log_softmax(-1).gather(-1, batch.target_out[..., None]).sum()
        chances.append(written.log_chosen.sum().exp())
        expected = expected + chances[-1] * log_words
    want = torch.autograd.grad(-expected / 2, scores)  # the loss is a mean over 2 words
    got = [torch.zeros_like(parameter) for parameter in scores]
    for (one, p), (other, q) in itertools.product(zip(ways, chances, strict=True), repeat=2):
        path[:] = [torch.tensor(regions) for regions in zip(one, other, strict=True)]
        loss, words = reinforce_loss(model, twice)
        assert words == 4
        for total, grad in zip(got, torch.autograd.grad(loss, scores), strict=True):
            total += (p * q).detach() * grad
    torch.testing.assert_close(got, list(want), rtol=1e-4, atol=1e-9)


def test_caption_loss_ignores_padding_and_reinforce_adds_nothing_to_soft_looks():
    model = build().eval()
    short, long = [3, 4], [5, 6, 3, 4, 5]
    ids = {"pad_id": 0, "bos_id": 1, "eos_id": 2}
    both = collate_captions(images(), [short, long], **ids)
    alone = [collate_captions(images()[i : i + 1], [text], **ids) for i, text in enumerate((short, long))]
    loss, words = caption_loss(model, both)
    parts = [caption_loss(model, batch) for batch in alone]
    assert words == sum(count for _, count in parts) == 9
    torch.testing.assert_close(loss, sum(part * count for part, count in parts) / words)
    torch.testing.assert_close(reinforce_loss(model, both)[0], loss)
    undecided, _ = reinforce_loss(model, both, entropy=0.1)
    assert undecided < loss
    with pytest.raises(ValueError, match="2 images and 1 captions"):
        collate_captions(images(), [short], **ids)


def test_one_vector_gives_every_word_the_same_context():
    torch.manual_seed(5)
    glimpse, grid = OneVector(CONFIG, regions=6), torch.randn(2, 6, 8)
    first, second = (glimpse(torch.randn(2, 8), glimpse.keys(grid), grid) for _ in range(2))
    assert torch.equal(first.context, second.context)
    torch.testing.assert_close(first.weights, torch.full((2, 6), 1 / 6))


def test_captioner_writes_from_images_alone():
    model = build().eval()
    decoded = decode(model, read_source(model, images(3), bos_id=1), max_len=4)
    assert decoded.ids.shape == (3, 4)
    assert model(images(2), torch.zeros(2, 0, dtype=torch.long)).shape == (2, 0, 7)
