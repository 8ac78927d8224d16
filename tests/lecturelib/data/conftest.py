"""A cache of the test's own, data sets of the test's own, and a web server that can misbehave."""

import hashlib
import http.server
import threading
from dataclasses import dataclass, field, replace

import pytest

from lecturelib.data import DATA_SETS, Archive, DataSet


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, no offline folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LECTURELIB_CACHE", str(folder))
    monkeypatch.delenv("LECTURELIB_DATA", raising=False)
    return folder


@pytest.fixture
def make_archive():
    """Describe a file of this content: make_archive(where, file, content)."""

    def make(where, file, content):
        return Archive(where=where, file=file, size=len(content), sha256=hashlib.sha256(content).hexdigest())

    return make


@pytest.fixture
def register(monkeypatch):
    """Add a data set with these routes to the registry: register(name, *routes)."""

    def add(name, *routes):
        described = DataSet(name=name, summary="three tiny poems", licence="CC0, for testing", routes=routes)
        monkeypatch.setitem(DATA_SETS, name, described)

    return add


@pytest.fixture
def pretend(cache, make_archive, monkeypatch):
    """Let a real data set's files be these small ones, already in the cache: pretend(name, {file: content})."""

    def put(name, files):
        cache.mkdir(exist_ok=True)
        for file, content in files.items():
            (cache / file).write_bytes(content)
        route = tuple(make_archive("https://example.invalid/" + file, file, content) for file, content in files.items())
        monkeypatch.setitem(DATA_SETS, name, replace(DATA_SETS[name], routes=(route,)))

    return put


@dataclass
class Web:
    """What the server offers by path, how many bytes it really sends, and what it was asked for."""

    address: str = ""
    pages: dict[str, bytes] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def web():
    """A web server on this machine; put content into web.pages."""
    offer = Web()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            offer.asked.append(self.path)
            content = offer.pages.get(self.path)
            if content is None:
                self.send_error(404, "Not Found")
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: offer.cut.get(self.path, len(content))])

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    offer.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield offer
    server.shutdown()
    thread.join()
    server.server_close()
