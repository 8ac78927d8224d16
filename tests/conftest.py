"""What every test may count on."""

import inspect
import os
import shutil
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings
from playwright.sync_api import Browser, sync_playwright

from lecturelib.machine.bf16 import bf16_refusal, settle_bf16

settle_bf16()  # before any test imports torch

# Whoever starts the tests in the background may ignore SIGINT; the commands they interrupt would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where the processor gets bf16 wrong, skip the tests that compute in it, and say why."""
    if (reason := bf16_refusal()) is not None:
        for item in items:
            if computes_in_bf16(item):
                item.add_marker(pytest.mark.skip(reason=f"bf16 does not work on this processor: {reason}"))


def computes_in_bf16(item: pytest.Item) -> bool:
    """A test's parameters say so or, where they name no precision, its text."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    given = {str(value).removeprefix("torch.") for value in parameters}
    if given & {"bf16", "bfloat16"}:
        return True
    if given & {"fp32", "fp16", "float16", "float32", "float64"} or not hasattr(item, "function"):
        return False
    text = inspect.getsource(item.function)
    return "bf16" in text or "bfloat16" in text
