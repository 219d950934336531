"""Statistics of TRIC's splits and of unions of them (table I, section VI.B, figures 4 to 7)."""

from collections.abc import Iterator, Mapping, Sequence

from jobs.corpora.tric import Split
from jobs.metrics.descriptive import describe, histogram
from jobs.metrics.metric import Metric

_INSTANCES = "Pictures of the split (TRIC, table I); n counts pictures."
_SHARE = "Pictures of the split / pictures of all splits that were read (TRIC, table I); n counts pictures."
_EXACT = "no interval: an exact count"


def columns(splits: Sequence[Split]) -> dict[str, list[int]]:
    """Return the pooled numbers of several splits: year per picture, words and characters per caption.

    Words are separated by whitespace; a newline counts as one character.
    """
    captions = [text for split in splits for text in split.captions.values()]
    return {
        "year": [day.year for split in splits for day in split.dates],
        "words": [len(text.split()) for text in captions],
        "characters": [len(text) for text in captions],
    }


def statistics(
    splits: Mapping[str, Split], unions: Mapping[str, Sequence[str]], bins: Mapping[str, int]
) -> Iterator[Metric]:
    """Yield the statistics of each split, then of each union; dims `split` and `column`.

    Args:
        splits: name -> split.
        unions: name -> names of splits.
        bins: column -> width of the bins of its histogram.
    """
    total = sum(len(split.pictures) for split in splits.values())
    for name, parts in {**{split: [split] for split in splits}, **unions}.items():
        chosen = [splits[part] for part in parts]
        count = sum(len(split.pictures) for split in chosen)
        for metric, definition, value in (("instances", _INSTANCES, count), ("share", _SHARE, count / total)):
            yield Metric(name=metric, definition=definition, value=value, n=count, reason=_EXACT, dims={"split": name})
        for column, numbers in columns(chosen).items():
            for described in (*describe(numbers), *histogram(numbers, bins[column])):
                yield described.at(split=name, column=column)
