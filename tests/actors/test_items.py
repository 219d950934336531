"""Items that no model is asked about, and why."""

from typing import Any

from actors.items import EMPTY_CONTEXT, NO_RESPONSE, skip_reason
from actors.status import TIMED_OUT, failed_status
from tests.cases import check_cases


def test_items_that_are_skipped() -> None:
    skipped = ("skipped", "picture_count")
    missing = ("missing_input", "no_picture")
    cases: list[tuple[dict[str, Any], int | None, tuple[str, str] | None]] = [
        ({"status": "ok", "pictures": [b"x"]}, 1, None),
        ({"status": "ok", "pictures": []}, 0, None),
        ({"status": "ok", "pictures": None}, 0, None),
        ({"status": "missing", "pictures": None}, 0, None),  # the prompt shows none
        *(({"status": "ok", "pictures": [b"x", b"y"]}, shown, None) for shown in (0, 2, None)),
        ({"status": "ok", "pictures": [b"x", b"y", b"z"]}, 2, skipped),
        *(({"status": "ok", "pictures": []}, shown, missing) for shown in (1, None)),
        *(({"status": "ok", "pictures": None}, shown, missing) for shown in (1, None)),
        ({"status": "ok", "pictures": [b"x", None]}, None, missing),
        ({"status": "ok", "pictures": [b"x", None]}, 2, missing),
        ({"status": "ok", "pictures": [b"x", None]}, 1, skipped),
        ({"status": "missing", "pictures": [None]}, 1, missing),
        ({"status": "error", "pictures": [b"x"]}, None, missing),
        ({"status": "ok", "pictures": [b"x", b"y"]}, 1, skipped),
        ({"status": "reported", "pictures": None}, 0, ("reported", "excluded")),
        ({"status": "reported", "pictures": [b"x", b"y"]}, 1, ("reported", "excluded")),
        ({"status": failed_status(TIMED_OUT), "pictures": [b"x"]}, 1, ("error", "timed_out")),
        ({"status": NO_RESPONSE, "pictures": [b"x"]}, 1, ("skipped", "no_response")),
        ({"status": NO_RESPONSE, "pictures": []}, 0, ("skipped", "no_response")),
    ]

    def check(item: dict[str, Any], pictures: int | None, expected: tuple[str, str] | None) -> None:
        reason = skip_reason(item, pictures=pictures)
        assert (reason and (reason[0].value, reason[1].kind)) == expected

    check_cases(check, cases)
    three = skip_reason({"status": "ok", "pictures": [b"x", b"y", b"z"]}, pictures=2)
    gone = skip_reason({"status": "missing", "pictures": [b"x"]}, pictures=1)
    assert three
    assert three[1].message.startswith("the item has 3 pictures, but the prompt shows 2; ")
    assert gone
    assert gone[1].message == "the picture's status is missing"


def test_items_without_context_are_skipped_where_it_is_required() -> None:
    item = {"status": "ok", "pictures": [b"x"], "title": " \n", "text": None}
    cases: list[tuple[dict[str, Any], list[str], bool]] = [
        ({}, [], False),
        ({}, ["title", "text"], True),
        ({}, ["other"], True),
        ({"text": "A war."}, ["title", "text"], False),
        ({"text": "A war."}, ["title"], True),
    ]
    for texts, fields, is_skipped in cases:
        reason = skip_reason(item | texts, pictures=1, required_fields=fields)
        assert (reason and reason[1].kind) == ("empty_context" if is_skipped else None)
        assert reason is None or reason[1].message.endswith(f": {', '.join(fields)}")
    named = item | {"title": "Djembe", EMPTY_CONTEXT: "no article"}
    reason = skip_reason(named, pictures=1, required_fields=["title", "text"])
    assert reason
    assert reason[1] == ("empty_context", "the item has no text of its condition: no article")
    assert skip_reason(named, pictures=1) is None
    reason = skip_reason(item | {"pictures": []}, pictures=1, required_fields=["title"])
    assert reason
    assert reason[1].kind == "no_picture"
