"""Exercise set 04, encoder and decoder: what is asked, how it is tested, and the mistakes it can name."""

import math
from collections import Counter

import torch
import torch.nn.functional as F

from lecturelib.evaluation import bleu as corpus_bleu
from lecturelib.grading import Rubric, assert_close, draw, draw_ids
from lecturelib.tokens.batches import pad

rubric = Rubric("04_encoder_decoder", title="Encoder and decoder")
rubric.exercise(
    "shift",
    title="Shift the targets for teacher forcing",
    minutes=10,
    difficulty=1,
    defines=("shift_targets", "teacher_forced_loss"),
)
rubric.exercise(
    "greedy", title="Greedy decoding with an end symbol", minutes=15, difficulty=2, defines=("greedy_decode",)
)
rubric.exercise(
    "bleu", title="BLEU with its brevity penalty", minutes=25, difficulty=3, defines=("clipped_matches", "bleu")
)
rubric.exercise("beam", title="Beam search", minutes=40, difficulty=4, defines=("beam_search",))

PAD, BOS, EOS = 0, 1, 2


def draw_targets(rng, lengths, vocab_size=9):
    return [draw_ids(rng, 3, vocab_size, length).tolist() for length in lengths]


# 1. Shifted targets


def shifted(targets, before, after, bos_id, eos_id, pad_id):
    """Rows with bos or eos put before or after, as the two flags say, padded, and their lengths."""
    start, end = [bos_id] if before else [], [eos_id] if after else []
    return pad([[*start, *target, *end] for target in targets], pad_id=pad_id)


@rubric.reference
def shift_targets(targets, bos_id, eos_id, pad_id):
    target_in, lengths = shifted(targets, True, False, bos_id, eos_id, pad_id)
    target_out, _ = shifted(targets, False, True, bos_id, eos_id, pad_id)
    return target_in, target_out, torch.arange(target_in.shape[1]) < lengths[:, None]


@rubric.reference
def teacher_forced_loss(logits, target_out, mask):
    return F.cross_entropy(logits[mask], target_out[mask])


@rubric.mistake(
    "shift_targets",
    "Your decoder reads the token that it should predict. Put bos in front of `target_in`: it lags one step behind.",
)
def not_shifted(targets, bos_id, eos_id, pad_id):
    _, target_out, mask = shift_targets(targets, bos_id, eos_id, pad_id)
    return target_out, target_out, mask


@rubric.mistake(
    "shift_targets", "The end symbol belongs to `target_out` alone: after it nothing is predicted, so nobody reads it."
)
def bos_and_eos_in_both(targets, bos_id, eos_id, pad_id):
    both, lengths = shifted(targets, True, True, bos_id, eos_id, pad_id)
    return both, both, torch.arange(both.shape[1]) < lengths[:, None]


@rubric.mistake(
    "shift_targets",
    "`target_out` begins with bos. Nobody has to predict the start; it begins with the first token of the target.",
)
def bos_in_the_output(targets, bos_id, eos_id, pad_id):
    target_in, _, mask = shift_targets(targets, bos_id, eos_id, pad_id)
    return target_in, target_in, mask


@rubric.mistake(
    "shift_targets", "Your decoder never learns to stop: `target_out` needs the end symbol after the last token."
)
def never_ends(targets, bos_id, eos_id, pad_id):
    target_in, target_out, mask = shift_targets(targets, bos_id, eos_id, pad_id)
    return target_in, target_out.masked_fill(target_out == eos_id, pad_id), mask


@rubric.mistake(
    "shift_targets", "The mask leaves out the end symbol. It has to be learned too, so it counts: len(target) + 1."
)
def mask_without_end(targets, bos_id, eos_id, pad_id):
    target_in, target_out, mask = shift_targets(targets, bos_id, eos_id, pad_id)
    return target_in, target_out, mask & (target_out != eos_id)


@rubric.mistake(
    "shift_targets", "You find padding by its id. A target may hold that id as a real token: count with the lengths."
)
def mask_by_id(targets, bos_id, eos_id, pad_id):
    target_in, target_out, _ = shift_targets(targets, bos_id, eos_id, pad_id)
    return target_in, target_out, target_out != pad_id


