"""Exercise set 10, the transformer: what is asked, how it is tested, and the mistakes it can name."""

import itertools
import math
from collections import Counter

import torch
import torch.nn.functional as F
from torch import nn

from lecturelib.grading import Rubric, assert_close, draw, draw_ids
from lecturelib.layers import causal_mask, dot_product_attention, padding_mask

rubric = Rubric("10_transformer", title="The transformer")
rubric.exercise("bpe", title="Byte-pair merges", minutes=15, difficulty=2, defines=("learn_merges", "segment"))
rubric.exercise("smoothing", title="The label-smoothed loss", minutes=10, difficulty=2, defines=("smoothed_loss",))
rubric.exercise(
    "encoder_block", title="The encoder block", minutes=20, difficulty=3, defines=("attend", "EncoderBlock")
)
rubric.exercise("decoder_block", title="The decoder block", minutes=20, difficulty=3, defines=("DecoderBlock",))
rubric.exercise(
    "stepwise",
    title="Masked training equals step-wise decoding",
    minutes=40,
    difficulty=4,
    defines=("parallel_outputs", "stepwise_outputs", "attention_step", "influence"),
)


# 1. Byte-pair merges


def pairs_of(symbols):
    return list(itertools.pairwise(symbols))


def join(symbols, pair, once=False):
    """The symbols with the pair joined wherever it stands, from the left; or in the first place only."""
    joined, place = [], 0
    while place < len(symbols):
        if tuple(symbols[place : place + 2]) == tuple(pair):
            joined.append(pair[0] + pair[1])
            place += 2
            if once:
                return joined + list(symbols[place:])
        else:
            joined.append(symbols[place])
            place += 1
    return joined


def most_frequent(counts):
    return min(counts, key=lambda pair: (-counts[pair], pair))


def learn(words, num_merges, *, weight=lambda count: count, choose=most_frequent, joined=join):
    """Learn merges in small pieces, so that a mistake can change one: what counts, what wins, how it is joined."""
    spelled, merges = {word: list(word) for word in words}, []
    while len(merges) < num_merges:
        counts = Counter()
        for word, symbols in spelled.items():
            for pair in pairs_of(symbols):
                counts[pair] += weight(words[word])
        if not counts:
            break
        merges.append(choose(counts))
        spelled = {word: joined(symbols, merges[-1]) for word, symbols in spelled.items()}
    return merges


@rubric.reference
def learn_merges(words, num_merges):
    return learn(words, num_merges)


@rubric.reference
def segment(word, merges):
    symbols = list(word)
    for pair in merges:
        symbols = join(symbols, pair)
    return symbols


@rubric.mistake(
    "learn_merges", "You count each word once. A pair counts as often as its word occurs: add words[word], not 1."
)
def counts_types(words, num_merges):
    return learn(words, num_merges, weight=lambda count: 1)


@rubric.mistake(
    "learn_merges",
    "Among equally frequent pairs you take the one that came first. Take the smaller one, as Python sorts.",
)
def first_of_equals(words, num_merges):
    return learn(words, num_merges, choose=lambda counts: max(counts, key=counts.get))


@rubric.mistake(
    "learn_merges", "Among equally frequent pairs you take the larger one. Take the smaller, as Python sorts."
)
def largest_of_equals(words, num_merges):
    return learn(words, num_merges, choose=lambda counts: max(counts, key=lambda pair: (counts[pair], pair)))


@rubric.mistake("learn_merges", "You take the *rarest* pair. The most frequent one is joined.")
def rarest(words, num_merges):
    return learn(words, num_merges, choose=lambda counts: min(counts, key=lambda pair: (counts[pair], pair)))


@rubric.mistake("learn_merges", "You join a pair once in a word. It is joined wherever it stands.")
def joins_once(words, num_merges):
    return learn(words, num_merges, joined=lambda symbols, pair: join(symbols, pair, once=True))


def replace_text(symbols, pair):
    return " ".join(symbols).replace(" ".join(pair), "".join(pair)).split(" ")


def join_from_the_right(symbols, pair):
    return [symbol[::-1] for symbol in join([s[::-1] for s in symbols[::-1]], [s[::-1] for s in pair[::-1]])][::-1]


@rubric.mistake("learn_merges", "You join from the right: 'a a a' becomes 'a aa'. Go from the left, and get 'aa a'.")
def joins_from_the_right(words, num_merges):
    return learn(words, num_merges, joined=join_from_the_right)


@rubric.mistake(
    "learn_merges",
    "Replacing text joins halves of longer tokens: in 'xa b' it finds 'a b'. Compare whole tokens, two at a time.",
)
def joins_by_replacing_text(words, num_merges):
    return learn(words, num_merges, joined=replace_text)


@rubric.mistake(
    "learn_merges", "You count the pairs once, at the start. Every merge makes new pairs: count again after each."
)
def never_recounts(words, num_merges):
    counts = Counter()
    for word, count in words.items():
        for pair in pairs_of(word):
            counts[pair] += count
    return sorted(counts, key=lambda pair: (-counts[pair], pair))[:num_merges]


@rubric.mistake("learn_merges", "Return the pairs, ('a', 'b'), not the joined tokens 'ab': a merge is a rule.")
def returns_tokens(words, num_merges):
    return ["".join(pair) for pair in learn(words, num_merges)]


@rubric.mistake("learn_merges", "A merge must never cross from one word into the next: count inside words only.")
def crosses_words(words, num_merges):
    text = [symbol for word, count in words.items() for _ in range(count) for symbol in word]
    merges = []
    while len(merges) < num_merges and len(text) > 1:
        merges.append(most_frequent(Counter(pairs_of(text))))
        text = join(text, merges[-1])
    return merges


