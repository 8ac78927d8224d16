import pytest
import torch
from torch import nn

from lecturelib.layers.cells_searched import CELLS
from lecturelib.layers.state import detach_state
from lecturelib.models import load
from lecturelib.models.recurrent_classifier import RecurrentClassifier, RecurrentClassifierConfig, RecurrentTagger
from lecturelib.models.recurrent_lm import RecurrentLM, RecurrentLMConfig

TOKENS = torch.tensor([[1, 2, 3, 4, 0, 5], [5, 4, 3, 2, 1, 0]])
CONFIG = RecurrentClassifierConfig(vocab_size=6, num_classes=3, embedding_dim=4, hidden_dim=5, num_layers=2)


@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_lm_in_chunks_equals_one_pass(cell):
    torch.manual_seed(0)
    model = RecurrentLM(RecurrentLMConfig(vocab_size=6, embedding_dim=4, hidden_dim=5, cell=cell))
    first, state = model.read(TOKENS[:, :4])
    second, _ = model.read(TOKENS[:, 4:], detach_state(state))
    torch.testing.assert_close(torch.cat([first, second], dim=1), model(TOKENS))


def test_recurrent_lm_equals_torchs_lstm_between_embedding_and_output():
    torch.manual_seed(0)
    model = RecurrentLM(RecurrentLMConfig(vocab_size=6, embedding_dim=4, hidden_dim=5, num_layers=2))
    theirs = nn.LSTM(4, 5, num_layers=2, batch_first=True)
    load(model.recurrent, theirs)
    torch.testing.assert_close(model(TOKENS), model.output(theirs(model.embedding(TOKENS))[0]))


def test_recurrent_lm_errors_name_what_was_given():
    with pytest.raises(ValueError, match=r"cell must be one of .*'gru'.*, got 'transformer'"):
        RecurrentLMConfig(vocab_size=6, cell="transformer")
    with pytest.raises(ValueError, match="the prompt is empty"):
        RecurrentLM(RecurrentLMConfig(vocab_size=6)).start(TOKENS[:, :0])


def test_classifier_reads_the_last_real_states_of_the_top_layer():
    torch.manual_seed(0)
    model = RecurrentClassifier(CONFIG)
    theirs = nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True)
    load(model.recurrent, theirs)
    logits = model(TOKENS, torch.tensor([6, 4]))
    for row, length in enumerate((6, 4)):
        _, (h, _) = theirs(model.embedding(TOKENS[row : row + 1, :length]))
        torch.testing.assert_close(logits[row : row + 1], model.output(torch.cat([h[2], h[3]], dim=-1)))


def test_tagger_of_both_directions_sees_later_tokens():
    torch.manual_seed(0)
    model, lengths = RecurrentTagger(CONFIG), torch.tensor([6, 6])
    changed = TOKENS.clone()
    changed[:, -1] = 2
    assert not torch.allclose(model(TOKENS, lengths)[:, 0], model(changed, lengths)[:, 0])