@rubric.mistake("shift_targets", "Your mask is True on the padding. True means that a position *counts*.")
def mask_of_padding(targets, bos_id, eos_id, pad_id):
    target_in, target_out, mask = shift_targets(targets, bos_id, eos_id, pad_id)
    return target_in, target_out, ~mask


@rubric.mistake("shift_targets", "You return them the wrong way round: what is read first, then what is predicted.")
def swapped(targets, bos_id, eos_id, pad_id):
    target_in, target_out, mask = shift_targets(targets, bos_id, eos_id, pad_id)
    return target_out, target_in, mask


@rubric.mistake(
    "teacher_forced_loss", "You average over the padding too. Keep the positions where the mask is True, then average."
)
def loss_with_padding(logits, target_out, mask):
    return F.cross_entropy(logits.flatten(0, 1), target_out.flatten())


@rubric.mistake(
    "teacher_forced_loss", "You leave out the tokens with id 0. Which positions count is in the mask, and nowhere else."
)
def ignores_zeros(logits, target_out, mask):
    return F.cross_entropy(logits.flatten(0, 1), target_out.flatten(), ignore_index=0)


def token_losses(logits, target_out):
    return F.cross_entropy(logits.mT, target_out, reduction="none")  # (B, T)


@rubric.mistake(
    "teacher_forced_loss",
    "The padding adds nothing to your sum, but you still divide by it: divide by mask.sum().",
)
def divided_by_everything(logits, target_out, mask):
    return (token_losses(logits, target_out) * mask).mean()


@rubric.mistake("teacher_forced_loss", "That is the sum. Divide by the number of positions that count, mask.sum().")
def summed_loss(logits, target_out, mask):
    return (token_losses(logits, target_out) * mask).sum()


@rubric.mistake(
    "teacher_forced_loss",
    "A mean of rows' means gives a token in a short row more weight. Average over all tokens at once.",
)
def mean_of_means(logits, target_out, mask):
    return ((token_losses(logits, target_out) * mask).sum(1) / mask.sum(1)).mean()


@rubric.test(
    "shift", points=1, visible=True, hint="bos in front of what is read, eos after what is predicted, then pad."
)
def targets_are_shifted(submission, rng):
    targets = draw_targets(rng, (2, 4, 1))
    got, want = submission.shift_targets(targets, BOS, EOS, PAD), shift_targets(targets, BOS, EOS, PAD)
    assert_close(got, want, what=("target_in", "target_out", "mask"))


@rubric.test("shift", points=1, visible=True, hint="The mean of −log p(token) over the positions that count.")
def loss_is_the_mean_over_real_tokens(submission, rng):
    _, target_out, mask = shift_targets(draw_targets(rng, (2, 5, 1)), BOS, EOS, PAD)
    logits = 3 * draw(rng, 3, 6, 9)
    got, want = (
        source.teacher_forced_loss.gradients(logits, target_out, mask) for source in (submission, rubric.solution)
    )
    assert_close(got, want, what="the loss")


@rubric.test(
    "shift",
    points=1,
    visible=False,
    topic="other special ids",
    hint="Other ids for the special symbols, and an empty target.",
)
def targets_are_shifted_with_other_ids(submission, rng):
    targets = [draw_ids(rng, 0, 5, length).tolist() for length in (3, 0, 5)]
    got, want = submission.shift_targets(targets, 7, 5, 6), shift_targets(targets, 7, 5, 6)
    assert_close(list(got), list(want), what="target_in, target_out, mask")
    for eos in (5, 0):  # padding with an id that is a token's too, or the end's
        got, want = submission.shift_targets([[4, 0, 3], [0]], 7, eos, 0), shift_targets([[4, 0, 3], [0]], 7, eos, 0)
        assert_close(list(got), list(want), what="target_in, target_out, mask")


@rubric.test(
    "shift", points=1, visible=False, topic="gradients", hint="The loss must have a gradient, and none on the padding."
)
def loss_has_its_gradient(submission, rng):
    _, target_out, mask = shift_targets(draw_targets(rng, (4, 1)), BOS, EOS, PAD)
    logits = draw(rng, 2, 5, 9)
    got, want = (
        source.teacher_forced_loss.gradients(logits, target_out, mask) for source in (submission, rubric.solution)
    )
    assert_close(got, want)
    target_out[0, 2] = 0  # a real token
    got, want = (loss(logits, target_out, mask) for loss in (submission.teacher_forced_loss, teacher_forced_loss))
    assert_close(got, want, what="the loss where token 0 is a real one")


