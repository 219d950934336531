"""How far the likelihoods of two engines may differ."""

from types import SimpleNamespace

import torch

from actors.vlm.shared_prefix import tolerance


def test_rounded_numbers_may_differ_by_more() -> None:
    expected = {torch.float32: 0.001, torch.bfloat16: 0.5, torch.float16: 0.5}
    assert {dtype: tolerance(SimpleNamespace(dtype=dtype)) for dtype in expected} == expected
