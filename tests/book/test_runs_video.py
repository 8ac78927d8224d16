"""The run of videos in chapter 17: its end points measured again from its weights, and its program run for a step."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lecturelib.data.sets.fireflies import Flash, Night, draw_nights
from lecturelib.training import Run, shipped_run


@pytest.fixture(scope="module")
def program(load_script: Callable[[Path], ModuleType], root: Path) -> ModuleType:
    return load_script(root / "book" / "runs" / "video.py")


@pytest.fixture(scope="module")
def networks() -> Run:
    return shipped_run("video")


@pytest.fixture(scope="module")
def vivits() -> Run:
    return shipped_run("video_vivit")


def test_networks_measure_again_what_they_say(networks, program):
    seed = networks.facts["seed"][0]
    models, said = networks.load_into(program.models("networks", seed)), networks.facts["results"][str(seed)]
    for way, distances in (("convolutions", (1, 9)), ("dilated", (2,)), ("non_local", (1, 11))):
        for distance, again in program.accuracies(models[way], distances=distances).items():
            assert again == pytest.approx(said[way]["trained"][distance], abs=0.015), (way, distance)
    for way, distance in (("dilated", 20), ("non_local", 23)):
        again = program.accuracies(models[way], 200, columns=program.TWICE, distances=[distance])[str(distance)]
        assert again == pytest.approx(said[way]["twice"][str(distance)], abs=0.015), (way, distance)


def test_networks_of_the_video_run_cost_the_same(program):
    """The convolutions, dilated or not, have as much of everything, and the non-local block takes no more."""
    costs = program.costs("networks")
    assert costs["convolutions"] == costs["dilated"]
    assert costs["non_local"]["parameters"] < costs["convolutions"]["parameters"]
    assert costs["non_local"]["flops"] == pytest.approx(costs["convolutions"]["flops"], rel=0.02)


def test_vivits_measure_again_what_they_say(vivits, program):
    seed = vivits.facts["seed"][0]
    models, said = vivits.load_into(program.models("vivit", seed)), vivits.facts["results"][str(seed)]
    assert program.naming(models["eyes"]) == pytest.approx(said["eyes"], abs=0.015)
    for way, distances in (("joint", (2, 11)), ("factorised", (1, 8))):
        for distance, again in program.accuracies(models[way], distances=distances).items():
            assert again == pytest.approx(said[way]["trained"][distance], abs=0.015), (way, distance)


def test_vivits_cost_what_the_run_says_and_the_factorised_one_less(vivits, program):
    costs = program.costs("vivit")
    assert costs == vivits.facts["costs"]
    assert costs["factorised"]["flops"] < costs["joint"]["flops"]


def test_vivits_start_from_the_same_image_model(program):
    """Before any step, a time alone looks the same to the image model and to the factorised one's spatial encoder."""
    eyes, joint, factorised = (program.build(way, 4).eval() for way in ("eyes", *program.VIVITS))
    for model in (joint, factorised):
        program.start_from(model, eyes)
    clips = program.clips_of(draw_nights(3, seed=5), seed=5).images  # (B · times, 2, ...)
    seen = eyes.encoder(eyes.tubelets(clips))  # (B · times, D)
    tubelets = factorised.tubelets(clips.unflatten(0, (3, -1)).flatten(1, 2))  # (B, times, rows, columns, D)
    again = factorised.encoder.spatial(tubelets.flatten(0, 1).flatten(1, 2))[:, 0]
    torch.testing.assert_close(again, seen)
    positions = joint.encoder.encoder.positions[:, 1:].unflatten(1, (4, 24))
    assert torch.equal(positions[:, 0], positions[:, 3])
    assert torch.equal(positions[:, 0], eyes.encoder.encoder.positions[:, 1:])


def test_clips_name_the_colour_that_flashes_in_them(program):
    night = Night(Flash("red", 1, 0, 3), Flash("yellow", 6, 1, 9), (3.0, 2.0, 1.0))
    batch = program.clips_of([night], seed=2)
    assert batch.images.shape == (4, 2, 3, 8, 48)
    assert batch.targets.tolist() == [1, 0, 0, 4]
    videos = program.batch_of([night], seed=2).images
    torch.testing.assert_close(batch.images[3], videos[0, 6:8])


def test_training_nights_are_near_first_and_then_have_every_distance(program):
    early, late = (
        [night for step in steps for night in program.training_nights(step, 22, seed=1)]
        for steps in (range(11), range(11, 22))
    )
    assert Counter(night.distance for night in early) == {1: 176, 2: 176}
    assert Counter(night.distance for night in late) == dict.fromkeys(range(1, 12), 32)
    again, other = program.training_nights(2, 22, seed=1), program.training_nights(2, 22, seed=0)
    assert early[2 * program.BATCH : 3 * program.BATCH] == again != other
    tested = {night for distance in (1, 9) for night in draw_nights(400, distance=distance, seed=-1)}
    assert not tested & {*early, *late}


@pytest.mark.parametrize("what", ["networks", "vivit"])
def test_video_runs_can_be_started_again(program, what, monkeypatch, tmp_path, capsys):
    """A step of every model: the program writes all that the chapter reads, and goes on where it was."""
    threads = torch.get_num_threads()
    last = "non_local" if what == "networks" else "factorised"
    for seeds in (["3"], ["3", "4"]):
        options = ["--steps", "1", "--count", "2", "--seeds", *seeds, "--runs", str(tmp_path)]
        monkeypatch.setattr("sys.argv", ["video.py", what, *options])
        program.main()
        said = capsys.readouterr().out
        assert f"{seeds[-1]} {last}" in said
    assert f"3 {last}" not in said  # it was there already
    torch.set_num_threads(threads)
    written = shipped_run("video" if what == "networks" else "video_vivit", tmp_path)
    assert set(written.facts["results"]) == {"3", "4"}
    models = written.load_into(program.models(what, 3))
    again = program.accuracies(models[last], 2)
    assert again == pytest.approx(written.facts["results"]["3"][last]["trained"], abs=1e-6)
