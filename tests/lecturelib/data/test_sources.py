"""pip and npm as couriers: the user's own, from the user's own index, running nobody's code."""

import base64
import hashlib
import io
import json
import shutil
import zipfile

import pytest

from lecturelib.data import FetchError, fetch

from .packed import tarball


def wheel(name, files):
    content = io.BytesIO()
    info = f"{name}-1.0.dist-info"
    files = files | {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode()}
    files |= {f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n", f"{info}/RECORD": b""}
    with zipfile.ZipFile(content, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return content.getvalue()


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that is the user's whole package index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_pip_brings_a_wheel(index, cache, make_archive, register):
    content = wheel("tiny_poems", {"tiny_poems/poems.txt": b"roses"})
    (index / "tiny_poems-1.0-py3-none-any.whl").write_bytes(content)
    register("poems", (make_archive("pip:tiny-poems==1.0", "tiny_poems-1.0-py3-none-any.whl", content),))
    (path,) = fetch("poems").values()
    assert path.read_bytes() == content
    assert sorted(p.name for p in cache.iterdir()) == [".poems.lock", path.name]


def test_looking_for_pip_leaves_torch_its_distutils(index, cache, make_archive, register):
    """Asked for pip in the usual way, setuptools would stop standing in for distutils, which torch's compiler needs."""
    finder = pytest.importorskip("_distutils_hack").DISTUTILS_FINDER
    test_pip_brings_a_wheel(index, cache, make_archive, register)
    assert "spec_for_distutils" not in vars(finder)


def test_pip_brings_a_wheel_into_a_cache_named_from_here(index, cache, make_archive, register, monkeypatch):
    monkeypatch.chdir(cache.parent)
    monkeypatch.setenv("LECTURELIB_CACHE", cache.name)
    content = wheel("tiny_poems", {"tiny_poems/poems.txt": b"roses"})
    (index / "tiny_poems-1.0-py3-none-any.whl").write_bytes(content)
    register("poems", (make_archive("pip:tiny-poems==1.0", "tiny_poems-1.0-py3-none-any.whl", content),))
    assert [path.read_bytes() for path in fetch("poems").values()] == [content]


def test_pip_brings_a_source_distribution_without_running_it(index, cache, make_archive, register):
    setup = b"raise SystemExit('code that came with the data was run')"
    info = b"Metadata-Version: 1.0\nName: tiny-poems\nVersion: 1.0\n"
    files = {"tiny-poems-1.0/setup.py": setup, "tiny-poems-1.0/PKG-INFO": info, "tiny-poems-1.0/poems.txt": b"roses"}
    content = tarball(files)
    (index / "tiny-poems-1.0.tar.gz").write_bytes(content)
    register("poems", (make_archive("pip:tiny-poems==1.0", "tiny-poems-1.0.tar.gz", content),))
    (path,) = fetch("poems").values()
    assert path.read_bytes() == content


def test_pip_with_other_content_in_the_index_is_refused(index, cache, make_archive, register):
    (index / "tiny_poems-1.0-py3-none-any.whl").write_bytes(wheel("tiny_poems", {"tiny_poems/poems.txt": b"weeds"}))
    register("poems", (make_archive("pip:tiny-poems==1.0", "tiny_poems-1.0-py3-none-any.whl", b"roses"),))
    with pytest.raises(FetchError, match="other content than the course expects"):
        fetch("poems")
    assert [p.name for p in cache.iterdir()] == [".poems.lock"]


def test_pip_without_the_package_says_so(index, cache, make_archive, register):
    register("poems", (make_archive("pip:tiny-poems==1.0", "tiny_poems-1.0-py3-none-any.whl", b"roses"),))
    with pytest.raises(
        FetchError, match=r"pip:tiny-poems==1.0: .*(No matching distribution|satisfies the requirement)"
    ):
        fetch("poems")


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed (it comes with Node.js)")
def test_npm_brings_a_package(web, cache, make_archive, register, monkeypatch):
    content = tarball(
        {"package/package.json": b'{"name": "tiny-poems", "version": "1.0.0"}', "package/a.txt": b"roses"}
    )
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
    release = {"name": "tiny-poems", "version": "1.0.0"}
    release["dist"] = {"tarball": web.address + "/tiny-poems-1.0.0.tgz", "integrity": integrity}
    versions = {"name": "tiny-poems", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": release}}
    web.pages = {"/tiny-poems": json.dumps(versions).encode(), "/tiny-poems-1.0.0.tgz": content}
    monkeypatch.setenv("npm_config_registry", web.address + "/")
    register("poems", (make_archive("npm:tiny-poems@1.0.0", "tiny-poems-1.0.0.tgz", content),))
    (path,) = fetch("poems").values()
    assert path.read_bytes() == content
    assert sorted(p.name for p in cache.iterdir()) == [".poems.lock", path.name]


def test_npm_that_is_missing_is_named(cache, make_archive, register, monkeypatch):
    monkeypatch.setattr("lecturelib.data.store.sources.shutil.which", lambda name: None)
    register("poems", (make_archive("npm:tiny-poems@1.0.0", "tiny-poems-1.0.0.tgz", b"roses"),))
    with pytest.raises(FetchError, match=r"needs npm, which is not installed \(it comes with Node.js\)"):
        fetch("poems")