# 2. Greedy decoding


@rubric.given
class Speakers:
    """A next-token model for tests: row b ends at step ends[b], and would go on talking after its end."""

    def __init__(self, rng, ends, vocab_size=8, ids=(PAD, BOS, EOS)):
        self.ends, (self.pad, self.bos, self.eos) = torch.tensor(ends), ids
        self.first, self.second = 2 * draw(rng, len(ends), vocab_size, vocab_size), draw(rng, vocab_size, vocab_size)

    def __call__(self, prefix):
        rows, step = torch.arange(len(prefix)), prefix.shape[1]  # step tokens are there, bos among them
        seen = F.one_hot(prefix, self.second.shape[0]).float().sum(1)  # (B, V) counts of everything so far
        logits = self.first[rows, prefix[:, -1]] + seen @ self.second  # (B, V)
        logits[:, [self.pad, self.bos]] = -50.0
        logits[:, self.eos] = torch.where(self.ends == step, 50.0, -50.0)
        return logits.log_softmax(-1)


def greedy(next_log_probs, batch_size, max_len, choose, *, eos_id=EOS, pad_id=PAD, bos_id=BOS, stop=torch.all):
    prefix, ended = torch.full((batch_size, 1), bos_id), torch.zeros(batch_size, dtype=torch.bool)
    for _ in range(max_len):
        token = choose(next_log_probs(prefix))  # (B,)
        token = token if pad_id is None else token.where(~ended, pad_id)
        prefix, ended = torch.cat([prefix, token[:, None]], dim=1), ended | (token == eos_id)
        if stop(ended):
            break
    return prefix[:, 1:]  # (B, T)


def likeliest(log_probs):
    return log_probs.argmax(-1)


