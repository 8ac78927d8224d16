"""What an instructor hands out: one zip with the exercise notebooks and how to begin, and nothing that answers them."""

import zipfile
from pathlib import Path

BEGIN = """These are the exercises of a course on attention and transformers.

Open a notebook in JupyterLab or Colab and run its cells from the top; the first one installs what is missing.
Write your answers where it says `raise NotImplementedError`, run the check below each, and hand in the notebook.
"""
_MOMENT = (1980, 1, 1, 0, 0, 0)  # the same files give the same archive


def write_bundle(file: Path, notebooks: dict[str, str]) -> None:
    """Write the archive: notebooks by name, as `release` made them."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {"exercises/README.txt": BEGIN, **notebooks}.items():
            archive.writestr(zipfile.ZipInfo(name, _MOMENT), text, zipfile.ZIP_DEFLATED)