@rubric.mistake(
    "learn_merges", "You stop when no pair occurs twice. Go on until num_merges, or until no word has a pair left."
)
def stops_at_rare_pairs(words, num_merges):
    class Stop(Exception):
        pass

    def choose(counts):
        found.append(most_frequent(counts))
        if counts[found[-1]] < 2:
            raise Stop
        return found[-1]

    found = []
    try:
        learn(words, num_merges, choose=choose)
    except Stop:
        found.pop()
    return found


@rubric.mistake("learn_merges", "Overlaps count: there are two pairs 'a a' in 'aaa'.")
def counts_without_overlaps(words, num_merges):
    def choose(counts):
        apart = Counter()
        for word, symbols in spelled.items():
            last = None
            for place, pair in enumerate(pairs_of(symbols)):
                if last != (place - 1, pair):
                    apart[pair] += words[word]
                    last = (place, pair)
        best = most_frequent(apart)
        spelled.update({word: join(symbols, best) for word, symbols in spelled.items()})
        return best

    spelled = {word: list(word) for word in words}
    return learn(words, num_merges, choose=choose)


@rubric.mistake(
    "segment", "You look for the longest known token. Apply the merges in the order in which they were learned."
)
def longest_first(word, merges):
    known, symbols = {left + right for left, right in merges}, []
    while word:
        end = next((end for end in range(len(word), 1, -1) if word[:end] in known), 1)
        symbols.append(word[:end])
        word = word[end:]
    return symbols


@rubric.mistake("segment", "You begin with the merge that was learned last. The first learned comes first.")
def last_learned_first(word, merges):
    return segment(word, merges[::-1])


@rubric.mistake("segment", "You apply a merge once in a word. Apply it wherever it fits, then take the next.")
def applies_once(word, merges):
    symbols = list(word)
    for pair in merges:
        symbols = join(symbols, pair, once=True)
    return symbols


@rubric.mistake("segment", "You join from the right: 'a a a' becomes 'a aa'. Go from the left, and get 'aa a'.")
def segments_from_the_right(word, merges):
    symbols = list(word)
    for pair in merges:
        symbols = join_from_the_right(symbols, pair)
    return symbols


@rubric.mistake("segment", "Replacing text joins halves of longer tokens. Compare whole tokens, two at a time.")
def segments_by_replacing_text(word, merges):
    symbols = list(word)
    for pair in merges:
        symbols = replace_text(symbols, pair)
    return symbols


def random_words(rng, letters, count):
    """Words with random counts; each is the word of its place, so that no two are the same."""
    words = {}
    for length in draw_ids(rng, 3, 8, count).tolist():
        word = "".join(letters[index] for index in draw_ids(rng, 0, len(letters), length).tolist())
        words[word] = int(draw_ids(rng, 1, 9, 1))
    return words


def as_merges(found):
    assert isinstance(found, tuple | list), "return a list of merges, in the order they were learned"
    return [tuple(pair) if isinstance(pair, list) else pair for pair in found]


def assert_learns(submission, words, num_merges):
    assert_close(submission.learn_merges(words, num_merges), learn_merges(words, num_merges), what="the merges")


@rubric.test(
    "bpe", points=1, visible=True, hint="Count neighbours weighted by the word's count; join the winner; repeat."
)
def learns_the_merges_of_a_small_text(submission, rng):
    assert_learns(submission, {"low": 5, "lower": 2, "newest": 6, "widest": 3}, 8)
    assert_learns(submission, {"zyzy": 1, "xyxyxy": 4, "abab": 5, "zzz": 2, "abc": 1, "bca": 7}, 5)


@rubric.test(
    "bpe",
    points=2,
    visible=True,
    hint="Pairs are counted anew after each merge; of equally frequent ones the smaller wins.",
)
def learns_the_merges_of_random_words(submission, rng):
    words = random_words(rng, "dcba", 30) | {"dada": 3, "bdadab": 2, "cdada": 4}
    assert_learns(submission, words, 20)
    assert_learns(submission, dict.fromkeys(["zy", "yx", "ab", "xa"], 2), 4)  # nothing but ties


@rubric.test("bpe", points=1, visible=True, hint="Walk through the merges in order; join each wherever it fits.")
def segments_words_in_the_order_of_the_merges(submission, rng):
    merges = [("x", "a"), ("a", "b"), ("xa", "xa")]
    for word in ("xab", "xaxab", "abxab"):
        assert_close(submission.segment(word, merges), segment(word, merges), what=f"segment({word!r})")
    merges = [("b", "c"), ("a", "b"), ("ab", "c"), ("bc", "d"), ("a", "bcd"), ("d", "d")]
    for word in ("abc", "abcd", "bcbcab", "ddd", "ababab", "xabcx", "a", ""):
        assert_close(submission.segment(word, merges), segment(word, merges), what=f"segment({word!r})")


@rubric.test(
    "bpe",
    points=1,
    visible=False,
    topic="early stop",
    hint="When every word is one token there is no pair left: stop early.",
)
def stops_when_nothing_is_left(submission, rng):
    words = random_words(rng, "ab", 6)
    assert_learns(submission, words, 200)
    merges = learn_merges(words, 200)
    for word in words:
        assert_close(submission.segment(word, merges), [word], what=f"segment({word!r}), a word of the text")
    assert_learns(submission, {"a": 3}, 5)
    assert_learns(submission, {"aaa": 1, "bca": 1}, 9)  # no pair but one occurs twice


# 2. The label-smoothed loss


def smoothed(logits, targets, smoothing, pad, *, spread=None, keep=None):
    """Cross-entropy against a smoothed target, position by position: (B, T), and where it counts."""
    logs, vocab_size = logits.log_softmax(-1), logits.shape[-1]
    spread = smoothing / vocab_size if spread is None else spread
    keep = 1 - smoothing if keep is None else keep
    aims = spread + keep * F.one_hot(targets, vocab_size).to(logs.dtype)
    return -(aims * logs).sum(-1), targets != pad


@rubric.reference
def smoothed_loss(logits, targets, smoothing, pad):
    losses, real = smoothed(logits, targets, smoothing, pad)
    return losses[real].mean()


