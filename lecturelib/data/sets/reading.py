"""Questions about a passage whose answer is a piece of it: passages we generate, and a reader for SQuAD's files."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lecturelib.data.sets.wording import WORD
from lecturelib.data.store.fetching import fetch
from lecturelib.data.store.splits import SPLITS, Splits, split_by, split_of

NAMES = (
    *("anna", "boris", "carla", "david", "elena", "felix", "greta", "hugo", "ines", "jonas", "karim", "leila"),
    *("mira", "nora", "oscar", "petra", "quentin", "ruth", "samir", "tilda", "ulla", "viktor", "wanda", "yusuf"),
)
PLACES = (
    *("the old mill", "the north gate", "the harbour", "the museum", "the glass house", "the upper field"),
    *("the station", "the city library", "the fish market", "the island", "the stone bridge", "the theatre"),
)
TOWNS = ("lisbon", "oslo", "graz", "turin", "ghent", "york", "porto", "bergen", "lyon", "riga", "malaga", "cork")
THINGS = (
    *("a brass lamp", "two red apples", "a violin", "an old map", "a letter", "three silver spoons", "a kite"),
    *("a basket of plums", "a blue umbrella", "a camera", "a pair of boots", "a cuckoo clock"),
)
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@dataclass(frozen=True)
class Question:
    """A passage, a question about it, and the answer: the words `passage[start]` to `passage[end]`, both included.

    `before` is what was asked in the turns before, where the question goes on from there; `hops` is how many sentences
    must be put together, where known.
    """

    passage: tuple[str, ...]
    question: tuple[str, ...]
    start: int
    end: int
    hops: int = 1
    before: tuple[str, ...] = ()

    @property
    def answer(self) -> str:
        return " ".join(self.passage[self.start : self.end + 1])


@dataclass(frozen=True)
class _Asked:
    """A question, its answer, and the sentence in which the answer stands."""

    words: str
    answer: str
    sentence: str


def _facts(rng: random.Random) -> tuple[list[str], list[_Asked]]:
    """Sentences about people, and the questions that one of them answers alone."""
    people = rng.sample(NAMES, 9)
    places, things, days = rng.sample(PLACES, 3), rng.sample(THINGS, 5), rng.sample(DAYS, 3)
    asked: dict[str, list[tuple[str, str]]] = {}
    for who, where, when in zip(people[:3], places, days, strict=True):
        answers = [
            (f"where did {who} go ?", where),
            (f"who went to {where} ?", who),
            (f"when did {who} go out ?", when),
        ]
        asked[f"on {when} {who} went to {where} ."] = answers
    for who, what in zip(people[3:5], things[:2], strict=True):
        asked[f"{who} carried {what} ."] = [(f"what did {who} carry ?", what), (f"who carried {what} ?", who)]
    for giver, taker, what in zip(people[5:8], people[6:9], things[2:], strict=True):
        answers = [(f"who got {what} ?", taker), (f"who gave away {what} ?", giver), (f"what did {taker} get ?", what)]
        asked[f"{giver} gave {taker} {what} ."] = answers
    said = rng.sample([*asked], rng.randint(4, len(asked)))
    return said, [_Asked(words, answer, sentence) for sentence in said for words, answer in asked[sentence]]


def _chains(rng: random.Random, hops: int) -> tuple[list[str], list[_Asked]]:
    """Guests and hosts: where a guest stays is what another sentence says of the host; one hop asks for either half."""
    people, towns = rng.sample(NAMES, 8), rng.sample(TOWNS, 4)
    said, asked = [], []
    for guest, host, town in zip(people[:4], people[4:], towns, strict=True):
        visit, home = f"{guest} is the guest of {host} .", f"{host} lives in {town} ."
        said += [visit, home]
        if hops == 2:
            asked.append(_Asked(f"where is {guest} staying ?", town, home))
        else:
            asked.append(_Asked(f"where does {host} live ?", town, home))
            asked.append(_Asked(f"whose guest is {guest} ?", host, visit))
    rng.shuffle(said)
    return said, asked


def _outings(rng: random.Random) -> Question:
    """Four people who went out, a question about one of them, and what is asked next of the same outing."""
    people, places, days = rng.sample(NAMES, 4), rng.sample(PLACES, 4), rng.sample(DAYS, 4)
    said = [f"on {when} {who} went to {where} ." for who, where, when in zip(people, places, days, strict=True)]
    place = rng.randrange(4)
    who, where, when = people[place], places[place], days[place]
    first, then, answer = rng.choice(
        (
            (f"who went to {where} ?", "and when ?", when),
            (f"where did {who} go ?", "and when ?", when),
            (f"when did {who} go out ?", "and where to ?", where),
        )
    )
    return _asked_about(said, _Asked(then, answer, said[place]), before=first)


def _passage(rng: random.Random, hops: int) -> Question:
    said, could_ask = _facts(rng) if hops == 1 and rng.random() < 0.5 else _chains(rng, hops)
    return _asked_about(said, rng.choice(could_ask), hops)


def _asked_about(said: list[str], asked: _Asked, hops: int = 1, before: str = "") -> Question:
    offset = sum(len(sentence.split()) for sentence in said[: said.index(asked.sentence)])
    words, answer = asked.sentence.split(), asked.answer.split()
    start = offset + next(i for i in range(len(words)) if words[i : i + len(answer)] == answer)
    end = start + len(answer) - 1
    passage, question = tuple(" ".join(said).split()), tuple(asked.words.split())
    return Question(passage, question, start, end, hops, tuple(before.split()))


def _distinct(count: int, split: str, seed: str, make: Callable[[random.Random], Question]) -> list[Question]:
    """Draw until there are `count` questions about passages of their own that belong to the split."""
    if split not in SPLITS:
        raise ValueError(f"split={split!r} must be one of {', '.join(SPLITS)}")
    if count < 0:
        raise ValueError(f"count={count} must not be negative")
    rng = random.Random(f"{seed} {split}")
    found: dict[str, Question] = {}
    while len(found) < count:
        question = make(rng)
        key = " ".join(question.passage)
        if split_of(key, validation=0.1, test=0.1) == split:
            found.setdefault(key, question)
    return list(found.values())


def questions(count: int, *, hops: int | None = None, split: str = "train", seed: int = 0) -> list[Question]:
    """Make `count` questions for one split, each about a passage of its own.

    Every question has rivals in its passage: other people who went somewhere, got something or live in a town. With
    hops=2 the question names a guest, one sentence names the host, and another says where the host lives; some
    questions of one hop ask for either half of that. None mixes both kinds. Passages of one split occur in no other.
    """
    if hops not in (None, 1, 2):
        raise ValueError(f"hops={hops} must be 1, 2 or None for both")
    return _distinct(count, split, f"reading {seed}", lambda rng: _passage(rng, hops or rng.choice((1, 2))))


def dialogues(count: int, *, split: str = "train", seed: int = 0) -> list[Question]:
    """Make `count` second turns for one split: "and when ?", which only the turn before it, `before`, makes a question.

    Four people went out in each passage, so whoever does not know the turn before can but guess among four.
    """
    return _distinct(count, split, f"dialogues {seed}", _outings)


def reading(*, train: int = 8_000, validation: int = 1_000, test: int = 1_000) -> Splits[list[Question]]:
    """The three splits at once, of the sizes asked for, one hop and two mixed."""
    return Splits(
        questions(train, split="train"), questions(validation, split="validation"), questions(test, split="test")
    )


def read_squad(path: str | Path) -> list[Question]:
    """The questions of a SQuAD file such as dev-v1.1.json, lower case, each with its first answer in whole words.

    SQuAD marks answers by characters; an answer that begins or ends within a word gets the whole word. A question
    without an answer (version 2 has those) is left out.
    """
    content = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise ValueError(f"{path} is not a file of SQuAD: it has no list called data")
    found = []
    for paragraph in (paragraph for article in content["data"] for paragraph in article["paragraphs"]):
        words = list(WORD.finditer(paragraph["context"]))
        passage = tuple(word.group().lower() for word in words)
        for asked in paragraph["qas"]:
            if not asked["answers"]:
                continue
            first = asked["answers"][0]["answer_start"]
            last = first + len(asked["answers"][0]["text"])
            inside = [place for place, word in enumerate(words) if word.end() > first and word.start() < last]
            if inside:
                question = tuple(WORD.findall(asked["question"].lower()))
                found.append(Question(passage, question, inside[0], inside[-1]))
    return found


def squad() -> Splits[list[Question]]:
    """SQuAD 1.1, 98,000 questions about Wikipedia, for those with a network; its development file is the test split."""
    paths = {name.partition("-v")[0].rpartition("-")[2]: path for name, path in fetch("squad").items()}
    learned = split_by(read_squad(paths["train"]), lambda q: " ".join(q.passage), validation=0.05, test=0.0)
    return Splits(learned.train, learned.validation, read_squad(paths["dev"]))
