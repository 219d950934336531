"""A split of TRIC as it is released: with and without answers, and files that do not fit."""

from datetime import date
from pathlib import Path

import pytest

from jobs.corpora.tric import answer_lines, bucket, decade, read_split, worded_date
from jobs.errors import InputError
from tests.cases import check_cases

FILES = {
    "in.tsv": "a.png\t1894-07-13\r\n\nb.png\t1900-01-01\n",
    "captions.tsv": "7\tOne\\nline\n9\tTwo\n7\tOne\\nline\n",
    "expected.tsv": "9\n7\n",
}


def write(folder: Path, **changed: str | None) -> str:
    for name, text in {**FILES, **{f"{key}.tsv": text for key, text in changed.items()}}.items():
        if text is not None:
            (folder / name).write_text(text)
    return str(folder)


def test_pictures_dates_captions_and_answers(tmp_path: Path) -> None:
    split = read_split(write(tmp_path))
    assert (split.pictures, split.dates) == (("a.png", "b.png"), (date(1894, 7, 13), date(1900, 1, 1)))
    assert (split.captions, split.expected) == ({"7": "One\nline", "9": "Two"}, ("9", "7"))


def test_answers_may_be_hidden(tmp_path: Path) -> None:
    assert read_split(write(tmp_path, expected=None)).expected is None


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    cases = [
        ({"in": "a.png\t1894-07-13\na.png\t1895-01-01\n"}, "in.tsv: duplicate picture"),
        ({"in": "a.png\t1894-07-13\nb.png\t1895\n"}, "in.tsv line 2: '1895' is not a date"),
        ({"in": "\n"}, "no picture or no caption"),
        ({"captions": ""}, "no picture or no caption"),
        ({"captions": "7\tOne\n7\tTwo\n"}, "captions.tsv line 2: duplicate index 7"),
        ({"captions": "7\tOne\tmore\n"}, "captions.tsv line 1: 3 columns; 2 are required"),
        ({"captions": "7\t \n"}, "captions.tsv line 1: column 2 is empty"),
        ({"expected": "9\n"}, "expected.tsv: 1 lines for 2 pictures"),
        ({"expected": "9\n8\n"}, "expected.tsv: index 8 is not in captions.tsv"),
    ]

    def check(changed: dict[str, str], message: str) -> None:
        with pytest.raises(InputError, match=message):
            read_split(write(tmp_path, **changed))

    check_cases(check, cases)


def test_dates_in_the_words_of_templates_and_prompts() -> None:
    day = date(1899, 7, 13)
    assert [bucket(day, name) for name in ("none", "year", "decade")] == ["", "1899", "1890"]
    assert decade(day) == "1890s"
    words = [worded_date(day, name) for name in ("none", "year", "decade", "day")]
    assert words == ["", "1899", "the 1890s", "13 July 1899"]


def test_the_challenges_output_has_a_hundred_captions_in_a_line() -> None:
    many = [str(number) for number in range(101)]
    assert answer_lines([["2", "1"], many]) == "2\t1\n" + "\t".join(many[:100]) + "\n"