@rubric.mistake("smoothed_loss", "There is no smoothing in it: the other tokens must get a share of the target too.")
def unsmoothed(logits, targets, smoothing, pad):
    return smoothed_loss(logits, targets, 0.0, pad)


@rubric.mistake(
    "smoothed_loss",
    "You share ε among the V − 1 *other* tokens. Here all V get ε / V, the right one too, as in PyTorch.",
)
def shared_by_the_others(logits, targets, smoothing, pad):
    spread = smoothing / (logits.shape[-1] - 1)
    losses, real = smoothed(logits, targets, smoothing, pad, spread=spread, keep=1 - smoothing - spread)
    return losses[real].mean()


@rubric.mistake(
    "smoothed_loss", "Your target sums to less than 1: the right token has 1 − ε *and* its share ε / V of the rest."
)
def target_without_its_share(logits, targets, smoothing, pad):
    keep = 1 - smoothing - smoothing / logits.shape[-1]
    losses, real = smoothed(logits, targets, smoothing, pad, keep=keep)
    return losses[real].mean()


@rubric.mistake("smoothed_loss", "The uniform part is a mean over the vocabulary: divide the sum of the log p by V.")
def undivided(logits, targets, smoothing, pad):
    losses, real = smoothed(logits, targets, smoothing, pad, spread=smoothing)
    return losses[real].mean()


@rubric.mistake("smoothed_loss", "ε and 1 − ε have changed places: most of the weight stays on the right token.")
def swapped(logits, targets, smoothing, pad):
    return smoothed_loss(logits, targets, 1 - smoothing, pad)


@rubric.mistake("smoothed_loss", "Padding is counted: leave out the positions where targets == pad.")
def counts_padding(logits, targets, smoothing, pad):
    return smoothed(logits, targets, smoothing, pad)[0].mean()


@rubric.mistake(
    "smoothed_loss",
    "You leave padding out of the sum and then divide by all B·T positions. Divide by those that count.",
)
def divides_by_all(logits, targets, smoothing, pad):
    losses, real = smoothed(logits, targets, smoothing, pad)
    return losses[real].sum() / targets.numel()


@rubric.mistake(
    "smoothed_loss", "You average sentence by sentence. Take the mean over all positions that count, all rows together."
)
def sentence_by_sentence(logits, targets, smoothing, pad):
    losses, real = smoothed(logits, targets, smoothing, pad)
    return ((losses * real).sum(1) / real.sum(1)).mean()


@rubric.mistake("smoothed_loss", "That is the sum. Divide it by the number of positions that count.")
def summed(logits, targets, smoothing, pad):
    losses, real = smoothed(logits, targets, smoothing, pad)
    return losses[real].sum()


@rubric.mistake("smoothed_loss", "Logits are no log-probabilities yet: log_softmax over the last axis comes first.")
def of_logits(logits, targets, smoothing, pad):
    right = logits.gather(-1, targets[..., None]).squeeze(-1)
    losses = -(1 - smoothing) * right - smoothing * logits.mean(-1)
    return losses[targets != pad].mean()


@rubric.mistake(
    "smoothed_loss",
    "You give the pad token no share of ε. Some implementations do that; here all V tokens share alike, as in PyTorch.",
)
def no_share_for_pad(logits, targets, smoothing, pad):
    logs, vocab_size = logits.log_softmax(-1), logits.shape[-1]
    aims = torch.full_like(logs, smoothing / vocab_size) + (1 - smoothing) * F.one_hot(targets, vocab_size)
    aims[..., pad] = 0
    return -(aims * logs).sum(-1)[targets != pad].mean()


def batch_with_padding(rng, lengths, vocab_size, pad):
    width = max(lengths)
    targets = (pad + draw_ids(rng, 1, vocab_size, len(lengths), width)) % vocab_size  # never the pad token
    real = torch.arange(width) < torch.tensor(lengths)[:, None]
    return 2 * draw(rng, len(lengths), width, vocab_size), targets.where(real, torch.tensor(pad))


@rubric.test(
    "smoothing", points=2, visible=True, hint="(1 − ε) · (−log p(right)) + ε · mean over the vocabulary of −log p."
)
def loss_is_smoothed(submission, rng):
    logits, targets = batch_with_padding(rng, [6, 6, 6], 7, pad=0)
    for smoothing in (0.1, 0.3, 0.0):
        losses = submission.smoothed_loss, rubric.solution.smoothed_loss
        got, want = (loss.gradients(logits, targets, smoothing, 0) for loss in losses)
        assert_close(got, want, what=f"the loss with ε = {smoothing}")


@rubric.test(
    "smoothing", points=1, visible=True, hint="Average over the positions that are not padding, all rows together."
)
def padding_does_not_count(submission, rng):
    for pad in (0, 4):
        logits, targets = batch_with_padding(rng, [6, 2, 3], 5, pad)
        got, want = (f(logits, targets, 0.2, pad) for f in (submission.smoothed_loss, smoothed_loss))
        assert_close(got, want, what=f"the loss of padded targets, pad = {pad}")


@rubric.test(
    "smoothing", points=1, visible=False, topic="gradients", hint="Look at the gradient, and at very large logits."
)
def loss_has_its_gradient(submission, rng):
    logits, targets = batch_with_padding(rng, [4, 1, 7, 2], 6, pad=3)
    got = submission.smoothed_loss.gradients(logits, targets, 0.15, 3)
    assert_close(got, rubric.solution.smoothed_loss.gradients(logits, targets, 0.15, 3), rtol=1e-3, atol=1e-5)
    got, want = (f(100 * logits, targets, 0.15, 3) for f in (submission.smoothed_loss, smoothed_loss))
    assert_close(got, want, what="the loss of large logits", rtol=1e-3)


# 3. The encoder block


def split(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)  # (B, H, T, Dh)


