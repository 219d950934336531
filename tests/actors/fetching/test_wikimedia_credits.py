import contextlib
import json
from typing import Any

import pytest

from actors.fetching.wikimedia import parse
from actors.fetching.wikimedia_credits import (
    TITLES_PER_REQUEST,
    UNKNOWN,
    NoAnswerError,
    parse_answer,
    query_form,
    text_of,
)
from tests.cases import check_cases

FILES = [parse(f"https://upload.wikimedia.org/wikipedia/commons/a/ab/{name}") for name in ("A_b.jpg", "Ü.png")]


def page(title: str, **fields: str) -> dict[str, object]:
    return {"title": title, "imageinfo": [{"extmetadata": {name: {"value": value} for name, value in fields.items()}}]}


def test_the_form_names_the_titles() -> None:
    assert dict(query_form(FILES)) == {
        "action": "query",
        "format": "json",
        "formatversion": "2",
        "prop": "imageinfo",
        "iiprop": "extmetadata",
        "iiextmetadatafilter": "Artist|Attribution|Credit|LicenseShortName|UsageTerms",
        "redirects": "1",
        "maxlag": "5",
        "titles": "File:A b.jpg|File:Ü.png",
    }
    assert TITLES_PER_REQUEST == 50


def test_answers_in_the_order_of_the_files() -> None:
    pages = [
        page("File:Ü.png", Credit="<i>Own</i> work", UsageTerms="Public domain"),
        page("File:A b.jpg", Artist="Ada"),
    ]
    assert parse_answer(FILES, json.dumps({"query": {"pages": pages}}).encode()) == [
        ("Ada", UNKNOWN),
        ("Own work", "Public domain"),
    ]


def test_what_is_missing_is_unknown_and_what_moved_is_found() -> None:
    moved = {
        "normalized": [{"from": "File:A b.jpg", "to": "File:B"}],
        "redirects": [{"from": "File:B", "to": "File:C"}],
    }
    query = {
        **moved,
        "pages": [page("File:C", Artist="Ada", LicenseShortName="CC0"), {"title": "File:Ü.png", "missing": True}],
    }
    assert parse_answer(FILES, json.dumps({"query": query}).encode()) == [("Ada", "CC0"), (UNKNOWN, UNKNOWN)]
    number: Any = 4
    query = {"pages": [page("File:A b.jpg", UsageTerms=number), page("File:Ü.png")]}
    assert parse_answer(FILES, json.dumps({"query": query}).encode()) == [(UNKNOWN, "4"), (UNKNOWN, UNKNOWN)]
    circle = {"redirects": [{"from": "File:A b.jpg", "to": "File:X"}, {"from": "File:X", "to": "File:A b.jpg"}]}
    assert parse_answer(FILES, json.dumps({"query": circle}).encode())[0] == (UNKNOWN, UNKNOWN)


def test_the_author_and_the_short_name_of_the_licence_come_first() -> None:
    names = {
        "Credit": "c",
        "Attribution": "b",
        "Artist": "a",
        "UsageTerms": "Creative Commons",
        "LicenseShortName": "CC",
    }
    credits = []
    while names:
        credits.append(
            parse_answer(FILES[:1], json.dumps({"query": {"pages": [page("File:A b.jpg", **names)]}}).encode())
        )
        names.popitem()
    both, terms_only, *by_author = (credit for (credit,) in credits)
    assert both == ("a", "CC")
    assert terms_only == ("a", "Creative Commons")
    assert by_author == [("a", UNKNOWN), ("b", UNKNOWN), ("c", UNKNOWN)]


def test_no_answer() -> None:
    cases = [b"", b"<html>", b"[]", b'{"error": {"code": "maxlag"}}', b'{"query": {"pages": [1]}}']

    def check(body: bytes) -> None:
        with pytest.raises(NoAnswerError):
            parse_answer(FILES, body)

    check_cases(check, cases)


def test_text_of() -> None:
    assert text_of("<p>A &amp; B<br>C</p><script>x()</script><style>p{}</style>  d") == "A & B C d"
    assert text_of("A<div>B<li>C<td>D<tr>E<p>F<br>G<b>H</b></p>I") == "A B C D E F GHI"
    assert len(text_of("x" * 9999)) == 500
    assert text_of("</style>A<b>B</b>C<li>D") == "ABC D"
    assert text_of("<script>x<style>y</style>z</script>A") == "A"
    assert text_of("a < b <") == "a < b <"


def test_an_answer_of_any_shape_is_credits_or_none() -> None:
    def check(body: bytes) -> None:
        with contextlib.suppress(NoAnswerError):
            credits = parse_answer(FILES, body)
            assert len(credits) == 2
            assert all(isinstance(text, str) and text.encode() for credit in credits for text in credit)

    values: list[Any] = [None, 5, "x", [], {}, [None], [5], [{}], {"x": 1}, True, 10**30]
    bodies = [json.dumps(value) for value in values]
    bodies += [json.dumps({"query": value}) for value in values]
    for key in ("pages", "normalized", "redirects"):
        bodies += [json.dumps({"query": {key: value}}) for value in values]
    for value in values:
        bodies += [json.dumps({"query": {"redirects": [{"from": "File:A b.jpg", "to": value}]}})]
        for fields in (value, {"Artist": value}, {"Artist": {"value": value}}):
            title = {"title": "File:A b.jpg", "imageinfo": [{"extmetadata": fields}]}
            bodies += [json.dumps({"query": {"pages": [title]}})]
        bodies += [json.dumps({"query": {"pages": [{"title": "File:A b.jpg", "imageinfo": value}]}})]
    for html in (
        "<![<![" * 3,
        "<!",
        "<?",
        "&#" + "9" * 5000 + ";",
        "<" * 50_000,
        "<a b='" * 999,
        "\ud83d",
        "<![CDATA[",
    ):
        bodies += [json.dumps({"query": {"pages": [page("File:A b.jpg", Artist=html)]}})]
    bodies += ["[" * 200_000, '{"query":' * 200_000, "", "\ufeff"]
    check_cases(check, [body.encode() for body in bodies])


def test_failures_of_the_parser_count_as_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({"query": {"pages": [page("File:A b.jpg", Artist="Ann")]}}).encode()

    def check(error: Exception) -> None:
        def fail(html: str) -> str:
            raise error

        monkeypatch.setattr("actors.fetching.wikimedia_credits.text_of", fail)
        with pytest.raises(NoAnswerError):
            parse_answer(FILES, body)

    check_cases(
        check, [(kind("x"),) for kind in (AssertionError, RuntimeError, RecursionError, OverflowError, OSError)]
    )


def test_half_a_character_in_a_name_is_replaced() -> None:
    body = json.dumps({"query": {"pages": [page("File:A b.jpg", Artist="Ann \ud83d")]}}).encode()
    assert parse_answer(FILES, body)[0] == ("Ann \ufffd", UNKNOWN)
