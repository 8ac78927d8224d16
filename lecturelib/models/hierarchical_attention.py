"""Words make sentences and sentences make a document: attention pools twice."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lecturelib.layers.cells import GRU
from lecturelib.layers.checks import check_config, check_ids, ends
from lecturelib.layers.pooling import AttentionPooling
from lecturelib.layers.recurrent import Recurrent


@dataclass(frozen=True, kw_only=True)
class HierarchicalAttentionConfig:
    """Sizes of a `HierarchicalAttentionNetwork`; each GRU has `hidden_dim` units in each direction."""

    vocab_size: int
    num_classes: int
    embedding_dim: int = 64
    hidden_dim: int = 32
    attention_dim: int = 64
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_config(self, sizes=("vocab_size", "num_classes", "embedding_dim", "hidden_dim", "attention_dim"))


YANG2016 = HierarchicalAttentionConfig(
    vocab_size=50_000, num_classes=5, embedding_dim=200, hidden_dim=50, attention_dim=100
)


class HierarchicalAttentionNetwork(nn.Module):
    """Read each sentence in both directions and pool its words; read the sentences so and pool them; label the text.

    s_i = Σ_t α_it h_it over the words of sentence i, then v = Σ_i α_i h_i over the sentences of the document, each
    pooled by a learned query. Watch the weights under "word_pooling" (B, S, 1, T) and "sentence_pooling" (B, 1, S).

    Paper: Yang et al. 2016 [yang2016hierarchical], Section 2.
    Differs: dropout of embeddings and of the document vector; word vectors are learned from the start, where the
    paper begins with word2vec's.

    Shapes: tokens (B, S, T), lengths (B, S) -> logits (B, C)
    """

    def __init__(self, config: HierarchicalAttentionConfig) -> None:
        super().__init__()
        self.config = config
        width = 2 * config.hidden_dim
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_dim)
        self.dropout = nn.Dropout(config.dropout)
        self.word_reader = Recurrent(GRU, config.embedding_dim, config.hidden_dim, bidirectional=True)
        self.word_pooling = AttentionPooling(width, config.attention_dim)
        self.sentence_reader = Recurrent(GRU, width, config.hidden_dim, bidirectional=True)
        self.sentence_pooling = AttentionPooling(width, config.attention_dim)
        self.output = nn.Linear(width, config.num_classes)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Label documents.

        Args:
            tokens: (B, S, T) ids: document, sentence, word
            lengths: (B, S) words in each sentence; 0 for the padding sentences at the end of a short document

        Shapes: -> logits (B, C)
        """
        self._check(tokens, lengths)
        logits: Tensor = self.read(self.embedding(tokens), lengths)
        return logits

    def read(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """As `forward`, from word vectors (B, S, T, E): a gradient with respect to them says what each word did."""
        batch, sentences, words, _ = embedded.shape
        real = torch.arange(words, device=embedded.device) < lengths[..., None]  # (B, S, T)
        flat = self.dropout(embedded).flatten(0, 1)  # (B · S, T, E)
        states, _ = self.word_reader(flat, lengths.flatten())  # (B · S, T, 2 H)
        states = states.unflatten(0, (batch, sentences))  # (B, S, T, 2 H)
        vectors = self.word_pooling(states, real)  # (B, S, 2 H)

        is_sentence = lengths > 0  # (B, S)
        states, _ = self.sentence_reader(vectors, is_sentence.sum(dim=1))  # (B, S, 2 H)
        document = self.sentence_pooling(states, is_sentence)  # (B, 2 H)
        logits: Tensor = self.output(self.dropout(document))
        return logits

    def _check(self, tokens: Tensor, lengths: Tensor) -> None:
        if tokens.dim() != 3:
            raise ValueError(f"tokens must be (batch, sentences, words) token ids, got {tuple(tokens.shape)}")
        check_ids(tokens, self.config.vocab_size)
        if lengths.shape != tokens.shape[:2] or lengths.is_floating_point():
            raise ValueError(
                f"lengths must be {tuple(tokens.shape[:2])} integers, one for each sentence of tokens "
                f"{tuple(tokens.shape)}, got {lengths.dtype} {tuple(lengths.shape)}"
            )
        found = ends(lengths)
        if found and not 0 <= found[0] <= found[1] <= tokens.shape[2]:
            raise ValueError(f"lengths must be between 0 and the padded width {tokens.shape[2]}, got {found}")
        gaps = ends(((lengths[:, 1:] > 0) & (lengths[:, :-1] == 0)).int()) if lengths.shape[1] > 1 else None
        if gaps and gaps[1]:
            raise ValueError("a sentence of length 0 stands before a longer one: put padding sentences last")
