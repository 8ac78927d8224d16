"""Does the second sentence follow from the first? Pairs we generate, and a reader for the files of SNLI."""

import io
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lecturelib.data.sets.wording import WORD
from lecturelib.data.store.archives import read_member
from lecturelib.data.store.fetching import fetch
from lecturelib.data.store.splits import SPLITS, Splits, split_of

LABELS = ("entailment", "neutral", "contradiction")
TOPICS = ("binding", "attribute", "roles", "quantifiers")

KINDS = {  # a poodle is a dog, and a dog is an animal
    "animal": {"dog": ("poodle", "beagle"), "bird": ("sparrow", "robin")},
    "vehicle": {"car": ("taxi", "van"), "boat": ("canoe", "ferry")},
    "person": {"child": ("boy", "girl"), "artist": ("painter", "singer")},
}
ABOVE = {name: (kind, top) for top, kinds in KINDS.items() for kind, names in kinds.items() for name in names}
ACTIONS = {"chasing": "following", "trailing": "following", "towing": "pulling", "dragging": "pulling"}
STATES = ("resting", "moving", "waiting")
COLOURS = ("red", "blue", "green", "white")
ATTRIBUTES = ("wet", "old", "lost")
QUANTIFIERS = ("every", "some", "no")


@dataclass(frozen=True)
class InferencePair:
    """A premise, a hypothesis, and whether the second follows from the first: label is an index into `LABELS`.

    `links` are pairs (hypothesis index, premise index) of words that speak of the same thing, where known; `topic` is
    one of `TOPICS` for generated pairs.
    """

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: int
    links: frozenset[tuple[int, int]] = frozenset()
    topic: str = ""


def quantified_label(said: str, asked: str, relation: str) -> str:
    """What "SAID dogs rest" tells of "ASKED ones rest", when those asked of are dogs ("same"), poodles ("below") or
    animals ("above"); there is at least one of each kind."""
    if asked == "every":
        if said == "some":
            return "neutral"
        if said == "no":
            return "contradiction"
        return "neutral" if relation == "above" else "entailment"
    if said == "every":
        return "entailment" if asked == "some" else "contradiction"
    if said == "some":
        if relation == "below":
            return "neutral"
        return "entailment" if asked == "some" else "contradiction"
    if relation == "above":
        return "neutral"
    return "contradiction" if asked == "some" else "entailment"


def _two_things(rng: random.Random) -> tuple[str, str]:
    """Two names of different kinds under different tops, so that "the animal" can mean one of them only."""
    tops = rng.sample([*KINDS], 2)
    first, second = (rng.choice([name for names in KINDS[top].values() for name in names]) for top in tops)
    return first, second


def _upwards(rng: random.Random, name: str) -> str:
    return rng.choice((name, *ABOVE[name]))


Twins = tuple[
    tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, str], tuple[frozenset[tuple[int, int]], ...]
]


def _binding(rng: random.Random) -> Twins:
    """Whose colour is it? "the red boat is trailing the blue dog" and the colours swapped."""
    first, second = _two_things(rng)
    one, other = rng.sample(COLOURS, 2)
    action = rng.choice([*ACTIONS])
    premises = [("the", a, first, "is", action, "the", b, second) for a, b in ((one, other), (other, one))]
    claimed = rng.choice((action, ACTIONS[action]))
    hypothesis = ("the", one, _upwards(rng, first), "is", claimed, "the", other, _upwards(rng, second))
    links = frozenset((place, place) for place in (1, 2, 4, 6, 7))
    return premises[0], premises[1], hypothesis, ("entailment", "contradiction"), (links, links)


def _attribute(rng: random.Random) -> Twins:
    """Who is wet, and of whom is it not said? "the wet dog is towing the boat", "the dog is towing the wet boat"."""
    first, second = _two_things(rng)
    action, attribute = rng.choice([*ACTIONS]), rng.choice(ATTRIBUTES)
    place, negated = rng.randrange(2), rng.random() < 0.5
    premises = (
        ("the", attribute, first, "is", action, "the", second),
        ("the", first, "is", action, "the", attribute, second),
    )
    hypothesis = ("the", _upwards(rng, (first, second)[place]), "is", *(("not",) if negated else ()), attribute)
    known = "contradiction" if negated else "entailment"
    labels = (known, "neutral") if place == 0 else ("neutral", known)
    nouns = ((2, 1), (6, 6))[place]
    links = tuple(frozenset({(1, noun), (len(hypothesis) - 1, at)}) for noun, at in zip(nouns, (1, 5), strict=True))
    return premises[0], premises[1], hypothesis, labels, links


