"""Learn byte-pair merges: join the most frequent pair of neighbours, again and again.

Paper: Sennrich et al. 2016 [sennrich2016neural], on bytes as in Radford et al. 2019 [radford2019language].
Differs: ties go to the pair with the smaller ids, and bookkeeping follows Hugging Face `tokenizers` to the letter, so
that both learn the same merges from the same text.
"""

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable

Merge = tuple[int, int]


def learn_merges(words: Counter[bytes], alphabet: list[bytes], vocab_size: int, min_count: int) -> list[Merge]:
    """Learn merges until the tokens number `vocab_size` or no pair occurs `min_count` times.

    Counting all pairs anew for each merge would cost the whole text each time. Instead the counts are kept: a merge
    visits only the words it occurs in, and changes only the counts of the pairs around it. A heap gives the most
    frequent pair; its counts may be out of date, so a pair is checked when it comes up and put back if it is.

    Args:
        words: how often each piece of text occurs.
        alphabet: the tokens to start from, by id; every single byte must be among them.

    Returns:
        The pairs of token ids that were joined, in order. The new token of a pair is their concatenation, and gets
        the next id (or keeps its own, should it exist already).
    """
    tokens = list(alphabet)
    ids = {token: index for index, token in enumerate(tokens)}
    spelled = [[ids[bytes([byte])] for byte in word] for word in words]
    counts = list(words.values())
    pair_counts: Counter[Merge] = Counter()
    places: defaultdict[Merge, set[int]] = defaultdict(set)
    for index, word in enumerate(spelled):
        for pair in itertools.pairwise(word):
            pair_counts[pair] += counts[index]
            places[pair].add(index)
    heap = [(-count, pair, places[pair]) for pair, count in pair_counts.items()]
    heapq.heapify(heap)
    merges: list[Merge] = []
    while heap and len(tokens) < vocab_size:
        negative, pair, where = heapq.heappop(heap)
        if pair_counts[pair] != -negative:
            heapq.heappush(heap, (-pair_counts[pair], pair, where))
            continue
        if -negative < max(1, min_count):
            break
        token = tokens[pair[0]] + tokens[pair[1]]
        new = ids.setdefault(token, len(tokens))
        if new == len(tokens):
            tokens.append(token)
        merges.append(pair)
        for fresh, seen in _join(pair, new, where, spelled, counts, pair_counts).items():
            if pair_counts[fresh] > 0:
                heapq.heappush(heap, (-pair_counts[fresh], fresh, seen))
    return merges


def _join(
    pair: Merge,
    new: int,
    where: Iterable[int],
    spelled: list[list[int]],
    counts: list[int],
    pair_counts: Counter[Merge],
) -> dict[Merge, set[int]]:
    """Join the pair in each of these words, keep the counts right, and return the pairs this made, with their words."""
    left, right = pair
    fresh: defaultdict[Merge, set[int]] = defaultdict(set)
    for index in where:
        word, count = spelled[index], counts[index]
        joined: list[int] = []
        place, last = 0, len(word) - 1
        while place <= last:
            if place == last or word[place] != left or word[place + 1] != right:
                joined.append(word[place])
                place += 1
                continue
            if joined:
                pair_counts[joined[-1], left] -= count
                pair_counts[joined[-1], new] += count
                fresh[joined[-1], new].add(index)
            if place + 2 <= last:
                follower = word[place + 2]
                pair_counts[right, follower] -= count
                pair_counts[new, follower] += count
                fresh[new, follower].add(index)
            joined.append(new)
            place += 2
        spelled[index] = joined
    return fresh
