"""Exercise set 12, language models: what is asked, how it is tested, and the mistakes it can name."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from lecturelib.evaluation import Sampler
from lecturelib.grading import Rubric, assert_close, draw, draw_ids
from lecturelib.layers import causal_mask, dot_product_attention

rubric = Rubric("12_language_models", title="Language models")
rubric.exercise(
    "perplexity",
    title="Perplexity, and how to compare it",
    minutes=10,
    difficulty=1,
    defines=("perplexity", "character_perplexity"),
)
rubric.exercise("block", title="Your block from set 10", minutes=5, difficulty=1, defines=("attend", "EncoderBlock"))
rubric.exercise("gpt", title="A GPT and its loss", minutes=25, difficulty=3, defines=("GPT", "language_model_loss"))
rubric.exercise("sampling", title="Top-k and top-p", minutes=20, difficulty=3, defines=("filter_logits",))
rubric.exercise("corruption", title="Corrupt a text for BERT", minutes=15, difficulty=2, defines=("corrupt",))
rubric.exercise("cache", title="The key-value cache", minutes=40, difficulty=4, defines=("block_step", "gpt_step"))


# 1. Perplexity


def mean_nats(losses, counts):
    return sum(loss * count for loss, count in zip(losses, counts, strict=True)) / sum(counts)


@rubric.reference
def perplexity(losses, counts):
    return math.exp(mean_nats(losses, counts))


@rubric.reference
def character_perplexity(perplexity, num_tokens, num_characters):
    return perplexity ** (num_tokens / num_characters)


@rubric.mistake(
    "perplexity", "A mean of means: a token in a small batch weighs more than one in a large batch. Weight by counts."
)
def mean_of_means(losses, counts):
    return math.exp(sum(losses) / len(losses))


@rubric.mistake(
    "perplexity", "You average perplexities. Average the losses first, over all tokens, then take exp once."
)
def mean_of_perplexities(losses, counts):
    return mean_nats([math.exp(loss) for loss in losses], counts)


@rubric.mistake("perplexity", "The losses are in nats, so it is e to their mean, not 2.")
def in_bits(losses, counts):
    return 2 ** mean_nats(losses, counts)


@rubric.mistake("perplexity", "That is the mean loss. Perplexity is its exponential.")
def without_exp(losses, counts):
    return mean_nats(losses, counts)


@rubric.mistake("perplexity", "You sum the losses without dividing by the number of tokens.")
def not_divided(losses, counts):
    return math.exp(mean_nats(losses, counts) * sum(counts) / len(counts))


@rubric.mistake(
    "character_perplexity",
    "You divide the perplexity. What is shared out among the characters is the *surprise*, its logarithm.",
)
def divided(perplexity, num_tokens, num_characters):
    return perplexity * num_tokens / num_characters


@rubric.mistake(
    "character_perplexity",
    "The exponent is upside down. A token has several characters, so each carries less: tokens / characters.",
)
def upside_down(perplexity, num_tokens, num_characters):
    return perplexity ** (num_characters / num_tokens)


@rubric.mistake("character_perplexity", "You divide the surprise among the characters, and forget to take exp again.")
def in_nats(perplexity, num_tokens, num_characters):
    return math.log(perplexity) * num_tokens / num_characters


def batches_of(rng, number):
    losses = (0.2 + 2 * torch.rand(number, generator=rng, dtype=torch.float64)).tolist()
    counts = [int(count) for count in draw_ids(rng, 1, 9, number)]
    return losses, [*counts[:-1], 40]


@rubric.test("perplexity", points=1, visible=True, hint="exp of the mean loss of a token, all batches together.")
def perplexity_is_over_all_tokens(submission, rng):
    losses, counts = batches_of(rng, 4)
    assert_close(submission.perplexity(losses, counts), perplexity(losses, counts), what="the perplexity")


@rubric.test("perplexity", points=1, visible=True, hint="All the surprise of the text, shared among its characters.")
def character_perplexity_shares_the_surprise(submission, rng):
    for value, tokens, characters in ((20.0, 300, 1200), (7.5, 64, 64), (90.0, 100, 450)):
        got = submission.character_perplexity(value, tokens, characters)
        assert_close(got, character_perplexity(value, tokens, characters), what="the perplexity of a character")


@rubric.test(
    "perplexity", points=1, visible=False, topic="other batches", hint="One batch alone; a uniform model; many batches."
)
def perplexity_of_other_batches(submission, rng):
    assert_close(submission.perplexity([math.log(50)], [7]), 50.0, what="the perplexity of a uniform model")
    for number in (2, 9):
        losses, counts = batches_of(rng, number)
        assert_close(submission.perplexity(losses, counts), perplexity(losses, counts), what="the perplexity")


# 2. The block of set 10


def split(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)  # (B, H, T, Dh)


def merge(x):
    return x.transpose(1, 2).flatten(2)  # (B, T, D)


@rubric.reference
def attend(query, key, value, num_heads, mask=None):
    return merge(dot_product_attention(*(split(x, num_heads) for x in (query, key, value)), mask))


@rubric.mistake("attend", "You attend in one wide head: split into heads before the softmax, merge after it.")
def one_wide_head(query, key, value, num_heads, mask=None):
    return dot_product_attention(query, key, value, mask)


@rubric.mistake("attend", "You never use the mask, so nothing you build from this can be causal.")
def ignores_the_mask(query, key, value, num_heads, mask=None):
    return attend(query, key, value, num_heads)


class EncoderBlock(nn.Module):
    """The right block in small pieces, so that a mistake can change one."""

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__()
        self.num_heads = num_heads
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.query, self.key = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.value, self.output = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.expand, self.contract = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x, mask=None):
        x = x + self.mix(self.norm1(x), mask)
        return x + self.think(self.norm2(x))

    def mix(self, x, mask):
        return self.output(attend(self.query(x), self.key(x), self.value(x), self.num_heads, mask))

    def think(self, x):
        return self.contract(F.gelu(self.expand(x)))


rubric.reference(EncoderBlock)


@rubric.mistake("EncoderBlock", "This is the post-norm block of 2017, norm(x + f(x)). A GPT needs x + f(norm(x)).")
class PostNormBlock(EncoderBlock):
    def forward(self, x, mask=None):
        x = self.norm1(x + self.mix(x, mask))
        return self.norm2(x + self.think(x))


@rubric.mistake("EncoderBlock", "There is no residual connection: add each sublayer's output to what went into it.")
class WithoutResiduals(EncoderBlock):
    def forward(self, x, mask=None):
        return self.think(self.norm2(self.mix(self.norm1(x), mask)))


@rubric.mistake("EncoderBlock", "The block takes a mask and does not pass it on to attend.")
class ForgetsMask(EncoderBlock):
    def mix(self, x, mask):
        return super().mix(x, None)


def scaled(rng, name, shape):
    return draw(rng, *shape) / (1 if "norm" in name or len(shape) == 1 else math.sqrt(shape[-1]))


def state_for(rng, module):
    """Random weights for every parameter; gains and biases of the norms too, so that no two norms are alike."""
    return {name: scaled(rng, name, parameter.shape) for name, parameter in module.state_dict().items()}


def blocks(submission, rng, d_model, num_heads, d_ff):
    """The student's block and the reference's, with the same weights."""
    state = state_for(rng, EncoderBlock(d_model, num_heads, d_ff))
    for source in (submission, rubric.solution):
        block = source.EncoderBlock(d_model, num_heads, d_ff)
        block.load_state_dict(state)
        yield block


@rubric.test(
    "block", points=1, visible=True, hint="Copy `attend` and `EncoderBlock` from your set 10; they pass there."
)
def block_is_the_one_of_set_10(submission, rng):
    query, key, value = draw(rng, 2, 3, 12), draw(rng, 2, 5, 12), draw(rng, 2, 5, 12)
    mask = causal_mask(3, 5)
    got, want = (f(query, key, value, 3, mask) for f in (submission.attend, attend))
    assert_close(got, want, what="attend(…, num_heads=3, mask)")
    got, want = (f(query, key, value, 3) for f in (submission.attend, attend))
    assert_close(got, want, what="attend(…, num_heads=3)")
    mine, reference = blocks(submission, rng, 12, 3, 20)
    x = draw(rng, 2, 5, 12)
    assert_close(mine(x), reference(x), what="the block's output")
    assert_close(mine(x, causal_mask(5)), reference(x, causal_mask(5)), what="the output under a causal mask")


@rubric.test(
    "block",
    points=1,
    visible=False,
    topic="gradients",
    hint="Every weight must get its gradient: no .data, no numpy, no += on x.",
    needs=("attend",),
)
def block_learns_in_every_weight(submission, rng):
    mine, reference = blocks(submission, rng, 20, 4, 12)
    x, upstream = draw(rng, 2, 6, 20), draw(rng, 2, 6, 20)
    got, want = (block.gradients(x, causal_mask(6), upstream=upstream) for block in (mine, reference))
    assert_close(got, want, rtol=1e-3, atol=1e-4)


# 3. GPT and its loss


class GPT(nn.Module):
    """The right model in small pieces, so that a mistake can change one."""

    def __init__(self, vocab_size, max_len, d_model, num_heads, num_layers, d_ff):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Embedding(max_len, d_model)
        self.blocks = nn.ModuleList(EncoderBlock(d_model, num_heads, d_ff) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.stack():
            x = block(x, self.mask(tokens.shape[1]))
        return self.head(self.finish(x))

    def embed(self, tokens):
        return self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))

    def stack(self):
        return self.blocks

    def mask(self, length):
        return causal_mask(length)

    def finish(self, x):
        return self.norm(x)

    def head(self, x):
        return x @ self.embedding.weight.T


rubric.reference(GPT)


@rubric.mistake(
    "GPT", "Your GPT looks ahead: it reads the token that it has to predict. Give each block a causal mask."
)
class SeesTheFuture(GPT):
    def mask(self, length):
        return None


@rubric.mistake("GPT", "Your causal mask is upside down: position i may attend to j ≤ i, the lower triangle.")
class MaskUpsideDown(GPT):
    def mask(self, length):
        return causal_mask(length).mT


@rubric.mistake("GPT", "A token may not see itself in your mask, and the first sees nothing. Use j ≤ i, not j < i.")
class MaskWithoutDiagonal(GPT):
    def mask(self, length):
        return causal_mask(length).tril(-1)


@rubric.mistake("GPT", "There are no positions in it: add `self.positions` of 0, 1, 2, … to the embeddings.")
class WithoutPositions(GPT):
    def embed(self, tokens):
        return self.embedding(tokens)


@rubric.mistake("GPT", "You look positions up by the *token*. They depend on the place alone: torch.arange(T).")
class PositionsOfTokens(GPT):
    def embed(self, tokens):
        return self.embedding(tokens) + self.positions(tokens % self.positions.num_embeddings)


@rubric.mistake("GPT", "Your positions start at 1. The first token stands at position 0.")
class PositionsFromOne(GPT):
    def embed(self, tokens):
        place = torch.arange(1, tokens.shape[1] + 1) % self.positions.num_embeddings
        return self.embedding(tokens) + self.positions(place)


@rubric.mistake("GPT", "You multiply the embeddings by √D, as the paper of 2017 does. Here they are added as they are.")
class ScaledEmbeddings(GPT):
    def embed(self, tokens):
        scale = math.sqrt(self.embedding.embedding_dim)
        return scale * self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))


@rubric.mistake("GPT", "The final norm is missing: a pre-norm stack ends in `self.norm`, before the head.")
class WithoutFinalNorm(GPT):
    def finish(self, x):
        return x


@rubric.mistake("GPT", "You run one block again and again. Each of `self.blocks` has weights of its own.")
class OneBlock(GPT):
    def stack(self):
        return [self.blocks[0]] * len(self.blocks)


@rubric.mistake("GPT", "You return the last hidden states. Compare them with every embedding: x @ embedding.weight.T.")
class WithoutHead(GPT):
    def head(self, x):
        return x


@rubric.mistake("GPT", "You return probabilities. Logits are asked for: the loss takes the softmax itself.")
class Probabilities(GPT):
    def head(self, x):
        return super().head(x).softmax(-1)


def cross_entropy(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@rubric.reference
def language_model_loss(model, tokens):
    return cross_entropy(model(tokens[:, :-1]), tokens[:, 1:])


@rubric.mistake(
    "language_model_loss",
    "You compare each output with the token it has just read. Its target is the *next* one: shift by one.",
)
def not_shifted(model, tokens):
    return cross_entropy(model(tokens), tokens)


@rubric.mistake("language_model_loss", "You shift the wrong way: the target of position t is token t + 1, not t − 1.")
def shifted_back(model, tokens):
    return cross_entropy(model(tokens)[:, 1:], tokens[:, :-1])


@rubric.mistake(
    "language_model_loss", "With roll, the last token's target is the first one of the text. Leave the last output out."
)
def rolled(model, tokens):
    return cross_entropy(model(tokens), tokens.roll(-1, dims=1))


@rubric.mistake("language_model_loss", "That is the sum of all losses. Divide by the number of predicted tokens.")
def summed(model, tokens):
    return language_model_loss(model, tokens) * tokens[:, 1:].numel()


@rubric.mistake("language_model_loss", "The mean is over the T − 1 tokens that are predicted; you divide by T.")
def divided_by_all(model, tokens):
    return language_model_loss(model, tokens) * tokens[:, 1:].numel() / tokens.numel()


@rubric.mistake("language_model_loss", "cross_entropy takes logits and does the softmax itself. You do it twice.")
def softmax_twice(model, tokens):
    return cross_entropy(model(tokens[:, :-1]).softmax(-1), tokens[:, 1:])


@rubric.given
class Teller:
    """A causal model for tests, with no weights to learn: logits from the tokens so far."""

    def __init__(self, rng, vocab_size=7):
        self.now, self.past = 2 * draw(rng, vocab_size, vocab_size), draw(rng, vocab_size, vocab_size)

    def __call__(self, tokens):
        seen = F.one_hot(tokens, len(self.past)).float().cumsum(1)  # (B, T, V)
        return self.now[tokens] + seen @ self.past


def models(submission, rng, *sizes):
    state = state_for(rng, GPT(*sizes))
    for source in (submission, rubric.solution):
        model = source.GPT(*sizes)
        model.load_state_dict(state)
        yield model


@rubric.test(
    "gpt",
    points=2,
    visible=True,
    hint="Embeddings plus positions, every block with a causal mask, the norm, the tied head.",
    needs=("attend", "EncoderBlock"),
)
def logits_are_those_of_every_next_token(submission, rng):
    mine, reference = models(submission, rng, 11, 8, 12, 3, 2, 20)
    tokens = draw_ids(rng, 0, 11, 2, 5)
    assert_close(mine(tokens), reference(tokens), what="the logits")


@rubric.test("gpt", points=1, visible=True, hint="−log p(token t + 1 | tokens up to t), averaged.")
def loss_is_shifted_by_one(submission, rng):
    model, tokens = Teller(rng), draw_ids(rng, 0, 7, 3, 6)
    losses = submission.language_model_loss, rubric.solution.language_model_loss
    got, want = (loss.gradients(model, tokens) for loss in losses)
    assert_close(got, want, what="the loss")


@rubric.test(
    "gpt",
    points=2,
    visible=False,
    topic="lengths, gradients",
    hint="Try a text as long as max_len, a single token, and look at the gradients.",
    needs=("attend", "EncoderBlock"),
)
def model_learns_in_every_weight_and_at_every_length(submission, rng):
    mine, reference = models(submission, rng, 13, 6, 8, 2, 3, 12)
    for length in (6, 1):
        tokens = draw_ids(rng, 0, 13, 3, length)
        assert_close(mine(tokens), reference(tokens), what=f"the logits of {length} token(s)")
    tokens, upstream = draw_ids(rng, 0, 13, 2, 6), draw(rng, 2, 6, 13)
    got, want = (model.gradients(tokens, upstream=upstream) for model in (mine, reference))
    assert_close(got, want, rtol=1e-3, atol=1e-4)


@rubric.test("gpt", points=1, visible=False, topic="other shapes", hint="One row, two tokens: one prediction.")
def loss_of_other_shapes(submission, rng):
    for batch, length in ((1, 2), (4, 9)):
        model, tokens = Teller(rng), draw_ids(rng, 0, 7, batch, length)
        got, want = (f(model, tokens) for f in (submission.language_model_loss, language_model_loss))
        assert_close(got, want, what="the loss")


# 4. Top-k and top-p


@rubric.reference
def filter_logits(logits, top_k=None, top_p=None):
    left = Sampler(top_k=top_k, top_p=top_p).probabilities(logits) > 0
    return logits.masked_fill(~left, -math.inf)


def keep_top_p(logits, top_p, *, inclusive=True, descending=True):
    """Keep the fewest tokens that reach p, with or without the one that crosses the line, from the top or bottom."""
    ranked, order = logits.sort(dim=-1, descending=descending)
    chances = ranked.softmax(-1)
    sums = chances.cumsum(-1)
    keep = (sums - chances if inclusive else sums) < top_p
    keep[..., 0] |= inclusive
    return logits.masked_fill(~torch.zeros_like(keep).scatter(-1, order, keep), -math.inf)


def keep_top_k(logits, top_k):
    return filter_logits(logits, top_k=min(top_k or logits.shape[-1], logits.shape[-1]))


@rubric.mistake(
    "filter_logits",
    "You drop the token that crosses p. It belongs to the set: the *fewest* tokens that together have at least p.",
)
def drops_the_crossing(logits, top_k=None, top_p=None):
    logits = keep_top_k(logits, top_k)
    return logits if top_p is None else keep_top_p(logits, top_p, inclusive=False)


@rubric.mistake(
    "filter_logits",
    "Whenever the first token does not reach p alone, you drop the one that crosses the line. It is kept: shift what "
    "you cut by one place.",
)
def drops_the_crossing_but_the_first(logits, top_k=None, top_p=None):
    logits = keep_top_k(logits, top_k)
    if top_p is None:
        return logits
    best = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, logits.argmax(-1, keepdim=True), True)
    return torch.where(best, logits, keep_top_p(logits, top_p, inclusive=False))


@rubric.mistake("filter_logits", "You begin with the *least* likely tokens. Sort in descending order.")
def from_the_bottom(logits, top_k=None, top_p=None):
    logits = keep_top_k(logits, top_k)
    return logits if top_p is None else keep_top_p(logits, top_p, descending=False)


@rubric.mistake(
    "filter_logits", "You decide in sorted order and forget to sort back: the wrong tokens of the vocabulary are cut."
)
def not_sorted_back(logits, top_k=None, top_p=None):
    logits = keep_top_k(logits, top_k)
    if top_p is None:
        return logits
    chances = logits.sort(dim=-1, descending=True).values.softmax(-1)
    return logits.masked_fill(chances.cumsum(-1) - chances >= top_p, -math.inf)


@rubric.mistake("filter_logits", "A logit of 0 is not forbidden: exp(0) = 1. Cut with −∞.")
def filled_with_zero(logits, top_k=None, top_p=None):
    return filter_logits(logits, top_k, top_p).nan_to_num(neginf=0.0)


@rubric.mistake("filter_logits", "You keep the k *smallest* logits.")
def smallest_k(logits, top_k=None, top_p=None):
    if top_k is not None and top_k < logits.shape[-1]:
        left = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, (-logits).topk(top_k).indices, True)
        logits = logits.masked_fill(~left, -math.inf)
    return logits if top_p is None else keep_top_p(logits, top_p)


@rubric.mistake(
    "filter_logits",
    "Top-p comes after top-k and looks only at what is left: take the softmax again, after the first cut.",
)
def of_the_whole_distribution(logits, top_k=None, top_p=None):
    by_k = keep_top_k(logits, top_k)
    return by_k if top_p is None else torch.minimum(by_k, keep_top_p(logits, top_p))


@rubric.mistake("filter_logits", "You sum up the logits. It is the probabilities, after a softmax, that must reach p.")
def sums_logits(logits, top_k=None, top_p=None):
    logits = keep_top_k(logits, top_k)
    if top_p is None:
        return logits
    ranked, order = logits.sort(dim=-1, descending=True)
    keep = ranked.cumsum(-1) - ranked < top_p
    keep[..., 0] = True
    return logits.masked_fill(~torch.zeros_like(keep).scatter(-1, order, keep), -math.inf)


@rubric.mistake("filter_logits", "You return probabilities; logits are asked for, those that stay unchanged.")
def as_probabilities(logits, top_k=None, top_p=None):
    return filter_logits(logits, top_k, top_p).softmax(-1)


def assert_filters(submission, logits, top_k, top_p):
    got = submission.filter_logits(logits, top_k, top_p)
    want = filter_logits(logits, top_k, top_p)
    what = f"with top_k={top_k} and top_p={top_p}"
    assert_close(got, want, what=f"the logits {what}", floor=-1e4)


@rubric.test("sampling", points=1, visible=True, hint="The k largest logits stay as they are, the others become −∞.")
def top_k_keeps_the_likeliest(submission, rng):
    logits = 2 * draw(rng, 3, 9)
    for top_k in (1, 4, None):
        assert_filters(submission, logits, top_k, None)


SHARP = torch.tensor([[1.5, 0.0, -2.0, 2.5, 0.7, -1.0, -3.0]])
"""Probabilities 0.59, 0.22, 0.10, 0.05, …: no sum of the first few is close to one of the shares below."""


@rubric.test(
    "sampling",
    points=2,
    visible=True,
    hint="Sort, softmax, cumulative sum; keep up to and with the one that reaches p.",
)
def top_p_keeps_the_fewest_that_reach_p(submission, rng):
    order = torch.randperm(7, generator=rng)
    logits = torch.cat([SHARP[:, order], SHARP.flip(1), 0.5 * SHARP[:, order]])
    for top_p in (0.4, 0.75, 0.95, 1.0):
        assert_filters(submission, logits, None, top_p)


@rubric.test("sampling", points=1, visible=True, hint="First top-k, then top-p among what is left.")
def both_together(submission, rng):
    logits = SHARP[:, torch.randperm(7, generator=rng)]
    assert_filters(submission, logits, 5, 0.75)
    assert_filters(submission, logits, 2, 0.7)  # of two that are left the first has 0.73
    assert_filters(submission, logits, 3, 0.3)


@rubric.test(
    "sampling", points=1, visible=False, topic="borders", hint="k may be larger than the vocabulary; p may be tiny."
)
def filters_at_the_borders(submission, rng):
    logits = 2 * draw(rng, 2, 6)
    assert_filters(submission, logits, 50, None)
    assert_filters(submission, logits, None, 0.001)
    assert_filters(submission, logits, 6, 1.0)
    assert_filters(submission, logits, None, None)


# 5. Corruption for BERT

IGNORED = -100


def corrupted(tokens, chosen, action, random_tokens, mask_id, masked=0.8, swapped=0.9):
    inputs = torch.where(chosen & (action < masked), mask_id, tokens)
    inputs = torch.where(chosen & (action >= masked) & (action < swapped), random_tokens, inputs)
    return inputs, tokens.masked_fill(~chosen, IGNORED)


@rubric.reference
def corrupt(tokens, chance, action, random_tokens, mask_id, pad_id):
    chosen = (chance < 0.15) & (tokens != pad_id)
    return corrupted(tokens, chosen, action, random_tokens, mask_id)


@rubric.mistake("corrupt", "You mask every chosen token. Of ten, eight are masked, one is swapped and one stays.")
def masks_all(tokens, chance, action, random_tokens, mask_id, pad_id):
    chosen = (chance < 0.15) & (tokens != pad_id)
    return corrupted(tokens, chosen, action, random_tokens, mask_id, masked=2.0)


@rubric.mistake("corrupt", "You choose padding too. There is nothing to learn there: leave out tokens == pad_id.")
def chooses_padding(tokens, chance, action, random_tokens, mask_id, pad_id):
    return corrupted(tokens, chance < 0.15, action, random_tokens, mask_id)


@rubric.mistake("corrupt", "You choose 85 % and leave 15 %. A token is chosen where chance < 0.15.")
def chooses_most(tokens, chance, action, random_tokens, mask_id, pad_id):
    chosen = (chance >= 0.15) & (tokens != pad_id)
    return corrupted(tokens, chosen, action, random_tokens, mask_id)


@rubric.mistake("corrupt", "Every token is a target in yours. Only the chosen ones are predicted; the others get −100.")
def targets_everywhere(tokens, chance, action, random_tokens, mask_id, pad_id):
    return corrupt(tokens, chance, action, random_tokens, mask_id, pad_id)[0], tokens


@rubric.mistake(
    "corrupt",
    "A chosen token that stays as it is must be predicted too: that is why the model cannot trust what it reads.",
)
def unchanged_are_no_targets(tokens, chance, action, random_tokens, mask_id, pad_id):
    inputs, targets = corrupt(tokens, chance, action, random_tokens, mask_id, pad_id)
    return inputs, targets.masked_fill(action >= 0.9, IGNORED)


@rubric.mistake("corrupt", "Your targets are the corrupted tokens. The model has to find the *original* ones.")
def targets_are_corrupted(tokens, chance, action, random_tokens, mask_id, pad_id):
    inputs, targets = corrupt(tokens, chance, action, random_tokens, mask_id, pad_id)
    return inputs, inputs.masked_fill(targets == IGNORED, IGNORED)


@rubric.mistake("corrupt", "The swap and the unchanged have changed places: from 0.8 to 0.9 a random token stands in.")
def swaps_the_last_tenth(tokens, chance, action, random_tokens, mask_id, pad_id):
    turned = torch.where(action >= 0.9, action - 0.1, torch.where(action >= 0.8, action + 0.1, action))
    return corrupt(tokens, chance, turned, random_tokens, mask_id, pad_id)


@rubric.mistake(
    "corrupt", "On a border you take the wrong side: chance < 0.15, action < 0.8 and action < 0.9, never ≤."
)
def borders_included(tokens, chance, action, random_tokens, mask_id, pad_id):
    chosen = (chance <= 0.15) & (tokens != pad_id)
    inputs = torch.where(chosen & (action <= 0.8), mask_id, tokens)
    inputs = torch.where(chosen & (action > 0.8) & (action <= 0.9), random_tokens, inputs)
    return inputs, tokens.masked_fill(~chosen, IGNORED)


@rubric.mistake("corrupt", "From 0.9 on a chosen token stays as it is; yours becomes a random one.")
def swaps_the_last_tenth_too(tokens, chance, action, random_tokens, mask_id, pad_id):
    chosen = (chance < 0.15) & (tokens != pad_id)
    return corrupted(tokens, chosen, action, random_tokens, mask_id, swapped=2.0)


@rubric.mistake(
    "corrupt",
    "Your random tokens are not those that were given: where one is put in, take the one at the same place.",
)
def random_tokens_in_a_row(tokens, chance, action, random_tokens, mask_id, pad_id):
    chosen = (chance < 0.15) & (tokens != pad_id)
    swapped = chosen & (action >= 0.8) & (action < 0.9)
    in_a_row = torch.zeros_like(tokens).masked_scatter(swapped, random_tokens)
    return corrupted(tokens, chosen, action, in_a_row, mask_id)


@rubric.mistake(
    "corrupt", "You write into `tokens` itself, and whoever gave it to you has lost the text. Clone it first."
)
def corrupts_in_place(tokens, chance, action, random_tokens, mask_id, pad_id):
    inputs, targets = corrupt(tokens, chance, action, random_tokens, mask_id, pad_id)
    return tokens.copy_(inputs), targets


def draw_corruption(rng, batch, length, vocab_size, lengths):
    tokens = draw_ids(rng, 2, vocab_size, batch, length)
    tokens = tokens.where(torch.arange(length) < torch.tensor(lengths)[:, None], 0)
    chance, action = (torch.rand(batch, length, generator=rng) for _ in range(2))
    chance[:, ::3] = 0.1  # plenty of chosen ones, so that each of the three things happens
    action[:, ::9], action[:, 3::9], action[:, 6::9] = 0.5, 0.85, 0.95
    return tokens, chance, action, draw_ids(rng, 2, vocab_size, batch, length)


def assert_corrupts(submission, *arguments):
    got, want = submission.corrupt(*arguments), corrupt(*arguments)
    assert_close(got, want, what=("the inputs", "the targets"))


@rubric.test(
    "corruption", points=2, visible=True, hint="chance says which tokens are chosen, action what happens to those."
)
def corrupts_as_bert_does(submission, rng):
    assert_corrupts(submission, *draw_corruption(rng, 2, 18, 30, (18, 18)), 1, 0)


@rubric.test("corruption", points=1, visible=True, hint="Padding is never chosen.")
def padding_is_left_alone(submission, rng):
    assert_corrupts(submission, *draw_corruption(rng, 3, 18, 30, (18, 4, 9)), 1, 0)


@rubric.test(
    "corruption", points=1, visible=False, topic="other ids", hint="Other ids, a text of nothing but padding, borders."
)
def corrupts_with_other_ids(submission, rng):
    tokens, chance, action, random_tokens = draw_corruption(rng, 2, 27, 40, (27, 20))
    assert_corrupts(submission, tokens + 3, chance, action, random_tokens + 3, 60, 3)
    assert_corrupts(submission, torch.zeros_like(tokens), chance, action, random_tokens, 1, 0)
    chance, action = chance.double(), action.double()
    chance[:, 0], action[:, 0] = 0.15, 0.0  # exactly on the border: not chosen
    action[:, 3], action[:, 6] = 0.8, 0.9  # swapped, unchanged
    assert_corrupts(submission, tokens, chance, action, random_tokens, 1, 0)
    left = submission.corrupt.arguments_after(tokens, chance, action, random_tokens, 1, 0)
    assert_close(left[0], tokens, what="`tokens` after the call")


# 6. The key-value cache


def remember(block, x):
    return block.key(x), block.value(x)


def grow(cache, new):
    return new if cache is None else tuple(torch.cat([old, more], dim=1) for old, more in zip(cache, new, strict=True))


def step(block, x, cache, *, keys=remember, join=grow, given=None):
    """One token through a block, in pieces, so that a mistake can change one."""
    n = block.norm1(x)
    following = join(cache, keys(block, n))
    k, v = following if given is None else given(cache, following)
    x = x + block.output(attend(block.query(n), k, v, block.num_heads))
    return x + block.contract(F.gelu(block.expand(block.norm2(x)))), tuple(following)


@rubric.reference
def block_step(block, x, cache=None):
    return step(block, x, cache)


@rubric.mistake(
    "block_step",
    "The newest token does not see itself: put its key and value into the cache *before* you attend.",
)
def does_not_see_itself(block, x, cache=None):
    return step(block, x, cache, given=lambda old, new: new if old is None else old)


@rubric.mistake(
    "block_step",
    "A causal mask takes your one query for the *first* of the text, so it sees the first key alone. All in the cache "
    "is past: no mask is needed.",
)
def takes_itself_for_the_first(block, x, cache=None):
    return step(block, x, cache, given=lambda old, new: tuple(part[:, :1] for part in new))


@rubric.mistake("block_step", "You append to the cache that you were given. Leave it as it was and return a new one.")
def grows_the_given_cache(block, x, cache=None):
    out, following = step(block, x, cache)
    if isinstance(cache, list):
        cache[:] = following
    return out, following


@rubric.mistake("block_step", "The cache forgets: return all keys and values so far, the newest behind the old ones.")
def keeps_the_newest_only(block, x, cache=None):
    out, following = step(block, x, cache)
    return out, tuple(part[:, -1:] for part in following)


@rubric.mistake("block_step", "You attend to the newest token alone. Its query looks at every key in the cache.")
def never_looks_back(block, x, cache=None):
    return step(block, x, cache, given=lambda old, new: tuple(part[:, -1:] for part in new))


@rubric.mistake("block_step", "You remember keys and values of the raw x. Attention reads norm1(x), so cache those.")
def caches_the_raw(block, x, cache=None):
    return step(block, x, cache, keys=lambda block, n: remember(block, x))


@rubric.mistake("block_step", "The newest comes last in the cache; you put it in front.")
def newest_in_front(block, x, cache=None):
    def join(cache, new):
        return grow(new, cache) if cache is not None else new

    return step(block, x, cache, join=join)


@rubric.mistake("block_step", "You return values before keys. The cache is the pair (keys, values).")
def values_first(block, x, cache=None):
    out, following = step(block, x, None if cache is None else cache[::-1])
    return out, following[::-1]


@rubric.mistake("block_step", "The feed-forward half of the block is missing.")
def without_feed_forward(block, x, cache=None):
    n = block.norm1(x)
    following = grow(cache, remember(block, n))
    return x + block.output(attend(block.query(n), *following, block.num_heads)), following


def walk(model, tokens, caches, position):
    x = (model.embedding(tokens) + model.positions.weight[position])[:, None]  # (B, 1, D)
    caches = [None] * len(model.blocks) if caches is None else caches
    following = []
    for block, cache in zip(model.blocks, caches, strict=True):
        x, cache = block_step(block, x, cache)
        following.append(cache)
    return model.norm(x)[:, 0] @ model.embedding.weight.T, following


def length_of(caches):
    return 0 if caches is None else caches[0][0].shape[1]


@rubric.reference
def gpt_step(model, tokens, caches=None):
    return walk(model, tokens, caches, length_of(caches))


@rubric.mistake(
    "gpt_step",
    "Every new token stands at position 0 in yours. Its position is the number of tokens in the cache.",
)
def always_first(model, tokens, caches=None):
    return walk(model, tokens, caches, 0)


@rubric.mistake("gpt_step", "Your positions are one too low: with t tokens in the cache, the new one stands at t.")
def one_too_near(model, tokens, caches=None):
    return walk(model, tokens, caches, max(0, length_of(caches) - 1))


@rubric.mistake("gpt_step", "Your positions are one too high: with t tokens in the cache, the new one stands at t.")
def one_too_far(model, tokens, caches=None):
    return walk(model, tokens, caches, length_of(caches) + 1)


@rubric.mistake("gpt_step", "There are no positions in it: add the embedding of the new token's place to the token's.")
def step_without_positions(model, tokens, caches=None):
    class Placeless:
        embedding, blocks, norm = model.embedding, model.blocks, model.norm

        class positions:
            weight = torch.zeros_like(model.positions.weight)

    return gpt_step(Placeless, tokens, caches)


@rubric.mistake(
    "gpt_step",
    "len(caches) is the number of *blocks*. The new token's place is the number of keys in one block's cache.",
)
def counts_the_blocks(model, tokens, caches=None):
    place = 0 if caches is None else len(caches)
    return walk(model, tokens, caches, place % model.positions.num_embeddings)


@rubric.mistake("gpt_step", "The final norm is missing before the head.")
def step_without_norm(model, tokens, caches=None):
    class Bare:
        embedding, positions, blocks = model.embedding, model.positions, model.blocks

        @staticmethod
        def norm(x):
            return x

    return gpt_step(Bare, tokens, caches)


@rubric.mistake("gpt_step", "All blocks share one cache in yours. Each has keys and values of its own.")
def one_cache_for_all(model, tokens, caches=None):
    logits, following = walk(model, tokens, caches and [caches[0]] * len(caches), length_of(caches))
    return logits, [following[0]] * len(following)


def assert_pair(got):
    assert isinstance(got, tuple | list), "return a pair: the output, and the cache for the next step"
    assert len(got) == 2, f"return two things, the output and the cache; you return {len(got)}"


def assert_steps(mine, theirs, what):
    assert_close(mine, theirs, what=(what, "the cache"), rtol=1e-3, atol=1e-4)


@rubric.test(
    "cache",
    points=2,
    visible=True,
    hint="norm1, query, key, value; append key and value; attend with the one query; the rest of the block.",
    needs=("attend",),
)
def block_steps_equal_the_whole_block(submission, rng):
    block, reference = blocks(submission, rng, 12, 3, 20)
    x = draw(rng, 2, 4, 12)
    whole, caches = reference(x, causal_mask(4)), [None]
    for t in range(4):
        caches.append(rubric.solution.block_step(reference, x[:, t : t + 1], caches[t])[1])
    for t in (3, 0, 1, 2):  # with many keys at first, so that the last and the first are told apart
        got = submission.block_step(block, x[:, t : t + 1], caches[t])
        assert_steps(got, (whole[:, t : t + 1], caches[t + 1]), f"the output at step {t}")
    left = submission.block_step.arguments_after(block, x[:, 3:], list(caches[3]))
    assert_close(left[2], caches[3], what="the given cache after the call")


def assert_walks(submission, rng, sizes, batch, length):
    model, reference = models(submission, rng, *sizes)
    tokens = draw_ids(rng, 0, sizes[0], batch, length)
    whole, caches, steps = reference(tokens), [None], []
    for t in range(length):
        steps.append(rubric.solution.gpt_step(reference, tokens[:, t], caches[t]))
        caches.append(steps[t][1])
    for t in (length - 1, *range(length - 1)):  # with many tokens at first, so that wrong positions are told apart
        got = submission.gpt_step(model, tokens[:, t], caches[t])
        assert_steps(got, steps[t], f"the logits after token {t}")
        assert_close(got[0], whole[:, t], what=f"the logits after token {t}, against all at once", rtol=1e-3, atol=1e-4)


@rubric.test(
    "cache",
    points=2,
    visible=True,
    hint="Embed the token at its position, go through the blocks with their caches, norm, head.",
    needs=("attend", "EncoderBlock", "block_step"),
)
def steps_equal_reading_all_at_once(submission, rng):
    assert_walks(submission, rng, (11, 8, 12, 3, 2, 20), 2, 3)


@rubric.test(
    "cache",
    points=2,
    visible=False,
    topic="deeper model",
    hint="More blocks, one row, up to max_len.",
    needs=("attend", "EncoderBlock", "block_step"),
)
def steps_equal_reading_all_at_once_in_a_deeper_model(submission, rng):
    assert_walks(submission, rng, (9, 5, 8, 2, 3, 12), 1, 5)
