"""Captions with dates, by hand."""

from datetime import date

from jobs.corpora.tric import Split
from jobs.tric_captions import captions

TEMPLATES = {"none": "{caption}", "year": "{date}: {caption}", "decade": "In the {date}s, {caption}"}


def test_a_text_for_each_template_date_and_caption() -> None:
    days = (date(1894, 7, 13), date(1891, 1, 1), date(1894, 1, 1), date(1901, 5, 5))
    split = Split(("a", "b", "c", "d"), days, {"1": "A boat.", "2": "The {date} and {caption}"}, None)
    rows = captions(split, TEMPLATES, "en")
    assert [(row["revision"], row["date"], row["source"], row["text"]) for row in rows] == [
        ("none", None, "1", "A boat."),
        ("none", None, "2", "The {date} and {caption}"),
        ("year", "1891", "1", "1891: A boat."),
        ("year", "1891", "2", "1891: The {date} and {caption}"),
        ("year", "1894", "1", "1894: A boat."),
        ("year", "1894", "2", "1894: The {date} and {caption}"),
        ("year", "1901", "1", "1901: A boat."),
        ("year", "1901", "2", "1901: The {date} and {caption}"),
        ("decade", "1890", "1", "In the 1890s, A boat."),
        ("decade", "1890", "2", "In the 1890s, The {date} and {caption}"),
        ("decade", "1900", "1", "In the 1900s, A boat."),
        ("decade", "1900", "2", "In the 1900s, The {date} and {caption}"),
    ]
    assert len({row["text_id"] for row in rows}) == len(rows)
    assert {(row["role"], row["language"]) for row in rows} == {("caption", "en")}