def merge(x):
    return x.transpose(1, 2).flatten(2)  # (B, T, D)


@rubric.reference
def attend(query, key, value, num_heads, mask=None):
    return merge(dot_product_attention(*(split(x, num_heads) for x in (query, key, value)), mask))


@rubric.mistake("attend", "You attend in one wide head: split into heads before the softmax, merge after it.")
def one_wide_head(query, key, value, num_heads, mask=None):
    mask = mask if mask is None or mask.dim() < 4 else mask[:, 0]
    return dot_product_attention(query, key, value, mask)


@rubric.mistake("attend", "You scale by the width of the model. A head's keys are only Dh = D / num_heads wide.")
def scaled_by_model_width(query, key, value, num_heads, mask=None):
    heads = (split(x, num_heads) for x in (query, key, value))
    return merge(dot_product_attention(*heads, mask, scale=query.shape[-1] ** -0.5))


@rubric.mistake("attend", "You never use the mask.")
def ignores_the_mask(query, key, value, num_heads, mask=None):
    return attend(query, key, value, num_heads)


@rubric.mistake("attend", "The mask is upside down: True means *may attend*, so fill where it is False.")
def mask_upside_down(query, key, value, num_heads, mask=None):
    heads = [split(x, num_heads) for x in (query, key, value)]
    return merge(dot_product_attention(*heads, None if mask is None else ~mask))


@rubric.mistake(
    "attend", "Right shape, scrambled numbers: to merge, transpose back to (B, T, H, Dh) before you flatten."
)
def merged_without_transposing(query, key, value, num_heads, mask=None):
    heads = dot_product_attention(*(split(x, num_heads) for x in (query, key, value)), mask)
    return heads.reshape(query.shape)  # (B, T, D)


@rubric.mistake(
    "attend",
    "A head is made of *neighbouring* features: unflatten D to (H, Dh), in this order. Yours takes every H-th.",
)
def heads_of_strided_features(query, key, value, num_heads, mask=None):
    heads = (x.unflatten(-1, (-1, num_heads)).permute(0, 3, 1, 2) for x in (query, key, value))  # (B, H, T, Dh)
    return dot_product_attention(*heads, mask).permute(0, 2, 3, 1).flatten(2)  # (B, T, D)


@rubric.mistake(
    "attend",
    "You multiply by the mask after the softmax, so the weights that are left no longer sum to 1. Fill the *scores* "
    "with −∞ before it.",
)
def masks_after_the_softmax(query, key, value, num_heads, mask=None):
    heads = [split(x, num_heads) for x in (query, key, value)]
    _, weights = dot_product_attention(*heads, need_weights=True)
    return merge((weights if mask is None else weights * mask) @ heads[2])


@rubric.mistake(
    "attend", "You use the first head's mask for all. It broadcasts to (B, H, Tq, Tk): each head may have its own."
)
def one_mask_for_all_heads(query, key, value, num_heads, mask=None):
    return attend(query, key, value, num_heads, mask[:, :1] if mask is not None and mask.dim() == 4 else mask)


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


@rubric.mistake(
    "EncoderBlock",
    "This is post-norm, the wiring of 2017: norm(x + f(x)). Here the block is pre-norm: x + f(norm(x)).",
)
class PostNormBlock(EncoderBlock):
    def forward(self, x, mask=None):
        x = self.norm1(x + self.mix(x, mask))
        return self.norm2(x + self.think(x))


@rubric.mistake("EncoderBlock", "There is no residual connection: add each sublayer's output to what went into it.")
class WithoutResiduals(EncoderBlock):
    def forward(self, x, mask=None):
        return self.think(self.norm2(self.mix(self.norm1(x), mask)))


@rubric.mistake(
    "EncoderBlock",
    "You add the *normalised* x. The stream itself stays as it is: x + f(norm(x)), with the plain x in front.",
)
class AddsTheNormalised(EncoderBlock):
    def forward(self, x, mask=None):
        x = self.norm1(x)
        x = self.norm2(x + self.mix(x, mask))
        return x + self.think(x)


@rubric.mistake(
    "EncoderBlock",
    "Around attention you add the *normalised* x. The stream itself stays as it is: x + f(norm1(x)).",
)
class AddsTheFirstNormalised(EncoderBlock):
    def forward(self, x, mask=None):
        x = self.norm1(x)
        x = x + self.mix(x, mask)
        return x + self.think(self.norm2(x))


@rubric.mistake(
    "EncoderBlock",
    "Around the feed-forward net you add the *normalised* x. The stream itself stays as it is: x + f(norm2(x)).",
)
class AddsTheSecondNormalised(EncoderBlock):
    def forward(self, x, mask=None):
        x = self.norm2(x + self.mix(self.norm1(x), mask))
        return x + self.think(x)


@rubric.mistake("EncoderBlock", "The second residual is missing: the feed-forward net's output is added to its input.")
class OneResidual(EncoderBlock):
    def forward(self, x, mask=None):
        x = x + self.mix(self.norm1(x), mask)
        return self.think(self.norm2(x))


@rubric.mistake("EncoderBlock", "No norms in sight: each sublayer reads a normalised x.")
class WithoutNorms(EncoderBlock):
    def forward(self, x, mask=None):
        x = x + self.mix(x, mask)
        return x + self.think(x)


@rubric.mistake("EncoderBlock", "You use norm1 twice. The feed-forward net has a norm of its own, norm2.")
class OneNorm(EncoderBlock):
    def forward(self, x, mask=None):
        x = x + self.mix(self.norm1(x), mask)
        return x + self.think(self.norm1(x))


@rubric.mistake("EncoderBlock", "The two norms have changed places: norm1 stands before attention.")
class NormsSwapped(EncoderBlock):
    def forward(self, x, mask=None):
        x = x + self.mix(self.norm2(x), mask)
        return x + self.think(self.norm1(x))


