"""Each mixer is exactly what it claims to be: equal to masked attention, an estimate of it, or its own formula."""

import math

import pytest
import torch
from torch.testing import assert_close

from lecturelib.evaluation.cost import count_activation_bytes
from lecturelib.layers import (
    AdaptiveSpan,
    BigBird,
    Block,
    FeedForward,
    FourierMixing,
    LatentMixing,
    Linformer,
    LocalAttention,
    MultiHeadAttention,
    Performer,
    PreNorm,
    Reformer,
    SharedWorkspace,
    TokenMixing,
    UniversalTransformer,
    attention_weights,
    orthogonal_features,
    padding_mask,
    random_features,
)

B, T, D, H = 2, 22, 12, 3
CLOSE = {"atol": 1e-5, "rtol": 1e-4}


@pytest.fixture
def x():
    return torch.randn(B, T, D)


@pytest.fixture
def full():
    return MultiHeadAttention(D, H)


def like(full, mixer):
    """The mixer with the projections of full attention."""
    missing, unexpected = mixer.load_state_dict(full.state_dict(), strict=False)
    assert not unexpected
    assert not [name for name in missing if "proj" in name]
    return mixer


def apart(length):
    return (torch.arange(length) - torch.arange(length)[:, None]).abs()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [1, 4, 5, 21, 40])
def test_local_attention_equals_attention_behind_a_band(x, full, window, causal):
    local = like(full, LocalAttention(D, H, window=window))
    band = apart(T) <= window
    assert_close(local(x, is_causal=causal), full(x, mask=band.tril() if causal else band), **CLOSE)
    real = padding_mask(torch.tensor([T, 9]), T)
    got, want = local(x, mask=real), full(x, mask=band & real)
    assert_close(got[0], want[0], **CLOSE)
    assert_close(got[1, :9], want[1, :9], **CLOSE)


def test_memory_tokens_let_far_tokens_meet_in_one_layer():
    x = torch.randn(1, T, D, requires_grad=True)
    for memory in (0, 2):
        local = LocalAttention(D, H, window=3, num_memory=memory)
        (grad,) = torch.autograd.grad(local(x)[0, 0].square().sum(), x)
        reached = int((grad[0].abs().sum(-1) > 0).sum())
        assert reached == (T if memory else 4)
    with pytest.raises(ValueError, match="a causal LocalAttention has num_memory=0"):
        local(x, is_causal=True)


def test_linformer_equals_full_attention_when_its_mixtures_are_the_tokens(x, full):
    linformer = like(full, Linformer(D, H, max_len=30, k=T))
    for mixtures in (linformer.key_mixtures, linformer.value_mixtures):
        torch.nn.init.eye_(mixtures)
    assert_close(linformer(x), full(x), **CLOSE)
    with pytest.raises(ValueError, match="built for max_len=30, got a sequence of 31"):
        linformer(torch.randn(1, 31, D))


def test_random_features_estimate_the_exponential_of_the_product():
    q, k = 0.3 * torch.randn(5, 8), 0.3 * torch.randn(6, 8)
    features = orthogonal_features(40_000, 8)
    got = random_features(q, features) @ random_features(k, features).T / len(features)
    assert_close(got, (q @ k.T).exp(), atol=0.03, rtol=0.05)


def test_orthogonal_features_stand_at_right_angles_and_are_as_long_as_gaussian_ones():
    features = orthogonal_features(600, 8)
    for start in (0, 8, 592):
        block = features[start : start + 8]
        assert_close(block @ block.T, torch.diag(block.square().sum(dim=1)), atol=1e-4, rtol=1e-4)
    assert features.square().sum(dim=1).mean() == pytest.approx(8, rel=0.1)


def test_performers_error_falls_with_the_number_of_features(full):
    x, errors = 0.7 * torch.randn(B, T, D), []
    for features in (8, 128, 2048):
        tries = [like(full, Performer(D, H, num_features=features, eps=0.0))(x) - full(x) for _ in range(8)]
        errors.append(torch.stack(tries).square().mean().sqrt().item())
    assert errors[0] > 2.5 * errors[1] > 6 * errors[2]  # in theory 4 times at each step


def test_causal_performer_is_the_plain_one_on_every_prefix(x):
    performer = Performer(D, H, num_features=11, eps=0.0)
    got = performer(x, is_causal=True)
    for t in (0, 1, 9, T - 1):
        assert_close(got[:, t], performer(x[:, : t + 1])[:, -1], **CLOSE)
    long = torch.randn(1, 300, D)  # more than one block
    assert_close(performer(long, is_causal=True)[:, 260], performer(long[:, :261])[:, -1], **CLOSE)


