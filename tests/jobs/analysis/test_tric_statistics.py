"""Numbers of the captions and pictures of TRIC's splits, by hand."""

from datetime import date

from jobs.analysis.tric_statistics import columns, statistics
from jobs.corpora.tric import Split

BINS = {"year": 10, "words": 1, "characters": 5}


def split(*captions: str, pictures: int = 1) -> Split:
    names = tuple(f"{number}.jpg" for number in range(pictures))
    days = tuple(date(1900 + number, 5, 1) for number in range(pictures))
    return Split(names, days, {str(number): text for number, text in enumerate(captions)}, None)


FIRST, SECOND = split(" two  words\n", "", pictures=2), split("a\tb\nc")


def test_every_character_of_a_caption_counts() -> None:
    assert columns([FIRST, SECOND]) == {"year": [1900, 1901, 1900], "words": [2, 0, 3], "characters": [12, 0, 5]}


def test_shares_are_of_all_splits_and_unions_pool_their_numbers() -> None:
    metrics = list(statistics({"a": FIRST, "b": SECOND}, {"both": ["a", "b"]}, BINS))
    shares = {metric.dims["split"]: (metric.value, metric.n) for metric in metrics if metric.name == "share"}
    assert shares == {"a": (2 / 3, 2), "b": (1 / 3, 1), "both": (1.0, 3)}
    means = {(metric.dims["split"], metric.dims["column"]): metric.value for metric in metrics if metric.name == "mean"}
    assert (means["a", "words"], means["b", "words"], means["both", "words"]) == (1, 3, 5 / 3)
