import heapq
import math
from collections import Counter

import torch
import torch.nn.functional as F


# wrong shift: reads what it should predict
# hint: lags one step behind
def shift_targets(targets, bos_id, eos_id, pad_id):
    width = max(map(len, targets)) + 1
    rows = torch.tensor([[*t, eos_id] + [pad_id] * (width - len(t) - 1) for t in targets])
    lengths = torch.tensor([len(t) + 1 for t in targets])
    return rows, rows.clone(), torch.arange(width) < lengths[:, None]


# wrong shift: bos and eos in both
# hint: The end symbol belongs to `target_out` alone
def shift_targets(targets, bos_id, eos_id, pad_id):
    width = max(map(len, targets)) + 2
    rows = torch.tensor([[bos_id, *t, eos_id] + [pad_id] * (width - len(t) - 2) for t in targets])
    lengths = torch.tensor([len(t) + 2 for t in targets])
    return rows, rows, torch.arange(width) < lengths[:, None]


# wrong shift: has to predict the start
# hint: Nobody has to predict the start
def shift_targets(targets, bos_id, eos_id, pad_id):
    width = max(map(len, targets)) + 1
    rows = torch.tensor([[bos_id, *t] + [pad_id] * (width - len(t) - 1) for t in targets])
    lengths = torch.tensor([len(t) + 1 for t in targets])
    return rows, rows, torch.arange(width) < lengths[:, None]


# wrong shift: never ends
# hint: never learns to stop
def shift_targets(targets, bos_id, eos_id, pad_id):
    width = max(map(len, targets)) + 1
    read = torch.tensor([[bos_id, *t] + [pad_id] * (width - len(t) - 1) for t in targets])
    predicted = torch.cat([read[:, 1:], torch.full((len(targets), 1), pad_id)], dim=1)
    lengths = torch.tensor([len(t) + 1 for t in targets])
    return read, predicted, torch.arange(width) < lengths[:, None]


# wrong shift: the end does not count
# hint: The mask leaves out the end symbol
def shift_targets(targets, bos_id, eos_id, pad_id):
    width = max(map(len, targets)) + 1
    read = torch.tensor([[bos_id, *t] + [pad_id] * (width - len(t) - 1) for t in targets])
    predicted = torch.tensor([[*t, eos_id] + [pad_id] * (width - len(t) - 1) for t in targets])
    lengths = torch.tensor([len(t) for t in targets])
    return read, predicted, torch.arange(width) < lengths[:, None]


# wrong shift: the mask upside down
# hint: True means that a position *counts*
def shift_targets(targets, bos_id, eos_id, pad_id):
    width = max(map(len, targets)) + 1
    read = torch.tensor([[bos_id, *t] + [pad_id] * (width - len(t) - 1) for t in targets])
    predicted = torch.tensor([[*t, eos_id] + [pad_id] * (width - len(t) - 1) for t in targets])
    lengths = torch.tensor([len(t) for t in targets])
    return read, predicted, torch.arange(width) > lengths[:, None]


# wrong shift: the two the wrong way round
# hint: what is read first
def shift_targets(targets, bos_id, eos_id, pad_id):
    width = max(map(len, targets)) + 1
    read = torch.tensor([[bos_id, *t] + [pad_id] * (width - len(t) - 1) for t in targets])
    predicted = torch.tensor([[*t, eos_id] + [pad_id] * (width - len(t) - 1) for t in targets])
    lengths = torch.tensor([len(t) + 1 for t in targets])
    return predicted, read, torch.arange(width) < lengths[:, None]


# wrong shift: averages over the padding
# hint: You average over the padding too
def teacher_forced_loss(logits, target_out, mask):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target_out.reshape(-1))


# wrong shift: divides by the padding
# hint: you still divide by it
def teacher_forced_loss(logits, target_out, mask):
    losses = F.cross_entropy(logits.transpose(1, 2), target_out, reduction="none")
    return losses.masked_fill(~mask, 0.0).sum() / mask.numel()


# wrong shift: the sum
# hint: That is the sum
def teacher_forced_loss(logits, target_out, mask):
    return F.cross_entropy(logits[mask], target_out[mask], reduction="sum")


# wrong shift: a mean of means
# hint: A mean of rows' means
def teacher_forced_loss(logits, target_out, mask):
    rows = [F.cross_entropy(row[real], out[real]) for row, out, real in zip(logits, target_out, mask)]
    return torch.stack(rows).mean()


