"""Items that no model is asked about, and why."""

from typing import Any

import pytest

from actors.items import NO_RESPONSE, skip_reason


@pytest.mark.parametrize(
    ("item", "pictures", "expected"),
    [
        ({"status": "ok", "pictures": [b"x"]}, 1, None),
        ({"status": "ok", "pictures": []}, 0, None),
        ({"status": "missing", "pictures": [None]}, 1, ("missing_input", "no_picture")),
        ({"status": "ok", "pictures": [b"x", b"y"]}, 1, ("skipped", "picture_count")),
        ({"status": "reported", "pictures": None}, 0, ("reported", "excluded")),
        ({"status": NO_RESPONSE, "pictures": [b"x"]}, 1, ("skipped", "no_response")),
        ({"status": NO_RESPONSE, "pictures": []}, 0, ("skipped", "no_response")),
    ],
)
def test_items_that_are_skipped(item: dict[str, Any], pictures: int, expected: tuple[str, str] | None) -> None:
    reason = skip_reason(item, pictures=pictures)
    assert (reason and (reason[0].value, reason[1].kind)) == expected
