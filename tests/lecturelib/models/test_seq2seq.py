from dataclasses import replace

import pytest
import torch
from torch import nn

from lecturelib.layers.recurrent import reverse_sequences
from lecturelib.models import load
from lecturelib.models.cho_seq2seq import CHO2014, ChoSeq2Seq, ChoSeq2SeqConfig
from lecturelib.models.seq2seq import SUTSKEVER2014, Seq2Seq, Seq2SeqConfig

CONFIG = Seq2SeqConfig(source_vocab_size=11, target_vocab_size=13, d_model=8, num_layers=2)
SOURCE = torch.tensor([[1, 2, 3, 4, 0], [5, 6, 0, 0, 0], [7, 8, 9, 10, 1]])
LENGTHS = torch.tensor([4, 2, 5])
TARGET = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]])


def test_seq2seq_reads_the_source_from_its_end():
    torch.manual_seed(0)
    backwards = Seq2Seq(CONFIG)
    forwards = Seq2Seq(replace(CONFIG, reverse_source=False))
    forwards.load_state_dict(backwards.state_dict())
    turned = reverse_sequences(SOURCE, LENGTHS)
    torch.testing.assert_close(backwards(SOURCE, LENGTHS, TARGET), forwards(turned, LENGTHS, TARGET))
    assert not torch.allclose(backwards(SOURCE, LENGTHS, TARGET), forwards(SOURCE, LENGTHS, TARGET))


def test_seq2seq_equals_two_torch_lstms_joined_by_the_state():
    torch.manual_seed(0)
    encoder, decoder = (nn.LSTM(8, 8, num_layers=2, batch_first=True) for _ in range(2))
    model = Seq2Seq(CONFIG)
    load(model.encoder, encoder)
    load(model.decoder, decoder)
    logits = model(SOURCE, LENGTHS, TARGET)
    for row in range(3):
        words = SOURCE[row : row + 1, : LENGTHS[row]].flip(1)
        _, state = encoder(model.source_embedding(words))
        outputs, _ = decoder(model.target_embedding(TARGET[row : row + 1]), state)
        torch.testing.assert_close(logits[row : row + 1], model.output(outputs))


def test_cho_follows_the_paper_with_torchs_gru():
    torch.manual_seed(0)
    config = ChoSeq2SeqConfig(source_vocab_size=11, target_vocab_size=13, embedding_dim=5, hidden_dim=7, maxout_dim=6)
    encoder, decoder = nn.GRU(5, 7, batch_first=True), nn.GRUCell(12, 7)
    model = ChoSeq2Seq(config)
    load(model.encoder, encoder)
    model.decoder.cells[0].load_state_dict(decoder.state_dict())
    logits = model(SOURCE, LENGTHS, TARGET)
    for row in range(3):
        _, last = encoder(model.source_embedding(SOURCE[row : row + 1, : LENGTHS[row]]))
        c = torch.tanh(model.summary(last[0]))
        h = torch.tanh(model.bridge(c))
        for t in range(4):
            y = model.target_embedding(TARGET[row : row + 1, t])
            h = decoder(torch.cat([y, c], dim=-1), h)
            both = model.output.hidden(torch.cat([h, y, c], dim=-1))
            maxout = torch.maximum(both[:, 0::2], both[:, 1::2])
            torch.testing.assert_close(logits[row : row + 1, t], model.output.output(maxout))


def test_paper_presets_have_the_papers_size():
    with torch.device("meta"):
        sutskever, cho = Seq2Seq(SUTSKEVER2014), ChoSeq2Seq(CHO2014)
    # Section 3.4 counts 384M parameters, 64M of them recurrent; two LSTMs of 4 layers with torch's biases:
    recurrent = 2 * 4 * (4 * 1000 * 2000 + 2 * 4000)
    total = sum(p.numel() for p in sutskever.parameters())
    assert total == (160_000 + 80_000) * 1000 + recurrent + 80_000 * 1001
    assert round(total / 1e6) == 384
    assert cho.config.maxout_dim == 500


def test_seq2seq_errors_name_what_was_given():
    model = Seq2Seq(CONFIG)
    with pytest.raises(ValueError, match="source must be ids from 0 to 10, got 11"):
        model(SOURCE + 1, LENGTHS, TARGET)
    with pytest.raises(ValueError, match=r"source_lengths must be between 0 and the padded length 5, got \[5, 3, 6\]"):
        model(SOURCE, LENGTHS + 1, TARGET)
    with pytest.raises(ValueError, match=r"target_in must be \(3, length\) token ids, got \(2, 4\)"):
        model(SOURCE, LENGTHS, TARGET[:2])
    with pytest.raises(ValueError, match=r"integer token ids, got torch\.float32"):
        model(SOURCE.float(), LENGTHS, TARGET)
    with pytest.raises(ValueError, match="Seq2SeqConfig: num_layers must be at least 1, got 0"):
        replace(CONFIG, num_layers=0)