# wrong shift: looks for the padding's id
# hint: You find padding by its id
def shift_targets(targets, bos_id, eos_id, pad_id):
    longest = max(len(target) for target in targets)
    read = [[bos_id, *target] + [pad_id] * (longest - len(target)) for target in targets]
    said = torch.tensor([[*target, eos_id] + [pad_id] * (longest - len(target)) for target in targets])
    return torch.tensor(read), said, said != pad_id


# wrong shift: ignores every 0
# hint: You leave out the tokens with id 0
def teacher_forced_loss(logits, target_out, mask):
    return torch.nn.functional.cross_entropy(logits.transpose(1, 2), target_out, ignore_index=0)


# wrong shift: a loss that is a plain number
# hint: no gradient flows through a number
def teacher_forced_loss(logits, target_out, mask):
    return F.cross_entropy(logits[mask], target_out[mask]).item()


# right shift: pad_sequence, and ignored labels
def shift_targets(targets, bos_id, eos_id, pad_id):
    def padded(rows, fill):
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(r) for r in rows], batch_first=True, padding_value=fill)

    read = padded([[bos_id, *t] for t in targets], pad_id)
    predicted = padded([[*t, eos_id] for t in targets], pad_id)
    return read, predicted, padded([[True] * (len(t) + 1) for t in targets], False)


def teacher_forced_loss(logits, target_out, mask):
    labels = target_out.masked_fill(~mask, -100)
    return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=-100)


# right shift: lists, and a sum of log-probabilities in float64
def shift_targets(targets, bos_id, eos_id, pad_id):
    longest = max(len(t) for t in targets)
    read, predicted, real = [], [], []
    for t in targets:
        rest = longest - len(t)
        read.append([bos_id] + list(t) + [pad_id] * rest)
        predicted.append(list(t) + [eos_id] + [pad_id] * rest)
        real.append([True] * (len(t) + 1) + [False] * rest)
    return torch.tensor(read), torch.tensor(predicted), torch.tensor(real)


def teacher_forced_loss(logits, target_out, mask):
    logits = logits.double()
    picked = logits.gather(2, target_out.unsqueeze(2)).squeeze(2) - logits.logsumexp(dim=2)
    return -(picked * mask).sum() / mask.sum()


