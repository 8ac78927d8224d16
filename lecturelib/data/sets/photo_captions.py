"""Captions of photographs, from files that you have: the layouts of COCO and of Flickr8k and Flickr30k.

No registry ships such data, so the chapters draw their own scenes; with these files the same models learn from photos.
"""

import csv
import json
from pathlib import Path
from typing import NamedTuple


class CaptionedPhoto(NamedTuple):
    """A photograph's file, and what people wrote of it."""

    path: Path
    captions: tuple[str, ...]


def photo_captions(captions: Path | str, images: Path | str) -> list[CaptionedPhoto]:
    """Read who captioned what; the photographs themselves are not opened.

    Args:
        captions: COCO's captions_*.json, or a captions.txt or .csv with the columns image and caption
        images: the folder of the photographs
    """
    source, folder = Path(captions), Path(images)
    if not source.exists():
        raise FileNotFoundError(f"there is no {source}; give COCO's captions_*.json or a captions.txt of Flickr")
    written: dict[str, list[str]] = {}
    for name, caption in _coco(source) if source.suffix == ".json" else _table(source):
        written.setdefault(name, []).append(caption.strip())
    return [CaptionedPhoto(folder / name, tuple(lines)) for name, lines in written.items()]


def _coco(source: Path) -> list[tuple[str, str]]:
    content = json.loads(source.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or not {"images", "annotations"} <= content.keys():
        raise ValueError(f'{source} has no "images" and "annotations", as COCO\'s captions_*.json do')
    names = {image["id"]: image["file_name"] for image in content["images"]}
    return [(names[annotation["image_id"]], annotation["caption"]) for annotation in content["annotations"]]


def _table(source: Path) -> list[tuple[str, str]]:
    with source.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        if not {"image", "caption"} <= set(rows.fieldnames or ()):
            raise ValueError(f"{source} must begin with the columns image,caption, got {rows.fieldnames}")
        return [(row["image"], row["caption"]) for row in rows]
