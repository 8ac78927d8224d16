"""Where things are kept that can be fetched or found out again."""

import os
from pathlib import Path

import platformdirs


def cache_folder() -> Path:
    """The folder for what is fetched and found out: LECTURELIB_CACHE, or the platform's place for caches."""
    if chosen := os.environ.get("LECTURELIB_CACHE"):
        return Path(chosen).expanduser()
    return platformdirs.user_cache_path("lecturelib", appauthor=False)
