"""Archives as bytes, for tests that read them."""

import io
import tarfile
from collections.abc import Mapping


def tarball(files: Mapping[str, bytes]) -> bytes:
    """A .tar.gz with these files."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()
