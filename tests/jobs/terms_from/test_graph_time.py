"""Times of Wikidata: precision, years before Christ, old spellings."""

import pytest

from jobs.terms_from.graph_time import read_time
from tests.cases import check_cases


def test_times() -> None:
    cases = [
        ("+1917-12-06T00:00:00Z", 11, "1917-12-06", 1917, 1917),
        ("+00000001917-12-06T00:00:00Z", 11, "1917-12-06", 1917, 1917),  # dumps of 2014
        ("+1917-12-00T00:00:00Z", 10, "1917-12", 1917, 1917),
        ("+1917-12-06T00:00:00Z", 9, "1917", 1917, 1917),
        ("+1917-00-00T00:00:00Z", 11, "1917", 1917, 1917),
        ("+1917-13-40T00:00:00Z", 11, "1917", 1917, 1917),
        ("+1940-00-00T00:00:00Z", 8, "1940/1949", 1940, 1949),
        ("+2000-00-00T00:00:00Z", 7, "1901/2000", 1901, 2000),
        ("+1901-01-01T00:00:00Z", 7, "1901/2000", 1901, 2000),
        ("+1850-00-00T00:00:00Z", 7, "1801/1900", 1801, 1900),
        ("+2000-00-00T00:00:00Z", 6, "1001/2000", 1001, 2000),
        ("-0044-03-15T00:00:00Z", 11, "-0043-03-15", -43, -43),  # 44 BC
        ("-0001-00-00T00:00:00Z", 9, "0000", 0, 0),  # 1 BC
        ("-0100-00-00T00:00:00Z", 7, "-0099/0000", -99, 0),  # the first century BC
        ("-0101-00-00T00:00:00Z", 7, "-0199/-0100", -199, -100),
        ("+0079-08-24T00:00:00Z", 11, "0079-08-24", 79, 79),
    ]

    def check(time: str, precision: int, text: str, first: int, last: int) -> None:
        assert read_time(time, precision) == (text, first, last)

    check_cases(check, cases)


def test_a_billion_years_is_a_wide_span() -> None:
    read = read_time("-13798000000-00-00T00:00:00Z", 3)
    assert read is not None
    assert read.first < -13_798_000_000 < read.last < 0


@pytest.mark.parametrize(("time", "precision"), [("", 11), ("1917-12-06", 11), ("+1917-12-06T00:00:00Z", 99)])
def test_what_is_no_time(time: str, precision: int) -> None:
    assert read_time(time, precision) is None
