"""Items that no model is asked about, and why."""

from collections import Counter
from typing import Any

from actors.items import NO_RESPONSE, count_pictures, count_prompt, skip_reason
from tests.cases import check_cases


def test_items_that_are_skipped() -> None:
    cases = [
        ({"status": "ok", "pictures": [b"x"]}, 1, None),
        ({"status": "ok", "pictures": []}, 0, None),
        ({"status": "missing", "pictures": [None]}, 1, ("missing_input", "no_picture")),
        ({"status": "ok", "pictures": [b"x", b"y"]}, 1, ("skipped", "picture_count")),
        ({"status": "reported", "pictures": None}, 0, ("reported", "excluded")),
        ({"status": NO_RESPONSE, "pictures": [b"x"]}, 1, ("skipped", "no_response")),
        ({"status": NO_RESPONSE, "pictures": []}, 0, ("skipped", "no_response")),
    ]

    def check(item: dict[str, Any], pictures: int, expected: tuple[str, str] | None) -> None:
        reason = skip_reason(item, pictures=pictures)
        assert (reason and (reason[0].value, reason[1].kind)) == expected

    check_cases(check, cases)


def test_prompts_that_were_cut_or_moved_are_counted_per_item_and_field() -> None:
    tally: Counter[str] = Counter()
    count_prompt(tally, truncated=["article", "titles"], moves_system=False)
    count_prompt(tally, truncated=["article"], moves_system=True)
    count_prompt(tally, truncated=None, moves_system=False)
    assert tally == {
        "truncated/items": 2,
        "truncated field/article": 2,
        "truncated field/titles": 1,
        "system text/in the user's turn": 1,
    }


def test_pictures_are_counted_where_their_tokens_are_known() -> None:
    tally: Counter[str] = Counter()
    count_pictures(tally, pictures=2, tokens=90)
    count_pictures(tally, pictures=1, tokens=45)
    count_pictures(tally, pictures=1, tokens=None)
    count_pictures(tally, pictures=0, tokens=0)
    assert tally == {"pictures/shown": 3, "pictures/tokens": 135}