# wrong greedy: talks on after the end
# hint: talk on after their end
def greedy_decode(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    prefix = torch.full((batch_size, 1), bos_id)
    for _ in range(max_len):
        prefix = torch.cat([prefix, next_log_probs(prefix).argmax(-1, keepdim=True)], dim=1)
        if (prefix == eos_id).any(dim=1).all():
            break
    return prefix[:, 1:]


# wrong greedy: stops with the first row
# hint: first end symbol of any row
def greedy_decode(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    prefix = torch.full((batch_size, 1), bos_id)
    for _ in range(max_len):
        tokens = next_log_probs(prefix).argmax(-1)
        prefix = torch.cat([prefix, tokens[:, None]], dim=1)
        if (tokens == eos_id).any():
            break
    return prefix[:, 1:]


# wrong greedy: never stops early
# hint: You never stop early
def greedy_decode(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    prefix = torch.full((batch_size, 1), bos_id)
    for _ in range(max_len):
        ended = (prefix == eos_id).any(dim=1)
        tokens = next_log_probs(prefix).argmax(-1).masked_fill(ended, pad_id)
        prefix = torch.cat([prefix, tokens[:, None]], dim=1)
    return prefix[:, 1:]


# wrong greedy: returns bos
# hint: leave it out of what you return
def greedy_decode(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    prefix = torch.full((batch_size, 1), bos_id)
    for _ in range(max_len):
        ended = (prefix == eos_id).any(dim=1)
        tokens = next_log_probs(prefix).argmax(-1).masked_fill(ended, pad_id)
        prefix = torch.cat([prefix, tokens[:, None]], dim=1)
        if (prefix == eos_id).any(dim=1).all():
            break
    return prefix


# wrong greedy: throws the end symbol away
# hint: The end symbol is missing
def greedy_decode(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    prefix, running = torch.full((batch_size, 1), bos_id), torch.ones(batch_size, dtype=torch.bool)
    for _ in range(max_len):
        tokens = next_log_probs(prefix).argmax(-1)
        running = running & (tokens != eos_id)
        prefix = torch.cat([prefix, torch.where(running, tokens, pad_id)[:, None]], dim=1)
        if not running.any():
            break
    return prefix[:, 1:]


# wrong greedy: shows the newest token only
# hint: only the newest token
def greedy_decode(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    tokens, ended, chosen = torch.full((batch_size,), bos_id), torch.zeros(batch_size, dtype=torch.bool), []
    while len(chosen) < max_len and not ended.all():
        tokens = next_log_probs(tokens[:, None]).argmax(-1)
        tokens = torch.where(ended, pad_id, tokens)
        ended = ended | (tokens == eos_id)
        chosen.append(tokens)
    return torch.stack(chosen, dim=1)


# wrong greedy: draws at random
# hint: You draw one at random
def greedy_decode(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    prefix, ended = torch.full((batch_size, 1), bos_id), torch.zeros(batch_size, dtype=torch.bool)
    for _ in range(max_len):
        tokens = torch.multinomial(next_log_probs(prefix).exp(), 1)[:, 0].masked_fill(ended, pad_id)
        prefix, ended = torch.cat([prefix, tokens[:, None]], dim=1), ended | (tokens == eos_id)
        if ended.all():
            break
    return prefix[:, 1:]


# right greedy: fills a table
def greedy_decode(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    table = torch.full((batch_size, max_len + 1), pad_id)
    table[:, 0] = bos_id
    for t in range(1, max_len + 1):
        open_rows = ~(table[:, 1:t] == eos_id).any(dim=1)
        if not open_rows.any():
            return table[:, 1:t]
        best = next_log_probs(table[:, :t]).max(dim=-1).indices
        table[open_rows, t] = best[open_rows]
    return table[:, 1:]


# right greedy: lists of lists
def greedy_decode(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    rows = [[bos_id] for _ in range(batch_size)]
    for _ in range(max_len):
        if all(eos_id in row for row in rows):
            break
        log_probs = next_log_probs(torch.tensor(rows)).tolist()
        for row, values in zip(rows, log_probs):
            row.append(pad_id if eos_id in row else max(range(len(values)), key=values.__getitem__))
    return torch.tensor([row[1:] for row in rows])


# wrong bleu: does not clip
# hint: You do not clip
def clipped_matches(candidate, references, n):
    known = {tuple(r[i : i + n]) for r in references for i in range(len(r) - n + 1)}
    grams = [tuple(candidate[i : i + n]) for i in range(len(candidate) - n + 1)]
    return sum(gram in known for gram in grams), len(grams)


# wrong bleu: adds the references up
# hint: You add the references up
def clipped_matches(candidate, references, n):
    grams = Counter(tuple(candidate[i : i + n]) for i in range(len(candidate) - n + 1))
    known = Counter(tuple(r[i : i + n]) for r in references for i in range(len(r) - n + 1))
    return sum(min(count, known[gram]) for gram, count in grams.items()), sum(grams.values())


# wrong bleu: the length of a counter
# hint: leaves repeats out
def clipped_matches(candidate, references, n):
    own = Counter(tuple(candidate[i : i + n]) for i in range(len(candidate) - n + 1))
    most = Counter()
    for reference in references:
        most |= Counter(tuple(reference[i : i + n]) for i in range(len(reference) - n + 1))
    return sum((own & most).values()), len(own)


# wrong bleu: each gram once
# hint: each different gram once
def clipped_matches(candidate, references, n):
    grams = {tuple(candidate[i : i + n]) for i in range(len(candidate) - n + 1)}
    known = {tuple(r[i : i + n]) for r in references for i in range(len(r) - n + 1)}
    return len(grams & known), len(grams)


# wrong bleu: recall
# hint: that is recall
def clipped_matches(candidate, references, n):
    grams = Counter(tuple(candidate[i : i + n]) for i in range(len(candidate) - n + 1))
    known = [Counter(tuple(r[i : i + n]) for i in range(len(r) - n + 1)) for r in references]
    return sum(min(count, max(k[gram] for k in known)) for gram, count in grams.items()), len(references[0]) - n + 1


# wrong bleu: the first reference alone
# hint: only with the first reference
def clipped_matches(candidate, references, n):
    grams = Counter(tuple(candidate[i : i + n]) for i in range(len(candidate) - n + 1))
    known = Counter(tuple(references[0][i : i + n]) for i in range(len(references[0]) - n + 1))
    return (grams & known).total(), grams.total()


# wrong bleu: no brevity penalty
# hint: The brevity penalty is missing
def bleu(candidates, references, max_order=4):
    logs = 0.0
    for n in range(1, max_order + 1):
        pairs = [clipped_matches(c, r, n) for c, r in zip(candidates, references)]
        matches, total = (sum(column) for column in zip(*pairs))
        if not matches:
            return 0.0
        logs += math.log(matches / total)
    return 100 * math.exp(logs / max_order)


# wrong bleu: punishes the long
# hint: too *long*
def bleu(candidates, references, max_order=4):
    logs = 0.0
    for n in range(1, max_order + 1):
        pairs = [clipped_matches(c, r, n) for c, r in zip(candidates, references)]
        matches, total = (sum(column) for column in zip(*pairs))
        if not matches:
            return 0.0
        logs += math.log(matches / total)
    c = sum(map(len, candidates))
    r = sum(min(map(len, rs), key=lambda k: (abs(k - len(s)), k)) for s, rs in zip(candidates, references))
    return 100 * (1 if c < r else math.exp(1 - c / r)) * math.exp(logs / max_order)


# wrong bleu: rewards the long
# hint: also *rewards*
def bleu(candidates, references, max_order=4):
    logs = 0.0
    for n in range(1, max_order + 1):
        pairs = [clipped_matches(c, r, n) for c, r in zip(candidates, references)]
        matches, total = (sum(column) for column in zip(*pairs))
        if not matches:
            return 0.0
        logs += math.log(matches / total)
    c = sum(map(len, candidates))
    r = sum(min(map(len, rs), key=lambda k: (abs(k - len(s)), k)) for s, rs in zip(candidates, references))
    return 100 * math.exp(1 - r / c) * math.exp(logs / max_order)


# wrong bleu: a plain ratio of lengths
# hint: without the exponential
def bleu(candidates, references, max_order=4):
    logs = 0.0
    for n in range(1, max_order + 1):
        pairs = [clipped_matches(c, r, n) for c, r in zip(candidates, references)]
        matches, total = (sum(column) for column in zip(*pairs))
        if not matches:
            return 0.0
        logs += math.log(matches / total)
    c = sum(map(len, candidates))
    r = sum(min(map(len, rs), key=lambda k: (abs(k - len(s)), k)) for s, rs in zip(candidates, references))
    return 100 * min(1, c / r) * math.exp(logs / max_order)


# wrong bleu: the arithmetic mean
# hint: the arithmetic mean of the precisions
def bleu(candidates, references, max_order=4):
    precisions = []
    for n in range(1, max_order + 1):
        pairs = [clipped_matches(c, r, n) for c, r in zip(candidates, references)]
        matches, total = (sum(column) for column in zip(*pairs))
        if not matches:
            return 0.0
        precisions.append(matches / total)
    c = sum(map(len, candidates))
    r = sum(min(map(len, rs), key=lambda k: (abs(k - len(s)), k)) for s, rs in zip(candidates, references))
    return 100 * min(1, math.exp(1 - r / c)) * sum(precisions) / max_order


# wrong bleu: averages over sentences
# hint: You average sentences' scores
def bleu(candidates, references, max_order=4):
    scores = []
    for s, rs in zip(candidates, references):
        pairs = [clipped_matches(s, rs, n) for n in range(1, max_order + 1)]
        r = min(map(len, rs), key=lambda k: (abs(k - len(s)), k))
        product = math.prod(m / t if t else 0 for m, t in pairs)
        scores.append(100 * min(1, math.exp(1 - r / len(s))) * product ** (1 / max_order))
    return sum(scores) / len(scores)


# wrong bleu: the shortest reference
# hint: you take the shortest
def bleu(candidates, references, max_order=4):
    logs = 0.0
    for n in range(1, max_order + 1):
        pairs = [clipped_matches(c, r, n) for c, r in zip(candidates, references)]
        matches, total = (sum(column) for column in zip(*pairs))
        if not matches:
            return 0.0
        logs += math.log(matches / total)
    c = sum(map(len, candidates))
    r = sum(min(map(len, rs)) for rs in references)
    return 100 * min(1, math.exp(1 - r / c)) * math.exp(logs / max_order)


# wrong bleu: from 0 to 1
# hint: the answer is in percent
def bleu(candidates, references, max_order=4):
    product = 1.0
    for n in range(1, max_order + 1):
        pairs = [clipped_matches(c, r, n) for c, r in zip(candidates, references)]
        matches, total = (sum(column) for column in zip(*pairs))
        product *= matches / total if total else 0
    c = sum(map(len, candidates))
    r = sum(min(map(len, rs), key=lambda k: (abs(k - len(s)), k)) for s, rs in zip(candidates, references))
    return min(1, math.exp(1 - r / c)) * product ** (1 / max_order)


# wrong bleu: the logarithm of no match
# hint: math domain error
def bleu(candidates, references, max_order=4):
    logs = 0.0
    for n in range(1, max_order + 1):
        pairs = [clipped_matches(c, r, n) for c, r in zip(candidates, references)]
        matches, total = (sum(column) for column in zip(*pairs))
        logs += math.log(matches / total)
    c = sum(map(len, candidates))
    r = sum(min(map(len, rs), key=lambda k: (abs(k - len(s)), k)) for s, rs in zip(candidates, references))
    return 100 * min(1, math.exp(1 - r / c)) * math.exp(logs / max_order)


# wrong bleu: fewer than no n-grams
# hint: 0 of them, and not fewer
def clipped_matches(candidate, references, n):
    grams = Counter(tuple(candidate[i : i + n]) for i in range(len(candidate) - n + 1))
    limit = Counter()
    for reference in references:
        limit |= Counter(tuple(reference[i : i + n]) for i in range(len(reference) - n + 1))
    return sum((grams & limit).values()), len(candidate) - n + 1


# wrong bleu: the longer of two references
# hint: you take the longer
def bleu(candidates, references, max_order=4):
    length, wanted, total = 0, 0, 0.0
    for candidate, choices in zip(candidates, references, strict=True):
        length += len(candidate)
        wanted += len(sorted(choices, key=lambda r: (abs(len(r) - len(candidate)), -len(r)))[0])
    for n in range(1, max_order + 1):
        pairs = [clipped_matches(c, r, n) for c, r in zip(candidates, references, strict=True)]
        matches, grams = map(sum, zip(*pairs, strict=True))
        if matches == 0:
            return 0.0
        total += math.log(matches / grams) / max_order
    return 100 * min(1.0, math.exp(1 - wanted / length)) * math.exp(total)


# right bleu: two numbers in a tensor
def clipped_matches(candidate, references, n):
    grams = [tuple(candidate[i : i + n]) for i in range(max(0, len(candidate) - n + 1))]
    matches = 0
    for gram in set(grams):
        found = [sum(tuple(r[i : i + n]) == gram for i in range(len(r) - n + 1)) for r in references]
        matches += min(grams.count(gram), max(found))
    return torch.tensor([matches, len(grams)])


# right bleu: counters joined, a product and a root
def clipped_matches(candidate, references, n):
    def grams(words):
        return Counter(zip(*(words[i:] for i in range(n))))

    allowed = Counter()
    for reference in references:
        allowed |= grams(reference)
    mine = grams(candidate)
    return (mine & allowed).total(), mine.total()


def bleu(candidates, references, max_order=4):
    product = 1.0
    for n in range(1, max_order + 1):
        counts = torch.tensor([clipped_matches(c, r, n) for c, r in zip(candidates, references)]).sum(dim=0)
        product *= (counts[0] / counts[1].clamp(min=1)).item()
    c = sum(map(len, candidates))
    r = sum(sorted((abs(len(x) - len(s)), len(x)) for x in rs)[0][1] for s, rs in zip(candidates, references))
    return 100 * (1.0 if c >= r else math.exp(1 - r / c)) * product ** (1 / max_order)


# right bleu: strikes matched grams off a list
def clipped_matches(candidate, references, n):
    grams = [tuple(candidate[i : i + n]) for i in range(len(candidate) - n + 1)]
    matches = 0
    for gram in set(grams):
        most = max(sum(r[i : i + n] == list(gram) for i in range(len(r) - n + 1)) for r in references)
        matches += min(most, grams.count(gram))
    return matches, len(grams)


def bleu(candidates, references, max_order=4):
    matches, totals, c, r = [0] * max_order, [0] * max_order, 0, 0
    for sentence, choices in zip(candidates, references):
        c += len(sentence)
        gaps = {}
        for choice in sorted(choices, key=len):
            gaps.setdefault(abs(len(choice) - len(sentence)), len(choice))
        r += gaps[min(gaps)]
        for n in range(max_order):
            m, t = clipped_matches(sentence, choices, n + 1)
            matches[n] += m
            totals[n] += t
    if 0 in matches:
        return 0
    brevity = torch.exp(torch.tensor(1 - r / c)).clamp(max=1)
    return brevity * 100 * torch.tensor([m / t for m, t in zip(matches, totals)]).log().mean().exp()


# wrong beam: no competition between beginnings
# hint: They must compete
def beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    first = next_log_probs(torch.tensor([[bos_id]]))[0].topk(min(beam_size, 6))
    beams, done = [([token], total) for token, total in zip(first.indices.tolist(), first.values.tolist())], []
    for step in range(1, max_len + 1):
        done += [beam for beam in beams if beam[0][-1] == eos_id]
        beams = [beam for beam in beams if beam[0][-1] != eos_id]
        if step == max_len or not beams:
            break
        rows = next_log_probs(torch.tensor([[bos_id, *ids] for ids, _ in beams]))
        best = rows.max(-1)
        beams = [([*b[0], t], b[1] + v) for b, t, v in zip(beams, best.indices.tolist(), best.values.tolist())]
    return sorted([(ids, s / len(ids) ** length_penalty) for ids, s in done + beams], key=lambda p: -p[1])


# wrong beam: ranks by the newest token
# hint: newest token's log-probability alone
def beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    beams, done = [([bos_id], 0.0)], []
    for _ in range(max_len):
        rows = next_log_probs(torch.tensor([ids for ids, _ in beams])).tolist()
        every = [([*ids, t], v) for (ids, _), row in zip(beams, rows) for t, v in enumerate(row)]
        best = sorted(every, key=lambda pair: -pair[1])[:beam_size]
        done += [pair for pair in best if pair[0][-1] == eos_id]
        beams = [pair for pair in best if pair[0][-1] != eos_id]
        if not beams:
            break
    return sorted([(i[1:], s / (len(i) - 1) ** length_penalty) for i, s in done + beams], key=lambda p: -p[1])


# wrong beam: adds probabilities
# hint: it is their *logarithms* that add up
def beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    beams, done = [([bos_id], 0.0)], []
    for _ in range(max_len):
        rows = next_log_probs(torch.tensor([ids for ids, _ in beams])).exp().tolist()
        every = [([*ids, t], s + v) for (ids, s), row in zip(beams, rows) for t, v in enumerate(row)]
        best = sorted(every, key=lambda pair: -pair[1])[:beam_size]
        done += [pair for pair in best if pair[0][-1] == eos_id]
        beams = [pair for pair in best if pair[0][-1] != eos_id]
        if not beams:
            break
    return sorted([(i[1:], s / (len(i) - 1) ** length_penalty) for i, s in done + beams], key=lambda p: -p[1])


# wrong beam: never ends
# hint: Your sequences never end
def beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    beams = [([bos_id], 0.0)]
    for _ in range(max_len):
        rows = next_log_probs(torch.tensor([ids for ids, _ in beams])).tolist()
        every = [([*ids, t], s + v) for (ids, s), row in zip(beams, rows) for t, v in enumerate(row)]
        beams = sorted(every, key=lambda pair: -pair[1])[:beam_size]
    return sorted([(i[1:], s / (len(i) - 1) ** length_penalty) for i, s in beams], key=lambda p: -p[1])


# wrong beam: does not divide by the length
# hint: the final score is divided by
def beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    beams, done = [([bos_id], 0.0)], []
    for _ in range(max_len):
        rows = next_log_probs(torch.tensor([ids for ids, _ in beams])).tolist()
        every = [([*ids, t], s + v) for (ids, s), row in zip(beams, rows) for t, v in enumerate(row)]
        best = sorted(every, key=lambda pair: -pair[1])[:beam_size]
        done += [pair for pair in best if pair[0][-1] == eos_id]
        beams = [pair for pair in best if pair[0][-1] != eos_id]
        if not beams:
            break
    return sorted([(i[1:], s) for i, s in done + beams], key=lambda p: -p[1])


# wrong beam: counts bos
# hint: You count bos in the length
def beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    beams, done = [([bos_id], 0.0)], []
    for _ in range(max_len):
        rows = next_log_probs(torch.tensor([ids for ids, _ in beams])).tolist()
        every = [([*ids, t], s + v) for (ids, s), row in zip(beams, rows) for t, v in enumerate(row)]
        best = sorted(every, key=lambda pair: -pair[1])[:beam_size]
        done += [pair for pair in best if pair[0][-1] == eos_id]
        beams = [pair for pair in best if pair[0][-1] != eos_id]
        if not beams:
            break
    return sorted([(i[1:], s / len(i) ** length_penalty) for i, s in done + beams], key=lambda p: -p[1])


# wrong beam: does not count eos
# hint: You do not count the end symbol
def beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    beams, done = [([bos_id], 0.0)], []
    for _ in range(max_len):
        rows = next_log_probs(torch.tensor([ids for ids, _ in beams])).tolist()
        every = [([*ids, t], s + v) for (ids, s), row in zip(beams, rows) for t, v in enumerate(row)]
        best = sorted(every, key=lambda pair: -pair[1])[:beam_size]
        done += [pair for pair in best if pair[0][-1] == eos_id]
        beams = [pair for pair in best if pair[0][-1] != eos_id]
        if not beams:
            break
    sizes = [max(1, sum(t not in (bos_id, eos_id) for t in ids)) for ids, _ in done + beams]
    return sorted([(i[1:], s / n**length_penalty) for (i, s), n in zip(done + beams, sizes)], key=lambda p: -p[1])


# wrong beam: divides at every step
# hint: divided again and again
def beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    beams, done = [([bos_id], 0.0)], []
    for step in range(1, max_len + 1):
        rows = next_log_probs(torch.tensor([ids for ids, _ in beams])).tolist()
        power = step**length_penalty
        every = [([*ids, t], (s + v) / power) for (ids, s), row in zip(beams, rows) for t, v in enumerate(row)]
        best = sorted(every, key=lambda pair: -pair[1])[:beam_size]
        done += [pair for pair in best if pair[0][-1] == eos_id]
        beams = [pair for pair in best if pair[0][-1] != eos_id]
        if not beams:
            break
    return sorted([(i[1:], s) for i, s in done + beams], key=lambda p: -p[1])


# wrong beam: the worst first
# hint: The worst comes first
def beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    beams, done = [([bos_id], 0.0)], []
    for _ in range(max_len):
        rows = next_log_probs(torch.tensor([ids for ids, _ in beams])).tolist()
        every = [([*ids, t], s + v) for (ids, s), row in zip(beams, rows) for t, v in enumerate(row)]
        best = sorted(every, key=lambda pair: -pair[1])[:beam_size]
        done += [pair for pair in best if pair[0][-1] == eos_id]
        beams = [pair for pair in best if pair[0][-1] != eos_id]
        if not beams:
            break
    return sorted([(i[1:], s / (len(i) - 1) ** length_penalty) for i, s in done + beams], key=lambda p: p[1])


# wrong beam: loses what is unfinished
# hint: get lost
def beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    beams, done = [([bos_id], 0.0)], []
    for _ in range(max_len):
        rows = next_log_probs(torch.tensor([ids for ids, _ in beams])).tolist()
        every = [([*ids, t], s + v) for (ids, s), row in zip(beams, rows) for t, v in enumerate(row)]
        best = sorted(every, key=lambda pair: -pair[1])[:beam_size]
        done += [pair for pair in best if pair[0][-1] == eos_id]
        beams = [pair for pair in best if pair[0][-1] != eos_id]
        if not beams:
            break
    return sorted([(i[1:], s / (len(i) - 1) ** length_penalty) for i, s in done], key=lambda p: -p[1])


# wrong beam: returns bos
# hint: leave it out of the ids
def beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    beams, done = [([bos_id], 0.0)], []
    for _ in range(max_len):
        rows = next_log_probs(torch.tensor([ids for ids, _ in beams])).tolist()
        every = [([*ids, t], s + v) for (ids, s), row in zip(beams, rows) for t, v in enumerate(row)]
        best = sorted(every, key=lambda pair: -pair[1])[:beam_size]
        done += [pair for pair in best if pair[0][-1] == eos_id]
        beams = [pair for pair in best if pair[0][-1] != eos_id]
        if not beams:
            break
    return sorted([(i, s / (len(i) - 1) ** length_penalty) for i, s in done + beams], key=lambda p: -p[1])


# wrong beam: fills the beam up
# hint: You fill the beam up again
def beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    beams, ended = [(0.0, [bos_id])], []
    for _ in range(max_len):
        rows = next_log_probs(torch.tensor([ids for _, ids in beams])).tolist()
        longer = [(s + p, [*ids, v]) for (s, ids), row in zip(beams, rows, strict=True) for v, p in enumerate(row)]
        longer.sort(key=lambda pair: pair[0], reverse=True)
        beams = []
        for pair in longer[: 2 * beam_size]:
            if pair[1][-1] == eos_id:
                ended.append(pair)
            elif len(beams) < beam_size:
                beams.append(pair)
        if not beams:
            break
    found = [(ids[1:], score / (len(ids) - 1) ** length_penalty) for score, ids in ended + beams]
    return sorted(found, key=lambda pair: -pair[1])


# right beam: tensors and topk
def beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    prefixes, totals, found = torch.tensor([[bos_id]]), torch.zeros(1), []
    for step in range(1, max_len + 1):
        sums = totals[:, None] + next_log_probs(prefixes)  # (N, V)
        width = sums.shape[1]
        totals, place = sums.flatten().topk(min(beam_size, sums.numel()))
        prefixes = torch.cat([prefixes[place // width], (place % width)[:, None]], dim=1)
        over = prefixes[:, -1] == eos_id
        if step == max_len:
            over = torch.ones_like(over)
        for ids, total in zip(prefixes[over], totals[over]):
            found.append((ids[1:].tolist(), (total / step**length_penalty).item()))
        prefixes, totals = prefixes[~over], totals[~over]
        if len(prefixes) == 0:
            break
    return sorted(found, key=lambda pair: pair[1], reverse=True)


# right beam: one question for each beginning, and a heap
def beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    open_beams, closed = [(0.0, (bos_id,))], []
    while open_beams and len(open_beams[0][1]) <= max_len:
        every = []
        for total, ids in open_beams:
            for token, value in enumerate(next_log_probs(torch.tensor([ids]))[0].double().tolist()):
                every.append((total + value, (*ids, token)))
        open_beams = []
        for pair in heapq.nlargest(beam_size, every):
            (closed if pair[1][-1] == eos_id else open_beams).append(pair)
    scored = [(total / (len(ids) - 1) ** length_penalty, list(ids[1:])) for total, ids in closed + open_beams]
    return [(ids, score) for score, ids in sorted(scored, reverse=True)]


# wrong greedy: ends again and again
# hint: You repeat eos_id after the end of a row
def greedy_decode(next_log_probs, batch_size, bos_id, eos_id, pad_id, max_len):
    ids, ended = torch.full((batch_size, 1), bos_id), torch.zeros(batch_size, dtype=torch.bool)
    for _ in range(max_len):
        token = next_log_probs(ids).argmax(-1)
        token[ended] = eos_id
        ids, ended = torch.cat([ids, token[:, None]], 1), ended | (token == eos_id)
        if ended.all():
            break
    return ids[:, 1:]


# wrong bleu: a penalty for each sentence
# hint: You take the brevity penalty sentence by sentence
def bleu(candidates, references, max_order=4):
    logs, penalty = 0.0, 0.0
    for n in range(1, max_order + 1):
        pairs = [clipped_matches(c, r, n) for c, r in zip(candidates, references)]
        matches, total = (sum(column) for column in zip(*pairs))
        if not matches:
            return 0.0
        logs += math.log(matches / total)
    for candidate, choices in zip(candidates, references):
        wanted = min((abs(len(candidate) - len(r)), len(r)) for r in choices)[1]
        penalty += min(1.0, math.exp(1 - wanted / len(candidate))) / len(candidates)
    return 100 * penalty * math.exp(logs / max_order)


# wrong beam: stops with the first that ends
# hint: A longer one may score higher
def beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    beams, done = [([bos_id], 0.0)], []
    for _ in range(max_len):
        rows = next_log_probs(torch.tensor([ids for ids, _ in beams])).tolist()
        every = [([*ids, t], s + v) for (ids, s), row in zip(beams, rows) for t, v in enumerate(row)]
        best = sorted(every, key=lambda pair: -pair[1])[:beam_size]
        done += [pair for pair in best if pair[0][-1] == eos_id]
        beams = [pair for pair in best if pair[0][-1] != eos_id]
        if done or not beams:
            break
    return sorted([(i[1:], s / (len(i) - 1) ** length_penalty) for i, s in done + beams], key=lambda p: -p[1])


# wrong beam: returns what ended first
# hint: and drop the others
def beam_search(next_log_probs, beam_size, bos_id, eos_id, max_len, length_penalty):
    beams, done = [([bos_id], 0.0)], []
    for _ in range(max_len):
        rows = next_log_probs(torch.tensor([ids for ids, _ in beams])).tolist()
        every = [([*ids, t], s + v) for (ids, s), row in zip(beams, rows) for t, v in enumerate(row)]
        best = sorted(every, key=lambda pair: -pair[1])[:beam_size]
        done += [pair for pair in best if pair[0][-1] == eos_id]
        beams = [pair for pair in best if pair[0][-1] != eos_id]
        if done or not beams:
            break
    return sorted([(i[1:], s / (len(i) - 1) ** length_penalty) for i, s in done or beams], key=lambda p: -p[1])
