"""A GPT over words and image tokens: the joint sequence, its loss, and drawing with a cache."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from lecturelib.evaluation import Sampler, decode, generate, read_prompt
from lecturelib.models import TextToImage, TextToImageConfig, text_to_image_loss

from .parity import moved

B, WORDS, CODES, LENGTH, N = 3, 11, 7, 4, 6
SIZES = {"vocab_size": WORDS, "num_codes": CODES, "caption_len": LENGTH, "image_len": N}
STACK = {"d_model": 12, "num_heads": 3, "num_layers": 2, "d_ff": 17, "dropout": 0.0}


def build(**changes):
    torch.manual_seed(0)
    return moved(TextToImage(TextToImageConfig(**SIZES | STACK | changes))).double().eval()


def inputs(seed=1):
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randint(WORDS, (B, LENGTH), generator=generator),
        torch.randint(CODES, (B, N), generator=generator),
    )


def test_text_to_image_is_a_gpt_over_one_joint_vocabulary():
    model, (captions, codes) = build(), inputs()
    tokens = torch.tensor(
        [
            [*words, *(WORDS + code for code in image)]
            for words, image in zip(*map(torch.Tensor.tolist, (captions, codes)), strict=True)
        ]
    )
    assert torch.equal(model.join(captions, codes), tokens)
    assert_close(model(captions, codes), model.gpt(tokens))
    assert model(captions, codes).shape == (B, LENGTH + N, WORDS + CODES)
    assert model.gpt.config.max_len == model.max_len == LENGTH + N


def test_text_to_image_draws_step_by_step_as_in_one_pass():
    model, (captions, codes) = build(), inputs()
    want = model(captions, codes)[..., WORDS:]  # of codes alone
    logits, state = model.start(captions)
    for place in range(N):
        assert_close(logits, want[:, LENGTH - 1 + place], atol=1e-12, rtol=0)
        if place < N - 1:
            logits, state = model.step(codes[:, place], state)


def test_text_to_image_decodes_codes_only_and_the_likeliest_by_greedy():
    model, (captions, _) = build(), inputs()
    drawn = decode(model, read_prompt(model, captions), max_len=N).ids
    assert drawn.shape == (B, N)
    known = captions
    for place in range(N):  # by hand: the whole sequence again for every token
        best = model.gpt(known)[:, -1, WORDS:].argmax(dim=-1)
        assert torch.equal(drawn[:, place], best)
        known = torch.cat([known, WORDS + best[:, None]], dim=1)
    sampled = decode(
        model,
        read_prompt(model, captions),
        max_len=N,
        choose=Sampler(temperature=5.0, generator=torch.Generator().manual_seed(0)),
    ).ids
    assert 0 <= sampled.min() <= sampled.max() < CODES
    assert len(sampled.unique()) > 3


def test_text_to_image_says_what_a_plain_gpt_would_if_words_were_never_likely():
    model, (captions, _) = build(), inputs()
    model.gpt.final_norm.bias.data += 3.0  # with embeddings apart, every code is likelier than every word
    model.gpt.token_embedding.weight.data[:WORDS] -= 1.0
    model.gpt.token_embedding.weight.data[WORDS:] += 1.0
    whole = generate(model.gpt, captions, max_new_tokens=N)
    assert torch.equal(whole[:, LENGTH:] - WORDS, decode(model, read_prompt(model, captions), max_len=N).ids)


def test_text_to_image_loss_weighs_words_and_codes():
    model, (captions, codes) = build(), inputs()
    logits, tokens = model(captions, codes), model.join(captions, codes)
    words = F.cross_entropy(logits[:, : LENGTH - 1].flatten(0, 1), tokens[:, 1:LENGTH].flatten())
    painted = F.cross_entropy(logits[:, LENGTH - 1 : -1].flatten(0, 1), tokens[:, LENGTH:].flatten())
    assert_close(text_to_image_loss(model, captions, codes).double(), words / 8 + 7 * painted / 8, atol=1e-6, rtol=0)
    assert_close(text_to_image_loss(model, captions, codes, image_weight=1.0).double(), painted, atol=1e-6, rtol=0)


def test_text_to_image_explains_what_does_not_fit():
    model, (captions, codes) = build(), inputs()
    with pytest.raises(ValueError, match=f"captions must be padded to caption_len={LENGTH} words, got {LENGTH - 1}"):
        model(captions[:, 1:], codes)
    with pytest.raises(ValueError, match=rf"codes must be \({B}, length\) token ids, got \({B - 1}, {N}\)"):
        model(captions, codes[1:])
    with pytest.raises(ValueError, match=f"at most {N} codes, got {2 * N}"):
        model(captions, codes.repeat(1, 2))
    with pytest.raises(ValueError, match=f"codes must be ids from 0 to {CODES - 1}, got {CODES}"):
        model(captions, torch.full_like(codes, CODES))
    with pytest.raises(ValueError, match="num_heads must divide d_model"):
        build(num_heads=5)
