"""What ZeRO's stages leave to each process, against the figure of its paper."""

import pytest

from lecturelib.evaluation import state_bytes


def test_state_bytes_match_the_papers_figure():
    """7.5 billion parameters on 64 processes: 120, 31.4, 16.6 and 1.9 GB."""
    totals = [state_bytes(7_500_000_000, processes=64, stage=stage).total / 1e9 for stage in range(4)]
    assert [round(total, 1) for total in totals] == [120.0, 31.4, 16.6, 1.9]


def test_state_bytes_share_the_optimizer_first_then_gradients_then_weights():
    each = (4, 4, 8)
    assert state_bytes(10, processes=5, stage=1, each=each) == (40, 40, 16)
    assert state_bytes(10, processes=5, stage=2, each=each) == (40, 8, 16)
    assert state_bytes(10, processes=5, stage=3, each=each) == (8, 8, 16)


def test_state_bytes_refuse_a_fourth_stage():
    with pytest.raises(ValueError, match="stage=4 must be 0, 1, 2 or 3"):
        state_bytes(10, stage=4)
