"""A browser for the pages that grading hands out."""

import shutil
from pathlib import Path

import axe_core_python
import pytest
from playwright.sync_api import sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="session")
def chromium():
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe_source() -> str:
    (script,) = Path(axe_core_python.__file__).parent.rglob("axe.min.js")
    return script.read_text(encoding="utf-8")