@rubric.mistake("EncoderBlock", "Between expand and contract stands a GELU; you have a ReLU, as the paper of 2017 has.")
class WithReLU(EncoderBlock):
    def think(self, x):
        return self.contract(torch.relu(self.expand(x)))


@rubric.mistake("EncoderBlock", "This is the tanh approximation of GELU. Take F.gelu as it comes.")
class WithTanhGELU(EncoderBlock):
    def think(self, x):
        return self.contract(F.gelu(self.expand(x), approximate="tanh"))


@rubric.mistake("EncoderBlock", "Without a GELU between them, expand and contract are one linear map.")
class WithoutActivation(EncoderBlock):
    def think(self, x):
        return self.contract(self.expand(x))


@rubric.mistake("EncoderBlock", "The heads are never mixed: `output` comes after attend.")
class WithoutOutput(EncoderBlock):
    def mix(self, x, mask):
        return attend(self.query(x), self.key(x), self.value(x), self.num_heads, mask)


@rubric.mistake("EncoderBlock", "The block takes a mask and does not pass it on to attend.")
class ForgetsMask(EncoderBlock):
    def mix(self, x, mask):
        return super().mix(x, None)


@rubric.mistake("EncoderBlock", "Both sublayers read the same x. The feed-forward net reads what attention has left.")
class InParallel(EncoderBlock):
    def forward(self, x, mask=None):
        return x + self.mix(self.norm1(x), mask) + self.think(self.norm2(x))


def weights_of(rng, make, d_model, d_ff):
    """Random weights for every parameter; gains and biases of the norms too, so that no two norms are alike."""
    return {
        name: draw(rng, *parameter.shape) / (1 if "norm" in name else math.sqrt(parameter.shape[-1]))
        for name, parameter in make(d_model, 1, d_ff).state_dict().items()
    }


def blocks(submission, rng, name, d_model, num_heads, d_ff):
    """The student's block and the reference's, with the same weights."""
    state = weights_of(rng, rubric.references[name], d_model, d_ff)
    for source in (submission, rubric.solution):
        block = getattr(source, name)(d_model, num_heads, d_ff)
        block.load_state_dict(state)
        yield block


@rubric.test("encoder_block", points=1, visible=True, hint="Split into heads, softmax(QKᵀ / √Dh) V in each, merge.")
def attend_works_in_every_head(submission, rng):
    query, key, value = draw(rng, 2, 3, 12), draw(rng, 2, 5, 12), draw(rng, 2, 5, 12)
    assert_close(submission.attend(query, key, value, 3), attend(query, key, value, 3), what="attend(…, num_heads=3)")
    mask = padding_mask(torch.tensor([5, 2]), 5)[:, None]  # (B, 1, 1, Tk)
    got, want = (f(query, key, value, 2, mask) for f in (submission.attend, attend))
    assert_close(got, want, what="attend with a padding mask (B, 1, 1, Tk)")
    mask = torch.rand(2, 3, 3, 5, generator=rng) < 0.5
    mask[..., :1] |= ~mask.any(-1, keepdim=True)  # every query has some key that it may see
    got, want = (f(query, key, value, 3, mask) for f in (submission.attend, attend))
    assert_close(got, want, what="attend with a mask for every head (B, H, Tq, Tk)")


@rubric.test(
    "encoder_block",
    points=2,
    visible=True,
    hint="x + attention(norm1(x)), then x + feed_forward(norm2(x)).",
    needs=("attend",),
)
def encoder_block_is_wired_right(submission, rng):
    mine, reference = blocks(submission, rng, "EncoderBlock", 12, 3, 20)
    x = draw(rng, 2, 5, 12)
    assert_close(mine(x), reference(x), what="the block's output")


@rubric.test(
    "encoder_block",
    points=1,
    visible=True,
    hint="Masks of (T, T) and of (B, 1, 1, T) must both work.",
    needs=("attend",),
)
def encoder_block_takes_masks(submission, rng):
    mine, reference = blocks(submission, rng, "EncoderBlock", 12, 2, 16)
    x = draw(rng, 3, 5, 12)
    causal, padding = causal_mask(5), padding_mask(torch.tensor([5, 2, 4]), 5)[:, None]
    assert_close(mine(x, causal), reference(x, causal), what="the output under a causal mask (T, T)")
    assert_close(mine(x, mask=padding), reference(x, padding), what="the output under a padding mask (B, 1, 1, T)")


@rubric.test(
    "encoder_block",
    points=2,
    visible=False,
    topic="gradients",
    hint="Every weight must get its gradient: no .data, no numpy, no += on x.",
    needs=("attend",),
)
def encoder_block_learns_in_every_weight(submission, rng):
    mine, reference = blocks(submission, rng, "EncoderBlock", 20, 4, 12)
    x, upstream = draw(rng, 2, 6, 20), draw(rng, 2, 6, 20)
    mask = causal_mask(6) & padding_mask(torch.tensor([6, 3]), 6)[:, None]
    got, want = (block.gradients(x, mask, upstream=upstream) for block in (mine, reference))
    assert_close(got, want, rtol=1e-3, atol=1e-4)


# 4. The decoder block


class DecoderBlock(EncoderBlock):
    """The right block in small pieces, so that a mistake can change one."""

    def __init__(self, d_model, num_heads, d_ff):
        super().__init__(d_model, num_heads, d_ff)
        self.norm_cross = nn.LayerNorm(d_model)
        self.cross_query, self.cross_key = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.cross_value, self.cross_output = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.mix(self.norm1(x), mask)
        x = x + self.cross(self.norm_cross(x), memory, memory_mask)
        return x + self.think(self.norm2(x))

    def cross(self, x, memory, memory_mask):
        return self.read(x, memory, memory, memory_mask)

    def read(self, query, key, value, mask):
        q, k, v = self.cross_query(query), self.cross_key(key), self.cross_value(value)
        return self.cross_output(attend(q, k, v, self.num_heads, mask))


rubric.reference(DecoderBlock)


