import pytest
import torch
from torch.testing import assert_close

from lecturelib.layers import attention_weights
from lecturelib.models import DecisionTransformer, DecisionTransformerConfig, load

from .parity import moved

transformers = pytest.importorskip("transformers")

B, K, S, A, STEPS = 3, 7, 5, 4, 19
SIZES = {"d_model": 18, "num_heads": 2, "num_layers": 3, "d_ff": 21}


def build(**changes):
    torch.manual_seed(0)
    config = DecisionTransformerConfig(state_dim=S, action_dim=A, max_steps=STEPS, dropout=0.0, **SIZES | changes)
    return moved(DecisionTransformer(config)).double()


def windows(seed=1):
    """States, actions, returns-to-go, timesteps and which steps are real: 7, 4 and 1 of them, padding first."""
    generator = torch.Generator().manual_seed(seed)

    def normal(width):
        return torch.randn(B, K, width, generator=generator, dtype=torch.float64)

    real = torch.arange(K) >= K - torch.tensor([K, 4, 1])[:, None]
    times = (torch.arange(K) + torch.tensor([0, 5, 11])[:, None]) * real
    return normal(S), normal(A), normal(1), times, real


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu_new"])
def test_decision_transformer_matches_transformers(bounded, activation):
    torch.manual_seed(2)
    sizes = {"hidden_size": 18, "n_head": 2, "n_layer": 3, "n_inner": 21, "max_ep_len": STEPS, "n_positions": 33}
    theirs = transformers.DecisionTransformerModel(
        transformers.DecisionTransformerConfig(
            state_dim=S, act_dim=A, **sizes, activation_function=activation, action_tanh=bounded
        )
    )
    theirs = moved(theirs).double()
    ours = load(DecisionTransformer, theirs).double().eval()
    load(ours, theirs)  # again, in double precision
    assert ours.config.bounded is bounded
    states, actions, to_go, times, real = windows()
    for mask in (real, torch.ones_like(real)):
        with torch.no_grad():
            want = theirs(
                states=states,
                actions=actions,
                rewards=None,
                returns_to_go=to_go,
                timesteps=times,
                attention_mask=mask.long(),
            )
            got = ours(states, actions, to_go, times, mask)
            features = ours.features(states, actions, to_go, times, mask)
        assert_close(got[mask], want.action_preds[mask], atol=1e-10, rtol=1e-8)
        whole = mask.repeat_interleave(3, dim=1)
        assert_close(features[whole], want.last_hidden_state[whole], atol=1e-10, rtol=1e-8)
    assert_close(ours(states, actions, to_go, times), got)  # without a mask all is real
    assert ours.embedding_norm.bias.allclose(theirs.embed_ln.bias + theirs.encoder.wpe.weight[0])


def test_decision_transformer_is_the_size_of_the_papers():
    """3 layers of width 128 with one head, as in the paper's Table 9, for Hopper's 11 numbers and 3 joints."""
    from lecturelib.models.decision_transformer import DECISION_TRANSFORMER_HOPPER

    ours = DecisionTransformer(DECISION_TRANSFORMER_HOPPER)
    width, block = 128, 12 * 128**2 + 13 * 128
    embeddings = 1000 * width + (1 + 11 + 3 + 3) * width
    assert sum(p.numel() for p in ours.parameters()) == embeddings + 3 * block + 4 * width + (width + 1) * 3
    assert (ours(*(torch.randn(2, 5, d) for d in (11, 3, 1)), torch.arange(5).expand(2, -1)).abs() < 1).all()


def test_decision_transformer_ignores_padding_and_what_stands_in_it():
    model, (states, actions, to_go, times, real) = build(), windows()
    want = model(states, actions, to_go, times, real)
    hide = ~real[..., None]
    garbage = (tensor.masked_fill(hide, -10.0) for tensor in (states, actions, to_go))
    assert_close(model(*garbage, times.masked_fill(~real, 13), real)[real], want[real])
    for row in range(B):  # and the same as no padding at all
        kept = real[row]
        alone = model(*(tensor[row : row + 1, kept] for tensor in (states, actions, to_go, times)))
        assert_close(alone[0], want[row, kept])


def test_decision_transformer_reads_return_state_and_past_but_not_its_own_action():
    model, (states, actions, to_go, times, _) = build(), windows()
    given = [tensor.requires_grad_() for tensor in (states, actions, to_go)]
    out = model(*given, times)
    t = 3
    by_state, by_action, by_return = torch.autograd.grad(out[:, t].square().sum(), given)
    now = torch.arange(K)
    for grad, last in ((by_state, t), (by_action, t - 1), (by_return, t)):
        assert (grad.abs().sum(dim=(0, 2)) > 0).tolist() == (now <= last).tolist()


def test_decision_transformer_puts_tokens_in_the_papers_order():
    """Return-to-go, state, action: the first two are recomputed by hand, and each token sees one more than the last."""
    model, (states, actions, to_go, times, _) = build(), windows()
    with attention_weights(model) as seen:
        model(states, actions, to_go, times)
    weights = seen["blocks.0.mixer"]
    assert weights.shape == (B, 2, 3 * K, 3 * K)
    assert ((weights > 0).sum(dim=-1) == torch.arange(1, 3 * K + 1)).all()
    token = torch.stack((to_go @ model.return_embedding.weight.T, states @ model.state_embedding.weight.T), dim=2)
    biases = torch.stack((model.return_embedding.bias, model.state_embedding.bias))
    first_two = model.embedding_norm(token + biases + model.time_embedding(times)[:, :, None])  # (B, K, 2, D)
    inputs = []
    model.blocks[0].register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
    model(states, actions, to_go, times)
    assert_close(inputs[0].unflatten(1, (K, 3))[:, :, :2], first_two)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({1: torch.zeros(B, K, A + 1)}, rf"actions must be \({B}, {K}, {A}\) to fit the states"),
        ({2: torch.zeros(B, K)}, rf"returns_to_go must be \({B}, {K}, 1\)"),
        ({3: torch.zeros(B, K + 1, dtype=torch.long)}, rf"timesteps must be \({B}, {K}\)"),
        ({3: torch.zeros(B, K)}, "timesteps must be integers"),
        ({3: torch.full((B, K), STEPS)}, f"timesteps must be from 0 to {STEPS - 1}, got {STEPS} to {STEPS}"),
        ({4: torch.ones(B, K)}, "real must be .* booleans, got torch.float32"),
    ],
)
def test_decision_transformer_explains_what_does_not_fit(change, message):
    given = list(windows())
    for place, tensor in change.items():
        given[place] = tensor
    with pytest.raises(ValueError, match=message):
        build()(*given)


def test_decision_transformer_config_is_checked():
    with pytest.raises(ValueError, match="num_heads must divide d_model"):
        build(num_heads=5)
    with pytest.raises(ValueError, match="state_dim must be at least 1"):
        DecisionTransformerConfig(state_dim=0, action_dim=A, max_steps=STEPS)
    with pytest.raises(ValueError, match="activation must be one of"):
        build(activation="bent")