def test_causal_performer_hears_nothing_of_loud_later_keys(x):
    performer = Performer(D, H)
    loud = torch.cat((x[:, :9], 30 * x[:, 9:]), dim=1)
    assert_close(performer(loud, is_causal=True)[:, :9], performer(x, is_causal=True)[:, :9], atol=1e-6, rtol=1e-5)


def test_performer_redraws_its_features(x):
    performer = Performer(D, H)
    before = performer(x)
    performer.redraw()
    assert not torch.allclose(performer(x), before, atol=1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_reformer_equals_full_shared_attention_when_two_chunks_hold_all(x, causal):
    reformer = Reformer(D, H, num_buckets=4, chunk=11, num_hashes=1)
    q, _, v = reformer.project(x, x, x)
    scores = q @ torch.nn.functional.normalize(q, dim=-1).transpose(-2, -1)
    scores = scores.masked_fill(torch.eye(T, dtype=torch.bool), -1e5)  # itself only where there is nothing else
    scores = scores.masked_fill(apart(T).new_ones(T, T).triu(1).bool(), -math.inf) if causal else scores
    want = reformer.out_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
    assert_close(reformer(x, is_causal=causal), want, **CLOSE)


def test_reformer_hashes_by_direction_and_close_vectors_alike():
    reformer = Reformer(16, 1, num_buckets=16, num_hashes=200)
    x = torch.randn(1, 1, 8, 16)
    assert torch.equal(reformer.buckets(x), reformer.buckets(3 * x))
    shared = [
        (reformer.buckets(x + noise * torch.randn_like(x)) == reformer.buckets(x)).float().mean()
        for noise in (0.1, 0.5, 9)
    ]
    assert shared[0] > 0.8 > shared[1] > 2 * shared[2]
    opposite = (reformer.buckets(-x) - reformer.buckets(x)).abs()
    assert torch.equal(opposite, torch.full_like(opposite, 8))


def test_reformer_is_causal_and_leaves_padding_out(x):
    reformer = Reformer(D, H, num_buckets=4, chunk=4, num_hashes=2)
    other = torch.cat((x[:, :9], torch.randn(B, T - 9, D)), dim=1)
    with attention_weights(reformer) as seen:
        reformer(x, is_causal=True)
    assert not seen[""].triu(1).any()
    assert_close(seen[""].sum(-1), torch.ones(B, H, T))
    with attention_weights(reformer) as seen:
        reformer(other, mask=padding_mask(torch.tensor([T, 9]), T))
    assert not seen[""][1, :, :9, 9:].any()
    assert (seen[""][0] > 0).float().mean() < 0.8  # it does leave pairs out


def big_bird_mask(bird, length):
    """Who may see whom, (H, T, T), from the links alone."""
    count = math.ceil(length / bird.block)
    blocks = torch.zeros(bird.num_heads, count, count, dtype=torch.bool)
    blocks[:, 0] = blocks[:, -1] = True
    chosen, counts = bird.links(length)
    for head, row, link in counts.nonzero().tolist():
        blocks[head, row + 1, chosen[head, row, link]] = True
    return blocks.repeat_interleave(bird.block, 1).repeat_interleave(bird.block, 2)[:, :length, :length]


@pytest.mark.parametrize(("length", "block"), [(24, 2), (22, 2), (23, 3), (5, 3), (1, 3)])
def test_big_bird_equals_attention_behind_its_mask(full, length, block):
    bird = like(full, BigBird(D, H, max_len=24, block=block, num_random=2))
    x = torch.randn(B, length, D)
    mask = big_bird_mask(bird, length) if length > 2 * block else torch.ones(H, length, length, dtype=torch.bool)
    assert_close(bird(x), full(x, mask=mask[None]), **CLOSE)
    real = padding_mask(torch.tensor([length, max(1, length - 2)]), length)
    assert_close(bird(x, mask=real), full(x, mask=mask[None] & real[:, None]), **CLOSE)


def test_big_bird_links_every_block_to_seven_or_eight_others_at_any_length():
    bird = BigBird(8, 2, max_len=400, block=4, num_random=3)
    for length in (100, 200, 400):
        chosen, counts = bird.links(length)
        links = counts.sum(-1)
        assert links[:, 1:-1].unique().tolist() == [8]
        assert links[:, [0, -1]].unique().tolist() == [7]  # beside an end, a neighbour is that end
        for head in range(2):
            for row, used in zip(chosen[head], counts[head], strict=True):
                assert len(row[used].unique()) == used.sum()
    assert not torch.equal(chosen[0], chosen[1])


@pytest.mark.parametrize("causal", [False, True])
def test_adaptive_span_equals_its_formula(x, full, causal):
    layer = like(full, AdaptiveSpan(D, H, max_span=9, ramp=4))
    layer.fractions.data.copy_(torch.tensor([0.0, 0.37, 1.4]))
    assert_close(layer.spans, torch.tensor([0.0, 3.33, 9.0]))
    q, k, v = full.project(x, x, x)
    soft = ((4 + layer.spans[:, None, None] - apart(T)) / 4).clamp(0, 1)  # (H, T, T)
    weights = (q @ k.transpose(-2, -1) / math.sqrt(D // H)).exp() * (soft.tril() if causal else soft)
    weights = weights / weights.sum(-1, keepdim=True)
    want = full.out_proj((weights @ v).transpose(1, 2).flatten(2))
    assert_close(layer(x, is_causal=causal), want, **CLOSE)


def test_adaptive_span_learns_to_be_short_and_is_trimmed_to_what_it_needs(x):
    layer = AdaptiveSpan(D, H, max_span=16, ramp=2, start=3.2)
    before = layer(x)
    assert layer.reach == 17
    assert layer.trim() == layer.reach == 5
    assert_close(layer(x), before, **CLOSE)
    (layer(x).square().mean() + layer.spans.mean()).backward()
    assert (layer.fractions.grad > 0).all()


def test_fourier_mixing_is_two_matrices_of_cosines_and_sines(x):
    def matrix(size):
        angles = 2 * math.pi * torch.outer(torch.arange(size), torch.arange(size)) / size
        return torch.complex(angles.cos(), -angles.sin())

    want = (matrix(T) @ x.to(torch.complex64) @ matrix(D)).real
    assert_close(FourierMixing()(x), want, atol=1e-4, rtol=1e-4)


def test_token_mixing_treats_every_feature_alike(x):
    mixer, order = TokenMixing(T, 7), torch.randperm(D)
    assert_close(mixer(x[..., order]), mixer(x)[..., order])
    with pytest.raises(ValueError, match="built for 22 tokens, got 9"):
        mixer(x[:, :9])


def test_workspace_is_written_by_the_winners_only_and_read_by_all():
    workspace = SharedWorkspace(D, H, num_slots=4, num_writers=3)
    x = torch.randn(1, T, D, requires_grad=True)
    won = workspace.winners(x)
    assert won.sum(-1).unique().tolist() == [3]
    (grad,) = torch.autograd.grad(workspace(x)[0, 0].square().sum(), x)
    felt = grad[0].abs().sum(-1) > 0
    wrote = won.flatten(0, 2).any(dim=0)
    wrote[0] = True  # the reader itself asks
    assert torch.equal(felt, wrote)
    assert not felt.all()
    real = padding_mask(torch.tensor([2]), T)
    assert workspace.winners(x, real[:, 0]).sum(-1).unique().tolist() == [2]


def test_latent_mixing_lets_all_tokens_talk_through_few_vectors():
    mixer, x = LatentMixing(D, H, num_latents=2), torch.randn(1, T, D, requires_grad=True)
    jacobian = torch.autograd.functional.jacobian(lambda x: mixer(x)[0, 1:].flatten(), x)[..., 0, 0, :]
    assert jacobian.abs().sum(-1).bool().all()  # token 0 reaches all others
    assert torch.linalg.matrix_rank(jacobian.double()) <= 2 * D
    kept = [count_activation_bytes(mixer, torch.randn(1, length, D, requires_grad=True)) for length in (200, 400, 800)]
    assert (kept[2] - kept[1]) / (kept[1] - kept[0]) == pytest.approx(2, abs=0.01)


def universal(bias, *, max_steps=6):
    block = Block(MultiHeadAttention(D, H), FeedForward(D, 9), lambda: PreNorm(D))
    model = UniversalTransformer(block, D, max_steps=max_steps)
    torch.nn.init.constant_(model.halt.bias, bias)
    return model


def test_universal_transformer_of_one_step_is_its_block(x):
    model = universal(bias=100.0)
    thought = model.think(x)
    assert thought.steps.unique().tolist() == [1]
    assert_close(thought.remainders, torch.ones(B, T))
    where = model.positions(torch.arange(T)) + model.positions(torch.tensor(0))
    assert_close(thought.hidden, model.block(x + where))


def test_universal_transformer_weighs_its_steps_by_halting_probabilities(x):
    model = universal(bias=-0.4)  # a little under a half, then a little more
    torch.nn.init.zeros_(model.halt.weight)
    chance = torch.tensor(-0.4).sigmoid()
    states, state = [], x
    for step in range(3):
        state = model.block(state + model.positions(torch.arange(T)) + model.positions(torch.tensor(step)))
        states.append(state)
    thought = model.think(x)
    assert thought.steps.unique().tolist() == [3]
    assert_close(thought.remainders, (1 - 2 * chance).expand(B, T))
    assert_close(thought.hidden, chance * (states[0] + states[1]) + (1 - 2 * chance) * states[2], **CLOSE)


def test_universal_transformer_halts_each_token_by_itself_and_at_last_all(x):
    model = universal(bias=-1.0)
    torch.nn.init.normal_(model.halt.weight)
    steps = model.think(x).steps
    assert steps.min() >= 1
    assert steps.max() <= 6
    assert len(steps.unique()) >= 2
    assert universal(bias=-100.0, max_steps=4).think(x).steps.unique().tolist() == [4]


@pytest.mark.parametrize(
    "mixer",
    [
        LocalAttention(D, H, window=4, num_memory=2),
        Linformer(D, H, max_len=T, k=5),
        Performer(D, H),
        Reformer(D, H, num_buckets=4, chunk=4),
        BigBird(D, H, max_len=T, block=2, num_random=1),
        AdaptiveSpan(D, H, max_span=9, ramp=3, start=2),
    ],
    ids=lambda mixer: type(mixer).__name__,
)
def test_watched_weights_are_what_was_mixed(x, mixer):
    with attention_weights(mixer) as seen:
        out = mixer(x)
    value = mixer.value_proj(x).unflatten(-1, (H, -1)).transpose(1, 2)
    assert_close(mixer.out_proj((seen[""] @ value).transpose(1, 2).flatten(2)), out, **CLOSE)


ALONE = [LocalAttention(D, H, window=4), FourierMixing(), TokenMixing(T, 5), LatentMixing(D, H, num_latents=2)]
ALONE += [SharedWorkspace(D, H, num_slots=2, num_writers=2), universal(0.0)]


@pytest.mark.parametrize("mixer", ALONE, ids=lambda mixer: type(mixer).__name__)
def test_mixers_refuse_another_sequence(x, mixer):
    with pytest.raises(ValueError, match="mixes one sequence with itself; it takes no key and no cache"):
        mixer(x, x)


@pytest.mark.parametrize(
    ("mixer", "words"),
    [
        (Linformer(D, H, max_len=T, k=5), "lets every token see later ones; it cannot be causal"),
        (BigBird(D, H, max_len=T), "cannot be causal"),
        (LatentMixing(D, H, num_latents=2), "cannot be causal"),
        (SharedWorkspace(D, H, num_slots=2, num_writers=2), "cannot be causal"),
        (FourierMixing(), "mixes the whole sequence, padding and future too"),
        (TokenMixing(T, 5), "mixes the whole sequence, padding and future too"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_mixers_that_see_the_future_say_so(x, mixer, words):
    with pytest.raises(ValueError, match=words):
        mixer(x, is_causal=True)


def test_mixers_take_padding_masks_only(x):
    with pytest.raises(ValueError, match=r"Performer takes padding masks only, boolean of shape \(2, 1, 22\), got"):
        Performer(D, H)(x, mask=torch.ones(T, T, dtype=torch.bool))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: LocalAttention(D, H, window=0), "window must be at least 1 .* got 0, 0"),
        (lambda: Linformer(D, H, max_len=0, k=5), "max_len and k must be at least 1, got 0 and 5"),
        (lambda: Performer(D, H, num_features=0), "num_features must be at least 1"),
        (lambda: Reformer(D, H, num_buckets=3), "num_buckets must be even, .* got num_buckets=3"),
        (lambda: BigBird(D, H, max_len=9, block=0), "got max_len=9, block=0"),
        (lambda: AdaptiveSpan(D, H, max_span=4, start=5), "start between 0 and max_span, got max_span=4"),
        (lambda: LatentMixing(D, H, num_latents=0), "num_latents must be at least 1"),
        (lambda: SharedWorkspace(D, H, num_slots=1, num_writers=0), "must be at least 1, got 1 and 0"),
        (lambda: SharedWorkspace(D, 5, num_slots=1, num_writers=1), "num_heads must divide d_model"),
        (lambda: TokenMixing(0, 3), "must be at least 1, got 0 and 3"),
        (lambda: universal(0.0, max_steps=0), "max_steps must be at least 1"),
    ],
)
def test_impossible_sizes_are_refused(build, words):
    with pytest.raises(ValueError, match=words):
        build()
