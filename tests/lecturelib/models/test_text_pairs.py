"""Pooling classifiers, the hierarchical attention network, ESIM and the span reader: what is special about each."""

import pytest
import torch

from lecturelib.layers import attention_weights
from lecturelib.models.esim import CHEN2017, ESIM, ESIMConfig
from lecturelib.models.hierarchical_attention import (
    YANG2016,
    HierarchicalAttentionConfig,
    HierarchicalAttentionNetwork,
)
from lecturelib.models.pooling_classifier import INFERSENT, INNER_ATTENTION, PairClassifier, PoolingConfig
from lecturelib.models.span_reader import DRQA, SAN, SpanReader, SpanReaderConfig, best_span

A, A_LENGTHS = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 0, 0]]), torch.tensor([5, 3])
B, B_LENGTHS = torch.tensor([[2, 9, 1], [10, 6, 0]]), torch.tensor([3, 2])


def build(model_class, config):
    torch.manual_seed(0)
    return model_class(config).eval()


def esim():
    return build(ESIM, ESIMConfig(vocab_size=11, embedding_dim=5, hidden_dim=6))


def count(model_class, config):
    with torch.device("meta"):
        return sum(p.numel() for p in model_class(config).parameters() if p is not None)


def test_esim_turned_round_aligns_the_same_words():
    model = esim()
    with attention_weights(model) as there:
        forth = model(A, A_LENGTHS, B, B_LENGTHS)
    with attention_weights(model) as back:
        other = model(B, B_LENGTHS, A, A_LENGTHS)
    torch.testing.assert_close(there["premise_reads"], back["hypothesis_reads"])
    torch.testing.assert_close(there["hypothesis_reads"], back["premise_reads"])
    assert not torch.allclose(forth, other)  # who follows from whom does depend on the order


def test_esim_follows_the_paper_on_one_pair():
    model = esim()
    a, _ = model.encoder(model.embedding(A[1:, :3]))
    b, _ = model.encoder(model.embedding(B[1:, :2]))
    e = a[0] @ b[0].T
    parts = []
    for own, found in ((a[0], e.softmax(1) @ b[0]), (b[0], e.T.softmax(1) @ a[0])):
        m = torch.cat([own, found, own - found, own * found], dim=1)
        v, _ = model.composer(torch.relu(model.projection(m))[None])
        parts += [v[0].mean(0), v[0].amax(0)]
    want = model.output(torch.tanh(model.hidden(torch.cat(parts))))
    torch.testing.assert_close(model(A, A_LENGTHS, B, B_LENGTHS)[1], want)


def test_pair_of_equal_sentences_has_no_difference():
    model = build(PairClassifier, PoolingConfig(vocab_size=11, num_classes=3, embedding_dim=5, hidden_dim=6))
    seen = []
    model.hidden.register_forward_hook(lambda module, args, output: seen.append(args[0]))
    model(A, A_LENGTHS, A, A_LENGTHS)
    u, v, difference, product = seen[0].chunk(4, dim=-1)
    torch.testing.assert_close(u, v)
    assert difference.abs().max() < 1e-6
    torch.testing.assert_close(product, u * v)


def han():
    return build(
        HierarchicalAttentionNetwork,
        HierarchicalAttentionConfig(vocab_size=11, num_classes=3, embedding_dim=5, hidden_dim=6, attention_dim=7),
    )


DOCUMENTS = torch.tensor([[[1, 2, 3, 4], [5, 6, 0, 0], [7, 0, 0, 0]], [[8, 9, 10, 0], [1, 0, 0, 0], [0, 0, 0, 0]]])
WORDS = torch.tensor([[4, 2, 1], [3, 1, 0]])


def test_hierarchical_attention_reads_a_document_as_its_sentences_alone():
    model = han()
    with attention_weights(model) as seen:
        got = model(DOCUMENTS, WORDS)
    vectors = []
    for place in range(2):
        states, _ = model.word_reader(model.embedding(DOCUMENTS[1:, place, : WORDS[1, place]]))
        vectors.append(model.word_pooling(states))
    states, _ = model.sentence_reader(torch.stack(vectors, dim=1))
    torch.testing.assert_close(got[1:], model.output(model.sentence_pooling(states)))
    words, sentences = seen["word_pooling"].squeeze(2), seen["sentence_pooling"].squeeze(1)
    torch.testing.assert_close(words.sum(-1), (WORDS > 0).float())
    torch.testing.assert_close(sentences.sum(-1), torch.ones(2))
    assert not words[WORDS == 0].any()
    assert not sentences[WORDS == 0].any()


def test_hierarchical_attention_gives_each_word_a_gradient_and_padding_none():
    model = han()
    embedded = model.embedding(DOCUMENTS).detach().requires_grad_()
    model.read(embedded, WORDS).sum().backward()
    felt = embedded.grad.abs().sum(-1) > 0
    assert torch.equal(felt, torch.arange(4) < WORDS[..., None])


def test_hierarchical_attention_explains_a_hole_between_sentences():
    with pytest.raises(ValueError, match="put padding sentences last"):
        han()(DOCUMENTS, torch.tensor([[4, 0, 1], [3, 1, 0]]))


def reader(turns):
    return build(SpanReader, SpanReaderConfig(vocab_size=11, embedding_dim=5, hidden_dim=6, num_turns=turns))


def test_span_reader_gives_two_distributions_over_real_words():
    probabilities = reader(3)(A, A_LENGTHS, B, B_LENGTHS).exp()
    assert probabilities.shape == (2, 2, 5)
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(2, 2))
    assert probabilities[1, :, 3:].max() < 1e-30


def test_span_reader_averages_its_turns_and_each_reads_again():
    model = reader(3)
    turns = model.turns(A, A_LENGTHS, B, B_LENGTHS)
    torch.testing.assert_close(turns.mean(1), model(A, A_LENGTHS, B, B_LENGTHS).exp())
    assert not torch.allclose(turns[:, 0], turns[:, 1])
    assert not hasattr(reader(1), "turn")


def test_span_reader_knows_which_words_the_question_repeats():
    model = reader(1)
    seen = []
    model.passage_reader.register_forward_pre_hook(lambda module, args: seen.append(args[0][..., -1]))
    model(A, A_LENGTHS, B, B_LENGTHS)
    assert seen[0].tolist() == [[1, 1, 0, 0, 0], [1, 0, 0, 0, 0]]


def test_best_span_is_the_best_of_all_allowed_ones():
    scores = torch.randn(6, 2, 7, generator=torch.Generator().manual_seed(4))
    for max_len in (1, 3, 20):
        for row, (start, end) in enumerate(best_span(scores, max_len=max_len).tolist()):
            allowed = [(s, e) for s in range(7) for e in range(s, min(7, s + max_len))]
            assert (start, end) == max(allowed, key=lambda span: scores[row, 0, span[0]] + scores[row, 1, span[1]])


def test_presets_have_the_papers_sizes():
    assert YANG2016.hidden_dim * 2 == YANG2016.attention_dim == 100
    assert (CHEN2017.embedding_dim, CHEN2017.hidden_dim, CHEN2017.dropout) == (300, 300, 0.5)
    # ESIM without its word vectors: 4.3 million parameters, as the paper's Table 1 has it
    assert count(ESIM, CHEN2017) - 300 * CHEN2017.vocab_size == pytest.approx(4.3e6, rel=0.02)
    assert INNER_ATTENTION.num_queries == 4
    assert INFERSENT.pooling == "max"
    assert (DRQA.num_turns, SAN.num_turns) == (1, 5)
