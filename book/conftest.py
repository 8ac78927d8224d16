"""When the tests re-run the chapters with nbval."""

import pytest

from lecturelib.machine.bf16 import settle_bf16

settle_bf16()  # before a kernel imports torch

PATIENCE = 300.0  # seconds for a kernel to hand over its output: a busy machine is slow, not broken (nbval gives it 5)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if hasattr(item, "output_timeout"):
            item.output_timeout = PATIENCE
