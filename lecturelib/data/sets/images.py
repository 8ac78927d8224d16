"""Pictures with a class each: digits, MNIST, Fashion-MNIST and CIFAR-10."""

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lecturelib.data.store.archives import read_member, read_members
from lecturelib.data.store.fetching import fetch
from lecturelib.data.store.folders import working_folder
from lecturelib.data.store.splits import Splits, split_of
from lecturelib.machine.caches import cache_folder

DIGITS = tuple("0123456789")
FASHION = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Images:
    """Pictures and their classes.

    Shapes: pixels (N, channels, height, width) in 0..255, labels (N,); `classes[label]` is the name.
    """

    pixels: Tensor
    labels: Tensor
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def scaled(self) -> Tensor:
        """The pixels as numbers from 0 to 1, of the same shape."""
        return self.pixels.float() / 255

    def __getitem__(self, chosen: slice | Tensor) -> "Images":
        return Images(self.pixels[chosen], self.labels[chosen], self.classes)


def digits() -> Splits[Images]:
    """1,797 handwritten digits of 8 × 8 pixels, which come with scikit-learn."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("the digits come with scikit-learn: pip install 'lecturelib[book]'") from error
    bundle = load_digits()
    pixels = np.rint(bundle.images * (255 / 16)).astype(np.uint8)[:, None]  # (N, 1, 8, 8)
    parts = _split(pixels, bundle.target, DIGITS, validation=0.1, test=0.2)
    return Splits(parts["train"], parts["validation"], parts["test"])


def mnist() -> Splits[Images]:
    """70,000 handwritten digits of 28 × 28 pixels; the official test set, a tenth of the rest for validation."""
    return _with_official_test(_read_idx(fetch("mnist")), DIGITS)


def fashion_mnist() -> Splits[Images]:
    """70,000 pieces of clothing of 28 × 28 pixels; the official test set, a tenth of the rest for validation."""
    files = fetch("fashion_mnist")
    if len(files) > 1:
        return _with_official_test(_read_idx(files), FASHION)
    (path,) = files.values()
    return _with_official_test(_decoded_once(path, _read_fashion_json), FASHION)


def cifar10() -> Splits[Images]:
    """60,000 colour photos of 32 × 32 pixels; the official test set, a tenth of the rest for validation."""
    (path,) = fetch("cifar10").values()
    return _with_official_test(
        _decoded_once(path, _read_cifar_png if "tfjs" in path.name else _read_cifar_binary), CIFAR10
    )


def _with_official_test(arrays: Arrays, classes: tuple[str, ...]) -> Splits[Images]:
    """Keep the test set, drop training pictures that are also in it, and hold a tenth of the others out."""
    test = Images(torch.from_numpy(arrays["test_pixels"]), torch.from_numpy(arrays["test_labels"]).long(), classes)
    seen = {picture.tobytes() for picture in arrays["test_pixels"]}
    fresh = np.array([picture.tobytes() not in seen for picture in arrays["train_pixels"]])
    parts = _split(arrays["train_pixels"][fresh], arrays["train_labels"][fresh], classes, validation=0.1, test=0.0)
    return Splits(parts["train"], parts["validation"], test)


def _split(
    pixels: np.ndarray, labels: np.ndarray, classes: tuple[str, ...], *, validation: float, test: float
) -> dict[str, Images]:
    """Deal pictures out by their content, so that equal pictures share a split."""
    names = np.array([split_of(p.tobytes().decode("latin-1"), validation=validation, test=test) for p in pixels])
    return {
        name: Images(torch.from_numpy(pixels[names == name]), torch.from_numpy(labels[names == name]).long(), classes)
        for name in ("train", "validation", "test")
    }


def read_idx(content: bytes) -> np.ndarray:
    """Read the IDX format of MNIST: a magic number with the rank, the sizes, then the bytes."""
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    if content[:3] != b"\x00\x00\x08":
        raise ValueError(f"this is not an IDX file of bytes: it starts with {content[:4].hex()}, not 000008")
    rank = content[3]
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", rank, offset=4))
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * rank)
    if values.size != np.prod(shape):
        raise ValueError(f"an IDX file of shape {shape} holds {int(np.prod(shape))} bytes, and this one {values.size}")
    return values.reshape(shape).copy()  # (N,) or (N, 28, 28)


def _read_idx(files: dict[str, Path]) -> Arrays:
    """Four IDX files: members of one package, or a gzip file each."""
    arrays = {}
    for split, stem in (("train", "train"), ("test", "t10k")):
        for kind, rank in (("pixels", "images-idx3"), ("labels", "labels-idx1")):
            if len(files) == 1:
                (path,) = files.values()
                content = read_member(path, f"*/data/{stem}-{rank}-ubyte")
            else:
                content = next(path for file, path in files.items() if f"{stem}-{rank}" in file).read_bytes()
            arrays[f"{split}_{kind}"] = read_idx(content)
        arrays[f"{split}_pixels"] = arrays[f"{split}_pixels"][:, None]  # (N, 1, 28, 28)
    return arrays


def _read_fashion_json(path: Path) -> Arrays:
    """One JSON file a class, 7,000 pictures each, of which the first 1,000 are the official test pictures."""
    train, test, train_labels, test_labels = [], [], [], []
    for member, content in read_members(path, "package/src/clothes/*.json"):
        label = int(Path(member).stem)
        rows = [row for row in json.loads(content)["data"] if row]  # two rows of the first class are empty
        pictures = np.array(rows, dtype=np.uint8).reshape(-1, 1, 28, 28)  # (7000, 1, 28, 28)
        held_out = len(pictures) // 7
        test.append(pictures[:held_out])
        train.append(pictures[held_out:])
        test_labels += [label] * held_out
        train_labels += [label] * (len(pictures) - held_out)
    return {
        "train_pixels": np.concatenate(train),
        "train_labels": np.array(train_labels, dtype=np.uint8),
        "test_pixels": np.concatenate(test),
        "test_labels": np.array(test_labels, dtype=np.uint8),
    }


def _read_cifar_png(path: Path) -> Arrays:
    """Six PNG pictures with a photo in each row of 1,024 pixels, and two lists of labels."""
    members = {Path(name).stem: content for name, content in read_members(path, "package/*_*.*")}

    def photos(stem: str) -> np.ndarray:
        with Image.open(io.BytesIO(members[stem])) as picture:
            rows = np.asarray(picture.convert("RGB"))
        return rows.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)  # (N, 3, 32, 32)

    batches = sorted(stem for stem in members if stem.startswith("data_batch_"))
    return {
        "train_pixels": np.concatenate([photos(stem) for stem in batches]),
        "train_labels": np.array(json.loads(members["train_lables"]), dtype=np.uint8),  # their spelling
        "test_pixels": np.ascontiguousarray(photos("test_batch")),
        "test_labels": np.array(json.loads(members["test_lables"]), dtype=np.uint8),
    }


def _read_cifar_binary(path: Path) -> Arrays:
    """The authors' binary files: a byte of label, then 3,072 bytes of pixels, for each photo."""
    arrays: dict[str, list[np.ndarray]] = {"train": [], "test": []}
    for name, content in sorted(read_members(path, "*_batch*.bin")):
        records = np.frombuffer(content, np.uint8).reshape(-1, 1 + 3 * 32 * 32)  # (N, 3073)
        arrays["test" if "test_batch" in name else "train"].append(records)
    joined = {split: np.concatenate(records) for split, records in arrays.items()}
    pixels = {f"{split}_pixels": records[:, 1:].reshape(-1, 3, 32, 32) for split, records in joined.items()}
    labels = {f"{split}_labels": records[:, 0].copy() for split, records in joined.items()}
    return {**{key: np.ascontiguousarray(value) for key, value in pixels.items()}, **labels}


def _decoded_once(path: Path, read: Callable[[Path], Arrays]) -> Arrays:
    """Read an archive that takes seconds to decode, and keep the arrays in the cache beside it.

    The file of arrays is a zip, so every part has a checksum, and a damaged one is made anew.
    """
    decoded = cache_folder() / f"{path.name}.npz"
    if decoded.is_file():
        try:
            with np.load(decoded, allow_pickle=False) as stored:
                return {key: stored[key] for key in stored.files}
        except (zipfile.BadZipFile, ValueError, KeyError, EOFError, OSError):
            decoded.unlink(missing_ok=True)
    arrays = read(path)
    with working_folder(decoded.parent, "decode") as folder:
        np.savez(
            folder / decoded.name,
            train_pixels=arrays["train_pixels"],
            train_labels=arrays["train_labels"],
            test_pixels=arrays["test_pixels"],
            test_labels=arrays["test_labels"],
        )
        (folder / decoded.name).replace(decoded)
    return arrays