@rubric.mistake("DecoderBlock", "The keys and values of cross-attention come from the memory; yours come from x.")
class NeverReadsTheMemory(DecoderBlock):
    def cross(self, x, memory, memory_mask):
        return self.read(x, x, x, None)


@rubric.mistake("DecoderBlock", "The *values* come from the memory too: what the decoder takes home is the source.")
class ValuesOfItsOwn(DecoderBlock):
    def cross(self, x, memory, memory_mask):
        return self.read(x, memory, x, memory_mask)


@rubric.mistake(
    "DecoderBlock", "You normalise the memory with norm_cross. It comes as the encoder left it: use it as it is."
)
class NormalisesTheMemory(DecoderBlock):
    def cross(self, x, memory, memory_mask):
        memory = self.norm_cross(memory)
        return self.read(x, memory, memory, memory_mask)


@rubric.mistake("DecoderBlock", "Cross-attention comes second: first the target looks back over itself.")
class CrossFirst(DecoderBlock):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.cross(self.norm_cross(x), memory, memory_mask)
        x = x + self.mix(self.norm1(x), mask)
        return x + self.think(self.norm2(x))


@rubric.mistake("DecoderBlock", "Cross-attention has no residual connection: add its output to x, do not replace x.")
class CrossWithoutResidual(DecoderBlock):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.mix(self.norm1(x), mask)
        x = self.cross(self.norm_cross(x), memory, memory_mask)
        return x + self.think(self.norm2(x))


@rubric.mistake("DecoderBlock", "This is post-norm. The decoder block here is pre-norm in all three sublayers.")
class PostNormDecoder(DecoderBlock):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm1(x + self.mix(x, mask))
        x = self.norm_cross(x + self.cross(x, memory, memory_mask))
        return self.norm2(x + self.think(x))


@rubric.mistake("DecoderBlock", "The feed-forward net is missing: it comes third.")
class NeverThinks(DecoderBlock):
    def think(self, x):
        return torch.zeros_like(x)


@rubric.mistake("DecoderBlock", "Self-attention does not get its mask, so the target can look ahead.")
class LooksAhead(DecoderBlock):
    def mix(self, x, mask):
        return super().mix(x, None)


@rubric.mistake("DecoderBlock", "Cross-attention does not get memory_mask, so the decoder reads the source's padding.")
class ReadsPadding(DecoderBlock):
    def cross(self, x, memory, memory_mask):
        return super().cross(x, memory, None)


@rubric.mistake(
    "DecoderBlock", "Cross-attention has weights of its own: cross_query, cross_key, cross_value and cross_output."
)
class SharesTheProjections(DecoderBlock):
    def cross(self, x, memory, memory_mask):
        q, k, v = self.query(x), self.key(memory), self.value(memory)
        return self.output(attend(q, k, v, self.num_heads, memory_mask))


@rubric.mistake("DecoderBlock", "norm_cross is not used: normalise x before cross-attention reads it.")
class CrossWithoutNorm(DecoderBlock):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.mix(self.norm1(x), mask)
        x = x + self.cross(x, memory, memory_mask)
        return x + self.think(self.norm2(x))


@rubric.test(
    "decoder_block",
    points=2,
    visible=True,
    hint="Look back, look across, think; pre-norm each time.",
    needs=("attend",),
)
def decoder_block_is_wired_right(submission, rng):
    mine, reference = blocks(submission, rng, "DecoderBlock", 12, 3, 20)
    x, memory = draw(rng, 2, 4, 12), draw(rng, 2, 7, 12)
    assert_close(mine(x, memory), reference(x, memory), what="the block's output")


@rubric.test(
    "decoder_block",
    points=2,
    visible=True,
    hint="mask is for the target, memory_mask is for the source.",
    needs=("attend",),
)
def decoder_block_keeps_its_masks_apart(submission, rng):
    mine, reference = blocks(submission, rng, "DecoderBlock", 12, 2, 16)
    x, memory = (
        draw(rng, 2, 5, 12),
        draw(rng, 2, 5, 12),
    )  # as long as each other, so that a mask in the wrong place fits
    mask, memory_mask = causal_mask(5), padding_mask(torch.tensor([3, 5]), 5)[:, None]
    assert_close(mine(x, memory, mask), reference(x, memory, mask), what="the output under a causal mask")
    got, want = (block(x, memory, memory_mask=memory_mask) for block in (mine, reference))
    assert_close(got, want, what="the output with a padded source")
    got, want = (block(x, memory, mask, memory_mask) for block in (mine, reference))
    assert_close(got, want, what="the output under both masks")


@rubric.test(
    "decoder_block",
    points=2,
    visible=False,
    topic="gradients",
    hint="Every weight must get its gradient: no .data, no numpy, no += on x.",
    needs=("attend",),
)
def decoder_block_learns_in_every_weight(submission, rng):
    mine, reference = blocks(submission, rng, "DecoderBlock", 20, 5, 8)
    x, memory, upstream = draw(rng, 2, 3, 20), draw(rng, 2, 6, 20), draw(rng, 2, 3, 20)
    masks = causal_mask(3), padding_mask(torch.tensor([6, 2]), 6)[:, None]
    got, want = (block.gradients(x, memory, *masks, upstream=upstream) for block in (mine, reference))
    assert_close(got, want, rtol=1e-3, atol=1e-4)


# 5. Masked training equals step-wise decoding


def causal(x):
    return causal_mask(x.shape[1])


@rubric.reference
def parallel_outputs(block, x, memory):
    return block(x, memory, causal(x))


@rubric.reference
def stepwise_outputs(block, x, memory):
    prefixes = (x[:, : t + 1] for t in range(x.shape[1]))
    return torch.cat([block(prefix, memory, causal(prefix))[:, -1:] for prefix in prefixes], dim=1)  # (B, T, D)


