"""Captions of photographs in the layouts that people have."""

import json

import pytest

from lecturelib.data import photo_captions


def test_photo_captions_reads_coco_and_flickr_alike(tmp_path):
    coco = {
        "images": [{"id": 7, "file_name": "b.jpg"}, {"id": 3, "file_name": "a.jpg"}],
        "annotations": [
            {"image_id": 3, "caption": "A dog runs. "},
            {"image_id": 7, "caption": "Two cats, asleep."},
            {"image_id": 3, "caption": "A brown dog."},
        ],
    }
    (tmp_path / "captions_val2014.json").write_text(json.dumps(coco))
    lines = ["image,caption", "a.jpg,A dog runs.", 'b.jpg,"Two cats, asleep."', "a.jpg,A brown dog."]
    (tmp_path / "captions.txt").write_text("\n".join(lines))
    want = [
        (tmp_path / "a.jpg", ("A dog runs.", "A brown dog.")),
        (tmp_path / "b.jpg", ("Two cats, asleep.",)),
    ]
    for name in ("captions_val2014.json", "captions.txt"):
        assert photo_captions(tmp_path / name, tmp_path) == want


def test_photo_captions_says_what_it_needs(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"captions_\*\.json"):
        photo_captions(tmp_path / "none.json", tmp_path)
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(ValueError, match='"images" and "annotations"'):
        photo_captions(tmp_path / "x.json", tmp_path)
    (tmp_path / "x.txt").write_text("photo,words\na,b\n")
    with pytest.raises(ValueError, match="columns image,caption"):
        photo_captions(tmp_path / "x.txt", tmp_path)