def _roles(rng: random.Random) -> Twins:
    """Who does it to whom? "the dog is chasing the boy" and "the boy is chasing the dog"."""
    first, second = _two_things(rng)
    action, negated = rng.choice([*ACTIONS]), rng.random() < 0.5
    premises = tuple(("the", a, "is", action, "the", b) for a, b in ((first, second), (second, first)))
    claimed = rng.choice((action, ACTIONS[action]))
    middle = ("is", "not", claimed) if negated else ("is", claimed)
    hypothesis = ("the", _upwards(rng, first), *middle, "the", _upwards(rng, second))
    known = "contradiction" if negated else "entailment"
    last, verb = len(hypothesis) - 1, len(hypothesis) - 3
    links = (frozenset({(1, 1), (verb, 3), (last, 5)}), frozenset({(1, 5), (verb, 3), (last, 1)}))
    return premises[0], premises[1], hypothesis, (known, "neutral"), links


def _quantifiers(rng: random.Random) -> Twins:
    """How many of which? "every dog and no boat is resting" and "no dog and every boat is resting"."""
    while True:
        names, state = _two_things(rng), rng.choice(STATES)
        kinds = [rng.choice((ABOVE[name][0], name)) for name in names]
        quantifiers, asked = rng.sample(QUANTIFIERS, 2), rng.choice(QUANTIFIERS)
        place = rng.randrange(2)
        said = kinds[place]
        relations = {"same": said, "above": ABOVE[names[place]][1] if said in ABOVE[names[place]] else ABOVE[said][0]}
        if said != names[place]:
            relations["below"] = names[place]
        relation = rng.choice([*relations])
        orders = (quantifiers, quantifiers[::-1])
        labels = tuple(quantified_label(order[place], asked, relation) for order in orders)
        if labels[0] != labels[1]:
            break
    premises = tuple((a, kinds[0], "and", b, kinds[1], "is", state) for a, b in orders)
    at = 3 * place
    links = frozenset({(0, at), (1, at + 1), (3, 6)})
    return premises[0], premises[1], (asked, relations[relation], "is", state), (labels[0], labels[1]), (links, links)


MAKERS: dict[str, Callable[[random.Random], Twins]] = dict(
    zip(TOPICS, (_binding, _attribute, _roles, _quantifiers), strict=True)
)


def inference_pairs(count: int, *, split: str = "train", seed: int = 0) -> list[InferencePair]:
    """Make `count` pairs for one split, as twins: neighbours 2i and 2i + 1 have the same words and different labels.

    Twins share the hypothesis, and their premises are the same words in another order. So whoever looks at which
    words occur, however cleverly, answers at most one of two rightly; so does whoever reads the hypothesis alone.
    What a pair turns on: which noun an adjective belongs to, who acts, negation, a poodle being an animal, and what
    follows from every, some and no. Sentences of one split occur in no other.
    """
    if split not in SPLITS:
        raise ValueError(f"split={split!r} must be one of {', '.join(SPLITS)}")
    if count < 0 or count % 2:
        raise ValueError(f"count={count} must be even and not negative: pairs come as twins")
    rng = random.Random(f"inference {split} {seed}")
    found: dict[str, tuple[InferencePair, InferencePair]] = {}
    while 2 * len(found) < count:
        topic = rng.choice(TOPICS)
        first, second, hypothesis, labels, links = MAKERS[topic](rng)
        key = " ".join((*sorted(first), "|", *hypothesis))
        if split_of(key, validation=0.1, test=0.1) != split or key in found:
            continue
        twins = [
            InferencePair(premise, hypothesis, LABELS.index(label), link, topic)
            for premise, label, link in zip((first, second), labels, links, strict=True)
        ]
        rng.shuffle(twins)
        found[key] = (twins[0], twins[1])
    return [pair for twins in found.values() for pair in twins]


def inference(*, train: int = 8_000, validation: int = 1_000, test: int = 1_000) -> Splits[list[InferencePair]]:
    """The three splits at once, of the sizes asked for."""
    return Splits(
        inference_pairs(train, split="train"),
        inference_pairs(validation, split="validation"),
        inference_pairs(test, split="test"),
    )


def read_snli(lines: Iterable[str]) -> list[InferencePair]:
    """The pairs in the lines of a file such as snli_1.0_dev.jsonl, lower case; those without a gold label are left out.

    SNLI marks a pair on which its annotators did not agree with "-".
    """
    pairs = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row = json.loads(line)
        if not isinstance(row, dict) or not {"gold_label", "sentence1", "sentence2"} <= row.keys():
            raise ValueError(f"line {number} is not one of SNLI: it needs gold_label, sentence1 and sentence2")
        if row["gold_label"] in LABELS:
            premise, hypothesis = (tuple(WORD.findall(row[name].lower())) for name in ("sentence1", "sentence2"))
            pairs.append(InferencePair(premise, hypothesis, LABELS.index(row["gold_label"])))
        elif row["gold_label"] != "-":
            raise ValueError(f"line {number} has the gold label {row['gold_label']!r}; SNLI knows {LABELS} and '-'")
    return pairs


def snli() -> Splits[list[InferencePair]]:
    """The Stanford Natural Language Inference corpus, 570,000 pairs, for those with a network."""
    (path,) = fetch("snli").values()
    parts = (
        io.StringIO(read_member(path, f"*/snli_1.0_{name}.jsonl").decode("utf-8")) for name in ("train", "dev", "test")
    )
    return Splits(*map(read_snli, parts))