@rubric.reference
def greedy_decode(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    return greedy(next_log_probs, batch_size, max_len, likeliest, eos_id=eos_id, pad_id=pad_id, bos_id=bos_id)


@rubric.mistake(
    "greedy_decode", "Your rows talk on after their end symbol. Remember which have ended, and give those pad_id."
)
def talks_on(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    return greedy(next_log_probs, batch_size, max_len, likeliest, eos_id=eos_id, pad_id=None, bos_id=bos_id)


@rubric.mistake("greedy_decode", "You repeat eos_id after the end of a row. One ends it; what follows is pad_id.")
def repeats_eos(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    return greedy(next_log_probs, batch_size, max_len, likeliest, eos_id=eos_id, pad_id=eos_id, bos_id=bos_id)


@rubric.mistake("greedy_decode", "You stop at the first end symbol of any row. Go on until *every* row has ended.")
def stops_with_the_first(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    named = {"eos_id": eos_id, "pad_id": pad_id, "bos_id": bos_id}
    return greedy(next_log_probs, batch_size, max_len, likeliest, stop=torch.any, **named)


@rubric.mistake("greedy_decode", "You never stop early: all rows have ended, and you go on to max_len with padding.")
def never_stops(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    named = {"eos_id": eos_id, "pad_id": pad_id, "bos_id": bos_id}
    return greedy(next_log_probs, batch_size, max_len, likeliest, stop=lambda ended: False, **named)


@rubric.mistake("greedy_decode", "bos was given, not chosen: leave it out of what you return.")
def keeps_bos(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    ids = greedy_decode(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len)
    return torch.cat([ids.new_full((batch_size, 1), bos_id), ids], dim=1)


@rubric.mistake("greedy_decode", "The end symbol is missing: a row ends *with* eos_id, and padding follows.")
def drops_eos(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    ids = greedy_decode(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len)
    return ids.masked_fill(ids == eos_id, pad_id)


@rubric.mistake("greedy_decode", "You show the model only the newest token. It wants everything since bos: (B, t).")
def feeds_only_the_last(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    def forgetful(prefix):
        return next_log_probs(prefix[:, -1:])

    return greedy_decode(forgetful, batch_size, bos_id, eos_id, pad_id, max_len)


@rubric.mistake("greedy_decode", "Greedy means the *likeliest* token, argmax. You draw one at random.")
def draws_at_random(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    def chance(log_probs):
        return torch.multinomial(log_probs.exp(), 1).squeeze(1)

    return greedy(next_log_probs, batch_size, max_len, chance, eos_id=eos_id, pad_id=pad_id, bos_id=bos_id)


def assert_decodes(submission, model, max_len):
    count = len(model.ends)
    asked = model, count, model.bos, model.eos, model.pad, max_len
    assert_close(submission.greedy_decode(*asked), greedy_decode(*asked), what="the ids")


def shuffled(rng, ends):
    return [ends[place] for place in torch.randperm(len(ends), generator=rng).tolist()]


@rubric.test("greedy", points=1, visible=True, hint="Choose, append, ask again; stop when every row has ended.")
def rows_end_one_by_one(submission, rng):
    assert_decodes(submission, Speakers(rng, shuffled(rng, [2, 4, 7])), max_len=11)


@rubric.test("greedy", points=1, visible=True, hint="A row that never ends is cut off after max_len tokens.")
def stops_at_max_len(submission, rng):
    assert_decodes(submission, Speakers(rng, shuffled(rng, [1, 3, 99])), max_len=5)


@rubric.test(
    "greedy",
    points=1,
    visible=False,
    topic="other batches, ids",
    hint="One row alone, a batch in which all end at once, other special ids.",
)
def other_batches_end_too(submission, rng):
    assert_decodes(submission, Speakers(rng, [3]), max_len=8)
    assert_decodes(submission, Speakers(rng, shuffled(rng, [1, 3, 5]), ids=(4, 6, 3)), max_len=9)
    assert_decodes(submission, Speakers(rng, [1, 1, 1, 1]), max_len=6)
    assert_decodes(submission, Speakers(rng, shuffled(rng, [99, 2, 5, 99, 4])), max_len=7)


# 3. BLEU


def ngrams(words, n):
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def most(counters):
    joined = Counter()
    for counter in counters:
        joined |= counter
    return joined


@rubric.reference
def clipped_matches(candidate, references, n):
    grams = ngrams(candidate, n)
    return (grams & most(ngrams(reference, n) for reference in references)).total(), grams.total()


@rubric.reference
def bleu(candidates, references, max_order=4):
    most_references = max(len(choices) for choices in references)
    columns = [[choices[min(place, len(choices) - 1)] for choices in references] for place in range(most_references)]
    return corpus_bleu(candidates, *columns, max_order=max_order, smoothing="none").score


def closest(candidate, references):
    return min((abs(len(candidate) - len(reference)), len(reference)) for reference in references)[1]


def brevity_of(length, target):
    return min(1.0, math.exp(1 - target / length))


def bleu_of(candidates, references, max_order, *, count=clipped_matches, mean=None, brevity=None, wanted=closest):
    """BLEU in small pieces, so that a mistake can change one."""
    counts = [
        [
            sum(column)
            for column in zip(*(count(c, r, n) for c, r in zip(candidates, references, strict=True)), strict=True)
        ]
        for n in range(1, max_order + 1)
    ]
    if not all(match for match, _ in counts):
        return 0.0
    precisions = [match / total for match, total in counts]
    geometric = math.exp(sum(map(math.log, precisions)) / max_order)
    length = sum(map(len, candidates))
    target = sum(wanted(c, r) for c, r in zip(candidates, references, strict=True))
    penalty = brevity(length, target) if brevity else brevity_of(length, target)
    return 100 * penalty * (mean(precisions) if mean else geometric)


@rubric.mistake(
    "clipped_matches",
    "The second number leaves repeats out. All n-grams of the candidate count in it: len(candidate) − n + 1 of them.",
)
def counts_kinds(candidate, references, n):
    return clipped_matches(candidate, references, n)[0], len(ngrams(candidate, n))


@rubric.mistake(
    "clipped_matches",
    "You do not clip, so “the the the” would be perfect. A gram counts at most as often as a reference has it.",
)
def unclipped(candidate, references, n):
    grams = ngrams(candidate, n)
    known = most(ngrams(reference, n) for reference in references)
    return sum(count for gram, count in grams.items() if gram in known), grams.total()


@rubric.mistake(
    "clipped_matches",
    "You add the references up. The limit is the count in the *one* reference that has the gram most often.",
)
def clipped_by_the_sum(candidate, references, n):
    grams, total = ngrams(candidate, n), Counter()
    for reference in references:
        total += ngrams(reference, n)
    return (grams & total).total(), grams.total()


@rubric.mistake(
    "clipped_matches", "You count each different gram once. Two right “the” are two matches, if a reference has two."
)
def counted_once(candidate, references, n):
    grams = set(ngrams(candidate, n))
    return len(grams & set(most(ngrams(reference, n) for reference in references))), len(grams)


@rubric.mistake(
    "clipped_matches", "You divide by the reference's grams: that is recall. Precision counts the *candidate's* grams."
)
def recall(candidate, references, n):
    matches, _ = clipped_matches(candidate, references, n)
    return matches, ngrams(references[0], n).total()


@rubric.mistake("clipped_matches", "You compare only with the first reference; any of them may supply a gram.")
def first_reference_only(candidate, references, n):
    return clipped_matches(candidate, references[:1], n)


@rubric.mistake("clipped_matches", "A candidate shorter than n has no n-grams: 0 of them, and not fewer.")
def fewer_than_none(candidate, references, n):
    return clipped_matches(candidate, references, n)[0], len(candidate) - n + 1


@rubric.mistake("bleu", "The brevity penalty is missing: a candidate of one sure word would win.")
def without_brevity(candidates, references, max_order=4):
    return bleu_of(candidates, references, max_order, brevity=lambda length, target: 1.0)


@rubric.mistake("bleu", "Your penalty hits candidates that are too *long*. Precision already does; punish the short.")
def punishes_length(candidates, references, max_order=4):
    def brevity(length, target):
        return min(1.0, math.exp(1 - length / target))

    return bleu_of(candidates, references, max_order, brevity=brevity)


@rubric.mistake("bleu", "Your penalty also *rewards*: above the reference's length it is more than 1. Cut it at 1.")
def rewards_length(candidates, references, max_order=4):
    return bleu_of(candidates, references, max_order, brevity=lambda length, target: math.exp(1 - target / length))


@rubric.mistake("bleu", "You divide lengths without the exponential: the penalty is exp(1 − r / c).")
def ratio_penalty(candidates, references, max_order=4):
    return bleu_of(candidates, references, max_order, brevity=lambda length, target: min(1.0, length / target))


@rubric.mistake(
    "bleu", "That is the arithmetic mean of the precisions. BLEU takes the geometric one, exp(mean(log p))."
)
def arithmetic(candidates, references, max_order=4):
    return bleu_of(candidates, references, max_order, mean=lambda precisions: sum(precisions) / len(precisions))


@rubric.mistake(
    "bleu",
    "You take the brevity penalty sentence by sentence. Add the lengths up over the corpus; there is one penalty.",
)
def penalty_of_each_sentence(candidates, references, max_order=4):
    pairs = list(zip(candidates, references, strict=True))
    penalties = [brevity_of(len(c), closest(c, r)) for c, r in pairs]
    return bleu_of(candidates, references, max_order, brevity=lambda *_: sum(penalties) / len(penalties))


@rubric.mistake(
    "bleu",
    "You average sentences' scores. BLEU adds up matches, totals and lengths over the corpus, then divides once.",
)
def mean_of_sentences(candidates, references, max_order=4):
    scores = [bleu([c], [r], max_order) for c, r in zip(candidates, references, strict=True)]
    return sum(scores) / len(scores)


@rubric.mistake("bleu", "Take for each candidate the reference *closest* in length; you take the shortest.")
def shortest_reference(candidates, references, max_order=4):
    return bleu_of(candidates, references, max_order, wanted=lambda c, r: min(map(len, r)))


@rubric.mistake("bleu", "Of two references equally close in length the *shorter* counts; you take the longer.")
def longer_of_the_closest(candidates, references, max_order=4):
    def wanted(candidate, choices):
        return min(map(len, choices), key=lambda length: (abs(length - len(candidate)), -length))

    return bleu_of(candidates, references, max_order, wanted=wanted)


@rubric.mistake("bleu", "Right, but as a share: the answer is in percent, from 0 to 100.")
def as_a_share(candidates, references, max_order=4):
    return bleu(candidates, references, max_order) / 100


WORDS = ["the", "cat", "dog", "sat", "ran", "on", "mat", "by", "a", "river", "bank", "and", "saw", "it"]


def sentence(rng, length):
    """Random words, never “the”: that one is put where it is wanted."""
    return [WORDS[index] for index in draw_ids(rng, 1, len(WORDS), length).tolist()]


def corpus(rng, lengths, *, cut=0, added=0, others=()):
    """Candidates that are damaged copies of their first reference; further references differ in length by `others`."""
    candidates, references = [], []
    for length in lengths:
        first = ["the", "the", *sentence(rng, length - 2)]
        damaged = [*first[: length - cut], *sentence(rng, added)]
        damaged[int(draw_ids(rng, 5, length - cut, 1))] = "moon"
        candidates.append(damaged)
        references.append([first, *(sentence(rng, length + offset) for offset in others)])
    return candidates, references


def assert_counts(submission, candidate, references):
    for n in (1, 2, 3):
        got, want = submission.clipped_matches(candidate, references, n), clipped_matches(candidate, references, n)
        assert_close(got, want, what=(f"the matches for n = {n}", f"the candidate's n-grams for n = {n}"))


@rubric.test(
    "bleu", points=1, visible=True, hint="Two numbers: the matches, clipped, and how many n-grams the candidate has."
)
def matches_are_clipped(submission, rng):
    candidate = ["the", "the", "the", "the", *sentence(rng, 4), "moon"]
    references = [["the", "the", *sentence(rng, 5)], ["the", "mat", *sentence(rng, 4), "moon"]]
    assert_counts(submission, candidate, references)
    assert_counts(submission, ["moon"], [["the", "moon"]])
    assert_counts(submission, ["a", "moon"], [["the", "moon", *sentence(rng, 2)], ["a", *sentence(rng, 6)]])


@rubric.test(
    "bleu",
    points=2,
    visible=True,
    hint="Sum counts over the corpus; geometric mean; penalty.",
    needs=("clipped_matches",),
)
def short_candidates_are_punished(submission, rng):
    candidates, references = corpus(rng, (12, 9, 15), cut=2)
    assert_close(submission.bleu(candidates, references), bleu(candidates, references), what="BLEU", rtol=1e-3)
    candidates, references = corpus(rng, (9, 14), cut=1)
    assert_close(submission.bleu(candidates, references, 2), bleu(candidates, references, 2), what="BLEU-2", rtol=1e-3)


@rubric.test(
    "bleu", points=1, visible=True, hint="A long candidate loses precision, nothing else.", needs=("clipped_matches",)
)
def long_candidates_are_not(submission, rng):
    candidates, references = corpus(rng, (10, 13), added=3)
    assert_close(submission.bleu(candidates, references), bleu(candidates, references), what="BLEU", rtol=1e-3)
    same = [reference[0] for reference in references]
    assert_close(submission.bleu(same, references), 100.0, what="BLEU of the reference itself")


@rubric.test(
    "bleu",
    points=1,
    visible=True,
    hint="Of several references the closest in length counts.",
    needs=("clipped_matches",),
)
def closest_reference_counts(submission, rng):
    some, their = corpus(rng, (14,), cut=2, others=(-5,))
    more, other = corpus(rng, (13,), cut=5)
    candidates, references = some + more, their + other
    assert_close(submission.bleu(candidates, references), bleu(candidates, references), what="BLEU", rtol=1e-3)


@rubric.test(
    "bleu",
    points=1,
    visible=False,
    topic="no match, ties",
    hint="No match of some order; two references that are equally close.",
    needs=("clipped_matches",),
)
def no_match_is_zero(submission, rng):
    candidates, references = [["the", "moon", "cat"]], [[["the", "cat", "sat", "on", "it"]]]
    assert_close(submission.bleu(candidates, references), 0.0, what="BLEU without a matching pair of words")
    candidates, references = corpus(rng, (16, 8, 11, 10), cut=1, others=(-2,))
    assert_close(submission.bleu(candidates, references, 3), bleu(candidates, references, 3), what="BLEU-3", rtol=1e-3)


# 4. Beam search


@rubric.given
class Storyteller:
    """A next-token model that remembers all it has read, and ends sooner or later."""

    def __init__(self, rng, vocab_size=6, wish_to_end=-1.5):
        self.first, self.second = 1.5 * draw(rng, vocab_size, vocab_size), draw(rng, vocab_size, vocab_size)
        self.wish_to_end = wish_to_end

    def __call__(self, prefixes):
        seen = F.one_hot(prefixes[:, :-1], self.first.shape[0]).float().sum(1)  # (N, V)
        logits = self.first[prefixes[:, -1]] + seen @ self.second / 2  # (N, V)
        logits[:, [PAD, BOS]] = -30.0
        logits[:, EOS] += self.wish_to_end + 0.5 * prefixes.shape[1]
        return logits.log_softmax(-1)


def search(
    next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty, *, keep=None, carry=None, extra=0, stop=None
):
    """Beam search in small pieces, so that a mistake can change one: what is kept, which sum is carried on, the end."""
    beams, finished = [([bos_id], 0.0)], []
    for step in range(1, max_len + 1):
        rows = next_log_probs(torch.tensor([ids for ids, _ in beams])).double().tolist()
        candidates = [
            ([*ids, token], carry(total, value, step) if carry else total + value)
            for (ids, total), row in zip(beams, rows, strict=True)
            for token, value in enumerate(row)
        ]
        kept = keep(candidates) if keep else sorted(candidates, key=lambda pair: -pair[1])[:beam_size]
        finished += [pair for pair in kept if pair[0][-1] == eos_id]
        beams = [pair for pair in kept if pair[0][-1] != eos_id]
        if not beams or (stop and stop(finished)):
            break
    scored = [(ids[1:], total / (len(ids) - 1 + extra) ** length_penalty) for ids, total in finished + beams]
    return sorted(scored, key=lambda pair: -pair[1])


@rubric.reference
def beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    return search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty)


@rubric.mistake(
    "beam_search",
    "Each of your beginnings keeps its own best continuation. They must compete: rank *all* continuations together.",
)
def no_competition(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    def keep(candidates):
        ranked = sorted(candidates, key=lambda pair: -pair[1])
        if len(ranked[0][0]) == 2:  # the first step: the beam_size best first tokens
            return ranked[:beam_size]
        best = {}
        for pair in ranked:
            best.setdefault(tuple(pair[0][:-1]), pair)
        return list(best.values())

    return search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty, keep=keep)


@rubric.mistake(
    "beam_search",
    "You rank by the newest token's log-probability alone. Add it to what its beginning has collected so far.",
)
def forgets_the_sum(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    named = {"carry": lambda total, value, step: value}
    return search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty, **named)


@rubric.mistake(
    "beam_search", "You add probabilities. Probabilities multiply, so it is their *logarithms* that add up."
)
def adds_probabilities(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    named = {"carry": lambda total, value, step: total + math.exp(value)}
    return search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty, **named)


@rubric.mistake(
    "beam_search",
    "You fill the beam up again when sequences finish. They take their places: of all continuations the best beam_size "
    "are kept, and the beam gets narrower.",
)
def fills_the_beam_up(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    def keep(candidates):
        ranked = sorted(candidates, key=lambda pair: -pair[1])[: 2 * beam_size]
        ended = [pair for pair in ranked if pair[0][-1] == eos_id]
        return ended + [pair for pair in ranked if pair[0][-1] != eos_id][:beam_size]

    return search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty, keep=keep)


@rubric.mistake("beam_search", "Your sequences never end: take those that end with eos out of the beam, into a list.")
def ignores_eos(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    return search(next_log_probs, beam_size, bos_id, -1, max_len, length_penalty)


@rubric.mistake(
    "beam_search", "You stop as soon as one sequence has ended. A longer one may score higher: go on until all have."
)
def stops_at_the_first(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    return search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty, stop=bool)


@rubric.mistake(
    "beam_search",
    "You stop as soon as one sequence has ended, and drop the others. Go on until all have ended, or max_len.",
)
def returns_the_first(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    found = stops_at_the_first(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty)
    return [pair for pair in found if pair[0][-1] == eos_id] or found


@rubric.mistake("beam_search", "Plain log-probabilities: the final score is divided by length ** length_penalty.")
def no_length_penalty(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    return search(next_log_probs, beam_size, bos_id, eos_id, max_len, 0.0)


@rubric.mistake("beam_search", "You count bos in the length. It was given; count what was chosen, eos included.")
def counts_bos(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    return search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty, extra=1)


@rubric.mistake("beam_search", "You do not count the end symbol in the length. It was chosen like the others.")
def leaves_out_eos(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    found = search(next_log_probs, beam_size, bos_id, eos_id, max_len, 0.0)
    lengths = [max(1, len(ids) - (ids[-1] == eos_id)) for ids, _ in found]
    scored = [(ids, total / length**length_penalty) for (ids, total), length in zip(found, lengths, strict=True)]
    return sorted(scored, key=lambda pair: -pair[1])


@rubric.mistake(
    "beam_search",
    "You divide at every step, so early tokens are divided again and again. Carry the plain sum; divide at the end.",
)
def divides_at_every_step(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    named = {"carry": lambda total, value, step: (total + value) / step**length_penalty}
    return search(next_log_probs, beam_size, bos_id, eos_id, max_len, 0.0, **named)


@rubric.mistake("beam_search", "The worst comes first. Sort with the highest score in front.")
def worst_first(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    return beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty)[::-1]


@rubric.mistake(
    "beam_search", "Beginnings that are still open at max_len get lost. They count as they stand: add them to the list."
)
def loses_the_unfinished(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    found = beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty)
    return [pair for pair in found if pair[0][-1] == eos_id]


@rubric.mistake("beam_search", "bos was given, not chosen: leave it out of the ids you return.")
def returns_bos(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    found = beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty)
    return [([bos_id, *ids], score) for ids, score in found]


def as_pairs(found):
    assert isinstance(found, tuple | list), "return a list of pairs: ids, score"
    assert all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in found), "each item is a pair: ids, score"
    return [([int(token) for token in ids], float(score)) for ids, score in found]


def assert_finds(submission, model, beam_size, max_len, length_penalty):
    got = submission.beam_search(model, beam_size, BOS, EOS, max_len, length_penalty)
    want = beam_search(model, beam_size, BOS, EOS, max_len, length_penalty)
    assert_close(got, want, what="the list of (ids, score), best first", rtol=1e-3, atol=1e-4)


@rubric.test("beam", points=1, visible=True, hint="With one beginning it is greedy decoding.")
def one_beam_is_greedy(submission, rng):
    for _ in range(3):
        assert_finds(submission, Storyteller(rng), beam_size=1, max_len=7, length_penalty=0.0)


@rubric.test("beam", points=2, visible=True, hint="Extend all, rank all, keep the best few, set finished ones aside.")
def few_beams_are_searched(submission, rng):
    for beam_size in (2, 3, 4):
        for _ in range(3):
            assert_finds(submission, Storyteller(rng), beam_size, max_len=7, length_penalty=0.0)


@rubric.test("beam", points=1, visible=True, hint="At the end, score = log-probability / length ** length_penalty.")
def scores_are_divided_by_length(submission, rng):
    for length_penalty in (0.5, 1.0, 2.0):
        for _ in range(2):
            assert_finds(submission, Storyteller(rng), 3, max_len=7, length_penalty=length_penalty)


@rubric.test("beam", points=1, visible=True, hint="Nothing may be lost when max_len is reached.")
def unfinished_count_at_max_len(submission, rng):
    for _ in range(3):
        assert_finds(submission, Storyteller(rng, wish_to_end=-4.0), 3, max_len=4, length_penalty=1.0)


@rubric.test(
    "beam",
    points=2,
    visible=False,
    topic="wide beam",
    hint="A beam wide enough for everything must find the very best.",
)
def a_wide_beam_finds_the_best_of_all(submission, rng):
    model = Storyteller(rng, vocab_size=5)
    got = as_pairs(submission.beam_search(model, 200, BOS, EOS, 4, 0.7))
    everything = [([], 0.0)]
    best = (-math.inf, [])
    for _ in range(4):
        rows = model(torch.tensor([[BOS, *ids] for ids, _ in everything])).double().tolist()
        longer = [
            ([*ids, token], total + value)
            for (ids, total), row in zip(everything, rows, strict=True)
            for token, value in enumerate(row)
        ]
        ended = [(total / len(ids) ** 0.7, ids) for ids, total in longer if ids[-1] == EOS or len(ids) == 4]
        best, everything = max([best, *ended]), [pair for pair in longer if pair[0][-1] != EOS]
    assert_close(got[0][0], best[1], what="the best of all sequences")
    assert_close(got[0][1], best[0], what="its score", rtol=1e-3, atol=1e-4)
