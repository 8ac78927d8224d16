"""What every test may count on."""

import os
import shutil
from collections.abc import Iterator

import pytest
from hypothesis import settings
from playwright.sync_api import Browser, sync_playwright

# No time limit for a single example: a busy machine is slow, and that is no failure.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium. Without it a test fails, unless ALLOW_SKIPS=1 says that is expected."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        say = pytest.skip if os.environ.get("ALLOW_SKIPS") == "1" else pytest.fail
        say("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()