@rubric.reference
def attention_step(query, key, value, cache):
    keys, values = key, value
    if cache is not None:
        keys, values = torch.cat([cache[0], key], dim=2), torch.cat([cache[1], value], dim=2)  # (B, H, t, Dh)
    return dot_product_attention(query, keys, values), (keys, values)


def influences(block, x, memory, mask, found):
    """`found(before, after)` says for each position whether the output changed; a column for each changed input."""
    before, columns = block(x, memory, mask), []
    for j in range(x.shape[1]):
        changed = x.clone()
        changed[:, j] = -2 * changed[:, j] + 1
        columns.append(found(before, block(changed, memory, mask)))
    return torch.stack(columns, dim=1)  # (T, T)


def any_change(before, after):
    return ((before - after).abs() > 1e-5).any(-1).any(0)  # (T,)


@rubric.reference
def influence(block, x, memory, mask):
    return influences(block, x, memory, mask, any_change)


@rubric.mistake("parallel_outputs", "Without a mask every position sees the whole target: pass the causal mask.")
def parallel_without_a_mask(block, x, memory):
    return block(x, memory, None)


@rubric.mistake("parallel_outputs", "Your triangle is the wrong way round: position i may see j ≤ i.")
def looks_only_ahead(block, x, memory):
    return block(x, memory, causal(x).mT)


@rubric.mistake("parallel_outputs", "A position must see itself too: j ≤ i, not j < i.")
def blind_to_itself(block, x, memory):
    return block(x, memory, causal(x).tril(-1))


@rubric.mistake("parallel_outputs", "Your mask holds numbers. Masks are boolean, True = may attend: .bool(), or ==.")
def mask_of_numbers(block, x, memory):
    return block(x, memory, causal(x).float())


@rubric.mistake(
    "stepwise_outputs",
    "Without the mask, earlier tokens look at later ones inside the prefix; from the second block on that shows. "
    "Mask the prefix as well.",
)
def prefix_without_a_mask(block, x, memory):
    return torch.cat([block(x[:, : t + 1], memory, None)[:, -1:] for t in range(x.shape[1])], dim=1)  # (B, T, D)


@rubric.mistake("stepwise_outputs", "At step t the newest token, x[:, t], must be in the prefix: x[:, : t + 1].")
def prefix_too_short(block, x, memory):
    prefixes = [x[:, : max(t, 1)] for t in range(x.shape[1])]
    return torch.cat([block(prefix, memory, causal(prefix))[:, -1:] for prefix in prefixes], dim=1)  # (B, T, D)


@rubric.mistake(
    "stepwise_outputs", "The tokens come one by one but forget each other: give the block all of the prefix."
)
def token_by_token(block, x, memory):
    return torch.cat([block(x[:, t : t + 1], memory, None) for t in range(x.shape[1])], dim=1)  # (B, T, D)


@rubric.mistake(
    "stepwise_outputs", "Keep the output of the *newest* position, the last of the prefix; you keep the first."
)
def keeps_the_first(block, x, memory):
    prefixes = (x[:, : t + 1] for t in range(x.shape[1]))
    return torch.cat([block(prefix, memory, causal(prefix))[:, :1] for prefix in prefixes], dim=1)  # (B, T, D)


@rubric.mistake("stepwise_outputs", "The memory is there from the start: every step gets all of it, only x is cut.")
def cuts_the_memory(block, x, memory):
    prefixes = (x[:, : t + 1] for t in range(x.shape[1]))
    outputs = [block(part, memory[:, : part.shape[1]], causal(part))[:, -1:] for part in prefixes]
    return torch.cat(outputs, dim=1)  # (B, T, D)


@rubric.mistake(
    "stepwise_outputs",
    "You append the block's *output* to the prefix. The next token is given: step t reads x[:, : t + 1].",
)
def reads_its_own_outputs(block, x, memory):
    prefix = x[:, :1]
    for _ in range(x.shape[1]):
        prefix = torch.cat([prefix, block(prefix, memory, causal(prefix))[:, -1:]], dim=1)  # (B, 1 + t, D)
    return prefix[:, 1:]


@rubric.mistake(
    "stepwise_outputs",
    "You give the block all of x and leave the future to its mask. Make T calls: call t gets x[:, : t + 1] alone.",
)
def all_at_once(block, x, memory):
    return parallel_outputs(block, x, memory)


@rubric.mistake("attention_step", "The new token must see itself: append its key and value before you attend.")
def appends_too_late(query, key, value, cache):
    _, after = attention_step(query, key, value, cache)
    keys, values = after if cache is None else cache
    return dot_product_attention(query, keys, values), after


@rubric.mistake(
    "attention_step",
    "is_causal=True takes your one query for the *first* of the text, so it sees the first key alone. All in the cache "
    "is past: no mask is needed.",
)
def takes_itself_for_the_first(query, key, value, cache):
    _, (keys, values) = attention_step(query, key, value, cache)
    return dot_product_attention(query, keys[:, :, :1], values[:, :, :1]), (keys, values)


@rubric.mistake("attention_step", "The cache forgets: return all keys and values so far, not the newest alone.")
def forgets(query, key, value, cache):
    return attention_step(query, key, value, cache)[0], (key, value)


@rubric.mistake("attention_step", "The values in your cache are out of step with the keys: append both.")
def caches_keys_alone(query, key, value, cache):
    keys = key if cache is None else torch.cat([cache[0], key], dim=2)  # (B, H, t, Dh)
    values = value.expand_as(keys)
    return dot_product_attention(query, keys, values), (keys, values)


@rubric.mistake(
    "attention_step", "You put the newest key in front. The order inside the cache is the order of the text: append."
)
def prepends(query, key, value, cache):
    out, (keys, values) = attention_step(query, key, value, cache)
    if cache is not None:
        keys, values = torch.cat([key, cache[0]], dim=2), torch.cat([value, cache[1]], dim=2)  # (B, H, t, Dh)
    return out, (keys, values)


