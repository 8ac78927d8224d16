"""What the tests of the book share: the gate code itself, loaded from where the project uses it, and one built site."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import pytest
import yaml
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Locator, Page

from lecturelib.figures import Explorer

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120_000  # milliseconds until a page that does not answer is broken, and not merely on a busy machine
PHONE = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 800}}


def toc_pages() -> list[str]:
    """Every page of the table of contents, in order."""
    toc = yaml.safe_load((ROOT / "book" / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [chapter for part in toc["parts"] for chapter in part["chapters"]]
    with_sections = [[chapter, *chapter.get("sections", [])] for chapter in chapters]
    return [toc["root"], *(page["file"] for pages in with_sections for page in pages)]


PAGES = toc_pages()
CHAPTERS = [name for name in PAGES if (ROOT / "book" / f"{name}.ipynb").exists()]
ALL_PAGES = [*PAGES, "search"]  # the search page has no source of ours, but readers see it


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `any_page` or `chapter_page` runs for each."""
    for name, pages in (("any_page", ALL_PAGES), ("chapter_page", CHAPTERS)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, pages)


def load(path: Path) -> ModuleType:
    """Import a script by its path."""
    spec = importlib.util.spec_from_file_location(f"book_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def all_pages() -> list[str]:
    """Every page of the site."""
    return ALL_PAGES


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def load_script() -> Callable[[Path], ModuleType]:
    """Import a script by its path, for tests of the programs in book/runs."""
    return load


@pytest.fixture(scope="session")
def execute() -> ModuleType:
    """book/execute.py, which `make notebooks` runs."""
    return load(ROOT / "book" / "execute.py")


@pytest.fixture(scope="session")
def notebook_rules() -> ModuleType:
    """book/notebook_rules.py."""
    return load(ROOT / "book" / "notebook_rules.py")


@pytest.fixture(scope="session")
def suite_command() -> Callable[[str], list[str]]:
    """The command that `make test` runs for a suite, by the suite's name."""
    script = load(ROOT / "tests" / "run_all.py")
    commands = {suite.name: suite.command for suite in (*script.wide_suites(), *script.narrow_suites())}
    return lambda name: list(commands[name])


@pytest.fixture(scope="session")
def run_command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command in a folder and return what it said, with this clone's lecturelib in view."""

    def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        return subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, check=False)

    return run


@pytest.fixture(scope="session")
def site(
    tmp_path_factory: pytest.TempPathFactory,
    suite_command: Callable[[str], list[str]],
    run_command: Callable[..., subprocess.CompletedProcess[str]],
) -> Path:
    """The built site: the one LECTURELIB_SITE names, as `make test` does, or one built now."""
    if given := os.environ.get("LECTURELIB_SITE"):
        assert (Path(given) / "index.html").is_file(), (
            f"LECTURELIB_SITE={given} holds no site; build it with `make site`"
        )
        return Path(given).resolve()
    out = tmp_path_factory.mktemp("site")
    command = suite_command("site")
    command[command.index("--path-output") + 1] = str(out)
    result = run_command(command, ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    return out / "_build" / "html"


@pytest.fixture(scope="session")
def soup(site: Path) -> Callable[[str], BeautifulSoup]:
    """A page's HTML as built."""

    @cache
    def read(name: str) -> BeautifulSoup:
        return BeautifulSoup((site / f"{name}.html").read_text(encoding="utf-8"), "html.parser")

    return read


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def addresses(site: Path) -> Iterator[dict[str, str]]:
    """Where the site can be visited: over http on a free port, and straight from its folder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(site)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield {"http": f"http://127.0.0.1:{server.server_port}", "file": site.as_uri()}
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Show an explorer alone on a page; whatever the page complains about or fetches fails the test."""
    contexts, complaints = [], []

    def show(explorer: Explorer, copies: int = 1, **context_options: Any) -> Page:
        path = tmp_path / "page.html"
        body = explorer._repr_html_() * copies
        head = '<meta charset=utf-8><meta name=viewport content="width=device-width, initial-scale=1"><title>t</title>'
        path.write_text(f"<!doctype html>{head}<body>{body}", encoding="utf-8")
        context = browser.new_context(**context_options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url) if "file:" not in request.url else None)
        page.goto(path.as_uri())
        return page

    yield show
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def open_on_phone(open_page: Callable[..., Page]) -> Iterator[Callable[[Explorer], Page]]:
    """Show an explorer alone on the page of a phone; at the end of the test it must still fit between the edges."""
    pages = []

    def show(explorer: Explorer) -> Page:
        pages.append(open_page(explorer, **PHONE))
        return pages[-1]

    yield show
    for page in pages:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.fixture(scope="session")
def tap() -> Callable[..., None]:
    """Touch an element, in its middle or at a position on it, and wait for what the browser makes of it.

    That is a click or, on a slider, a new value; it comes some time after the touch itself.
    """

    def touch(target: Locator, **options: Any) -> None:
        page = target.page
        page.evaluate(
            """() => {
                window.touched = false;
                const note = () => { window.touched = true; };
                for (const event of ["click", "input"]) {
                    window.addEventListener(event, note, { once: true, capture: true });
                }
            }"""
        )
        target.tap(**options)
        page.wait_for_function("window.touched")

    return touch
