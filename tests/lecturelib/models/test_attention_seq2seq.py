"""Bahdanau's, Luong's and the pointer-generator's attention, against loops written from the papers."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from lecturelib.models import load
from lecturelib.models.bahdanau import BahdanauConfig, BahdanauSeq2Seq
from lecturelib.models.luong import ALIGNMENTS, SCORES, LuongConfig, LuongSeq2Seq
from lecturelib.models.pointer_generator import PointerGenerator, PointerGeneratorConfig, coverage_loss

SOURCE = torch.tensor([[1, 2, 3, 4, 0], [5, 6, 0, 0, 0], [7, 8, 9, 10, 1]])
LENGTHS = torch.tensor([4, 2, 5])
TARGET = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]])
LUONG = LuongConfig(source_vocab_size=11, target_vocab_size=13, d_model=6, window=1)
BAHDANAU = BahdanauConfig(
    source_vocab_size=11, target_vocab_size=13, embedding_dim=5, hidden_dim=6, attention_dim=7, maxout_dim=8
)
POINTER = PointerGeneratorConfig(vocab_size=9, max_oov=4, unk_id=3, embedding_dim=5, hidden_dim=6)


def build(model_class, config):
    torch.manual_seed(0)
    return model_class(config)


def test_bahdanau_follows_the_paper_with_torchs_gru():
    model = build(BahdanauSeq2Seq, BAHDANAU)
    encoder, decoder = nn.GRU(5, 6, bidirectional=True, batch_first=True), nn.GRUCell(17, 6)
    load(model.encoder, encoder)
    model.decoder.load_state_dict(decoder.state_dict())
    logits, weights = model.aligned(SOURCE, LENGTHS, TARGET)
    a = model.attention
    for row in range(3):
        h, last = encoder(model.source_embedding(SOURCE[row : row + 1, : LENGTHS[row]]))
        s = torch.tanh(model.bridge(last[1]))
        for i in range(4):
            y = model.target_embedding(TARGET[row : row + 1, i])
            e = [a.score(torch.tanh(a.query_proj(s) + a.key_proj(h[:, j]))) for j in range(h.shape[1])]
            alpha = torch.softmax(torch.cat(e, dim=-1), dim=-1)
            c = sum(alpha[:, j, None] * h[:, j] for j in range(h.shape[1]))
            both = model.output.hidden(torch.cat([s, y, c], dim=-1))
            maxout = torch.maximum(both[:, 0::2], both[:, 1::2])
            torch.testing.assert_close(logits[row, i], model.output.output(maxout)[0])
            torch.testing.assert_close(weights[row, i, : LENGTHS[row]], alpha[0])
            assert not weights[row, i, LENGTHS[row] :].any()
            s = decoder(torch.cat([y, c], dim=-1), s)


def test_bahdanau_posterior_is_bayes_rule_with_one_annotation_for_the_context():
    model = build(BahdanauSeq2Seq, BAHDANAU)
    written = torch.tensor([[2, 3, 4, 0], [6, 7, 8, 0], [10, 11, 12, 0]])
    posterior = model.posterior(SOURCE, LENGTHS, TARGET, written)
    _, prior = model.aligned(SOURCE, LENGTHS, TARGET)
    state = model.start(SOURCE, LENGTHS)
    for i in range(4):
        embedded = model.target_embedding(TARGET[:, i])
        for row in range(3):
            joint = [
                prior[row, i, j]
                * model.output(state.hidden[row], embedded[row], state.annotations[row, j]).softmax(-1)[written[row, i]]
                for j in range(LENGTHS[row])
            ]
            expected = torch.stack(joint) / sum(joint)
            torch.testing.assert_close(posterior[row, i, : LENGTHS[row]], expected)
            assert not posterior[row, i, LENGTHS[row] :].any()
        _, state = model.step(TARGET[:, i], state)
    assert model.posterior(SOURCE, LENGTHS, TARGET[:, :0], written[:, :0]).shape == (3, 0, 5)
    assert not posterior.requires_grad


def luong_score(model, name, query, key):
    if name == "dot":
        return query @ key
    if name == "general":
        return query @ model.score.key_proj.weight @ key
    w = torch.cat([model.score.query_proj.weight, model.score.key_proj.weight], dim=1)
    return model.score.score.weight[0] @ torch.tanh(w @ torch.cat([query, key]))


def luong_weights(model, score, alignment, query, keys, time):
    length = len(keys)
    window = model.config.window
    if alignment == "global":
        centre, window = 0.0, length
    elif alignment == "local-m":
        centre = min(time, length - 1)
    else:
        p = model.alignment
        centre = length * torch.sigmoid(p.position(torch.tanh(p.hidden(query)))).item()
    seen = [s for s in range(length) if abs(s - centre) <= window]
    weights = torch.zeros(length)
    if seen:
        weights[seen] = torch.softmax(torch.stack([luong_score(model, score, query, keys[s]) for s in seen]), dim=0)
    if alignment == "local-p":
        weights = weights * torch.exp(-((torch.arange(length) - centre) ** 2) / (2 * (window / 2) ** 2))
    return weights


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_luong_follows_the_paper_with_torchs_lstm(score, alignment):
    model = build(LuongSeq2Seq, replace(LUONG, score=score, alignment=alignment))
    encoder, decoder = nn.LSTM(6, 6, batch_first=True), nn.LSTMCell(12, 6)
    load(model.encoder, encoder)
    model.decoder.cells[0].load_state_dict(decoder.state_dict())
    with torch.no_grad():
        logits, weights = model.aligned(SOURCE, LENGTHS, TARGET)
        for row in range(3):
            keys, (h, c) = encoder(model.source_embedding(SOURCE[row : row + 1, : LENGTHS[row]]))
            state, fed = (h[0], c[0]), torch.zeros(1, 6)
            for t in range(4):
                y = model.target_embedding(TARGET[row : row + 1, t])
                state = decoder(torch.cat([y, fed], dim=-1), state)
                a = luong_weights(model, score, alignment, state[0][0], keys[0], t)
                fed = torch.tanh(model.combine(torch.cat([(a @ keys[0])[None], state[0]], dim=-1)))
                torch.testing.assert_close(logits[row, t], model.output(fed)[0])
                torch.testing.assert_close(weights[row, t, : LENGTHS[row]], a)
                assert not weights[row, t, LENGTHS[row] :].any()


@pytest.mark.parametrize("score", SCORES)
def test_luong_monotonic_equals_global_when_the_window_covers_all(score):
    wide = build(LuongSeq2Seq, replace(LUONG, score=score, alignment="local-m", window=20))
    whole = build(LuongSeq2Seq, replace(LUONG, score=score))
    torch.testing.assert_close(wide(SOURCE, LENGTHS, TARGET), whole(SOURCE, LENGTHS, TARGET))


def test_luong_config_names_the_choices():
    with pytest.raises(ValueError, match=r"score must be one of \['dot', 'general', 'concat'\], got 'cosine'"):
        replace(LUONG, score="cosine")
    with pytest.raises(ValueError, match=r"alignment must be one of .* got 'local'"):
        replace(LUONG, alignment="local")


@pytest.mark.parametrize("coverage", [False, True])
def test_pointer_generator_follows_the_paper(coverage):
    model = build(PointerGenerator, replace(POINTER, coverage=coverage))
    with torch.no_grad():
        model.attention_bias.normal_()
        logits, weights = model.aligned(SOURCE, LENGTHS, TARGET)
        state = model.start(SOURCE, LENGTHS)
        a = model.attention
        for row in range(3):
            length = int(LENGTHS[row])
            hidden = tuple(s[row : row + 1] for s in state.hidden)
            values, covered = state.values[row, :length], torch.zeros(length)
            for t in range(4):
                word = TARGET[row : row + 1, t]
                x = model.embedding(torch.where(word < 9, word, 3))
                hidden = model.decoder(x, hidden)
                inner = a.query_proj(hidden[0]) + a.key_proj(values) + model.attention_bias
                if coverage:
                    inner = inner + covered[:, None] * model.coverage_proj.weight[:, 0]
                alpha = torch.softmax(a.score(torch.tanh(inner))[:, 0], dim=0)
                covered = covered + alpha
                feature = torch.cat([hidden[0], (alpha @ values)[None]], dim=-1)
                p_gen = torch.sigmoid(model.switch(torch.cat([feature, x], dim=-1)))[0, 0]
                want = torch.zeros(13)
                want[:9] = p_gen * torch.softmax(model.generate(feature)[0], dim=0)
                for i in range(length):
                    want[SOURCE[row, i]] += (1 - p_gen) * alpha[i]
                torch.testing.assert_close(logits[row, t].exp(), want)
                torch.testing.assert_close(weights[row, t, :length], alpha)


def test_pointer_generator_can_only_write_the_vocabulary_and_the_words_of_its_own_source():
    logits = build(PointerGenerator, POINTER)(SOURCE, LENGTHS, TARGET)
    probabilities = logits.exp()
    torch.testing.assert_close(probabilities.sum(dim=-1), torch.ones(3, 4))
    torch.testing.assert_close(logits.log_softmax(dim=-1), logits, atol=1e-5, rtol=1e-5)
    assert (probabilities[2, :, [9, 10]] > 1e-6).all()  # two words outside the vocabulary, in source 2 only
    assert (probabilities[:2, :, 9:] < 1e-30).all()
    assert (probabilities[2, :, 11:] < 1e-30).all()


def test_pointer_generator_learns_to_copy_words_it_has_no_embedding_for():
    torch.manual_seed(0)
    model = PointerGenerator(replace(POINTER, hidden_dim=24))
    source = torch.tensor([[9, 1, 10], [9, 10, 2], [11, 4, 9]])
    lengths, target_in = torch.tensor([3, 3, 3]), torch.zeros(3, 1, dtype=torch.long)
    target = torch.tensor([10, 10, 11])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        loss = nn.functional.cross_entropy(model(source, lengths, target_in)[:, 0], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert torch.equal(model(source, lengths, target_in)[:, 0].argmax(dim=-1), target)


def test_coverage_loss_is_what_was_read_before():
    weights = torch.tensor([[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.6, 0.3, 0.1]]])
    torch.testing.assert_close(coverage_loss(weights), torch.tensor([[0.0, 0.5, 0.9]]))


def test_pointer_generator_config_names_the_fields():
    with pytest.raises(ValueError, match="max_oov=4, unk_id=9, vocab_size=9"):
        replace(POINTER, unk_id=9)


@pytest.mark.parametrize(
    ("model_class", "config"),
    [
        (BahdanauSeq2Seq, BAHDANAU),
        (PointerGenerator, replace(POINTER, vocab_size=13)),
        *((LuongSeq2Seq, replace(LUONG, alignment=alignment)) for alignment in ALIGNMENTS),
    ],
)
def test_attention_to_an_empty_source_is_zero_and_finite(model_class, config):
    model = build(model_class, config)
    logits, weights = model.aligned(SOURCE, torch.tensor([4, 0, 5]), TARGET)
    assert not weights[1].any()
    assert logits.isfinite().all()
    logits.square().mean().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    no_steps, no_weights = model.aligned(SOURCE, LENGTHS, TARGET[:, :0])
    assert no_steps.shape == (3, 0, logits.shape[-1])
    assert no_weights.shape == (3, 0, 5)