@rubric.mistake("attention_step", "The scores are not scaled: divide them by √Dh.")
def unscaled_step(query, key, value, cache):
    _, (keys, values) = attention_step(query, key, value, cache)
    return dot_product_attention(query, keys, values, scale=1.0), (keys, values)


@rubric.mistake("influence", "Your matrix is transposed: row i is an output, column j an input.")
def transposed(block, x, memory, mask):
    return influence(block, x, memory, mask).mT


@rubric.mistake("influence", "You return how much changes. Asked is *whether*: a boolean matrix.")
def sizes_of_changes(block, x, memory, mask):
    return influences(block, x, memory, mask, lambda before, after: (before - after).abs().amax((0, 2)))


@rubric.mistake("influence", "You never pass the mask on, so everything seems to influence everything.")
def influence_without_the_mask(block, x, memory, mask):
    return influence(block, x, memory, None)


@rubric.mistake(
    "influence",
    "You add the same number to every feature. Layer norm takes the mean away again, so attention never notices. "
    "Change the features differently, by random numbers for example.",
)
def changes_only_the_mean(block, x, memory, mask):
    before = block(x, memory, mask)
    shifts = torch.eye(x.shape[1])[:, None, :, None]  # (T, 1, T, 1)
    return torch.stack([any_change(before, block(x + shift, memory, mask)) for shift in shifts], dim=1)  # (T, T)


@rubric.given
class Stack:
    """Layers that look back and across, one after the other, with random weights: what the tests pass as `block`."""

    def __init__(self, rng, depth, d_model=8):
        self.weights = draw(rng, depth, 3, d_model, d_model) / math.sqrt(d_model)

    def run(self, x, memory, mask=None, memory_mask=None):
        for back, across, out in self.weights:
            seen = self.norm(x)
            x = x + F.scaled_dot_product_attention(seen @ back, seen, seen, attn_mask=mask)
            x = x + F.scaled_dot_product_attention(self.norm(x) @ across, memory, memory, attn_mask=memory_mask)
            x = x + (self.norm(x) @ out).tanh()
        return x

    def unmasked(self, x, memory, mask=None, memory_mask=None):
        return self.run(x, memory, None, memory_mask)

    def norm(self, x):
        return F.layer_norm(x, x.shape[-1:])


def window(length, width):
    near = torch.arange(length) - torch.arange(length)[:, None]
    return (near <= 0) & (near > -width)  # (T, T)


@rubric.test("stepwise", points=1, visible=True, hint="One call of the block, with the mask that hides the future.")
def parallel_is_one_masked_call(submission, rng):
    for depth in (1, 2):
        stack, x, memory = Stack(rng, depth), draw(rng, 2, 5, 8), draw(rng, 2, 3, 8)
        got, want = submission.parallel_outputs(stack.run, x, memory), parallel_outputs(stack.run, x, memory)
        assert_close(got, want, what=f"the outputs of {depth} block(s)")


@rubric.test(
    "stepwise",
    points=2,
    visible=True,
    hint="Step t reads x[:, : t + 1] and keeps the newest output.",
    needs=("parallel_outputs",),
)
def stepwise_equals_parallel(submission, rng):
    for depth in (1, 3):
        stack, x, memory = Stack(rng, depth), draw(rng, 2, 5, 8), draw(rng, 2, 4, 8)
        got, want = submission.stepwise_outputs(stack.run, x, memory), parallel_outputs(stack.run, x, memory)
        assert_close(got, want, what=f"word by word, {depth} block(s)", atol=1e-4)
    got, want = (f(stack.unmasked, x, memory) for f in (submission.stepwise_outputs, stepwise_outputs))
    assert_close(got, want, what="word by word, through blocks that ignore their mask", atol=1e-4)


@rubric.test(
    "stepwise", points=2, visible=True, hint="Append the new key and value, attend to all, return the longer cache."
)
def cached_steps_equal_the_masked_whole(submission, rng):
    query, key, value = (draw(rng, 2, 3, 6, 4) for _ in range(3))
    want = dot_product_attention(query, key, value, causal_mask(6))
    for t in (3, *range(6)):  # once from the middle of a text, then all of it
        cache = (key[:, :, :t], value[:, :, :t]) if t else None
        now = slice(t, t + 1)
        got = submission.attention_step(query[:, :, now], key[:, :, now], value[:, :, now], cache)
        right = want[:, :, now], (key[:, :, : t + 1], value[:, :, : t + 1])
        assert_close(got, right, what=(f"the output of step {t}", f"the cache after step {t}"))


@rubric.test("stepwise", points=1, visible=True, hint="Change input j, see which outputs change.")
def influence_of_one_block(submission, rng):
    stack, x, memory = Stack(rng, 1), draw(rng, 2, 5, 8), draw(rng, 2, 3, 8)
    for mask in (causal_mask(5), window(5, 2)):
        got = submission.influence(stack.run, x, memory, mask)
        assert_close(got, mask, what="which input reaches which output, through one block")


@rubric.test(
    "stepwise",
    points=1,
    visible=False,
    topic="deeper stacks",
    hint="Two blocks with a window of two reach two places back.",
    needs=("parallel_outputs",),
)
def influence_grows_with_depth(submission, rng):
    x, memory = draw(rng, 2, 6, 8), draw(rng, 2, 3, 8)
    for depth, mask, want in ((2, window(6, 2), window(6, 3)), (2, causal_mask(6), causal_mask(6)), (1, None, None)):
        got = submission.influence(Stack(rng, depth).run, x, memory, mask)
        want = torch.ones(6, 6, dtype=torch.bool) if want is None else want
        assert_close(got, want, what=f"which input reaches which output, through {depth} block(s)")
    stack = Stack(rng, 2)
    got, want = submission.stepwise_outputs(stack.run, x, memory), stepwise_outputs(stack.run, x, memory)
    assert_close(got, want, what="word by word, two blocks", atol=1e-4)
