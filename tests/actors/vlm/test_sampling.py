"""Draws of one token, with numbers and likelihoods whose outcome is known."""

from typing import Any

import pytest

from actors.vlm.sampling import Sampling, draw
from tests.cases import check_cases


def test_settings_that_are_not_allowed() -> None:
    cases = [
        ({"temperature": -0.1}, "temperature=-0.1"),
        ({"temperature": float("inf")}, "temperature=inf"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"top_p": 1.1}, "top_p=1.1"),
        ({"max_tokens": 0}, "max_tokens=0"),
    ]

    def check(settings: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Sampling(**settings)

    check_cases(check, cases)
    Sampling(temperature=0.0, top_p=1.0, max_tokens=1)


SHARES = ((0.25, 0.5, 0.25), (0.125, 0.125, 0.75))


def drawn(number: float, **settings: float) -> list[int]:
    import torch

    logits = torch.tensor(SHARES).log()
    tokens: list[int] = draw(logits, [number, number], Sampling(**settings)).tolist()  # type: ignore[arg-type]
    return tokens


def test_a_number_falls_on_the_cumulative_distribution() -> None:
    expected = {0.0: [0, 0], 0.13: [0, 1], 0.24: [0, 1], 0.3: [1, 2], 0.74: [1, 2], 0.99: [2, 2]}
    assert {number: drawn(number) for number in expected} == expected


@pytest.mark.parametrize("number", [0.0, 0.5, 0.99])
def test_temperature_0_takes_the_most_likely_token(number: float) -> None:
    assert drawn(number, temperature=0) == drawn(number, top_p=0.4) == [1, 2]


def test_the_nucleus_is_the_smallest_set_with_enough_probability() -> None:
    """With 0.6, the first row has the tokens 1 and 0 with 0.5 and 0.25 of 0.75, the second one the token 2 alone."""
    assert [drawn(number, top_p=0.6) for number in (0.0, 0.66, 0.67, 0.99)] == [[1, 2], [1, 2], [0, 2], [0, 2]]
    # Of the second row, 2 and 0: 0.75 and 0.125 of 0.875.
    assert [drawn(number, top_p=0.8)[1] for number in (0.85, 0.86)] == [2, 0]


def test_a_low_temperature_sharpens() -> None:
    """At 0.5 the shares are squared: 1, 4, 1 of 6, and 1, 1, 36 of 38."""
    assert [drawn(number, temperature=0.5) for number in (0.02, 0.04, 0.16, 0.17, 0.83, 0.84)] == [
        [0, 0], [0, 1], [0, 2], [1, 2], [1, 2], [2, 2]
    ]  # fmt: skip


def test_a_token_without_probability_is_never_drawn() -> None:
    import torch

    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf]])
    assert [draw(logits, [number], Sampling()).tolist() for number in (0.0, 1 - 1e-16)] == [[1], [1]]
    for wrong in (torch.nan, torch.inf):
        with pytest.raises(ValueError, match="not finite"):
            draw(torch.tensor([[0.0, wrong]]), [0.5], Sampling())
