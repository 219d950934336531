"""Labels of metrics on the page: phrases of a metric's name and the dims that it depends on."""

from collections.abc import Iterator, Sequence

from jobs.metrics.kinds import Topic, kind_of
from jobs.metrics.majority import NO_MAJORITY, NONE
from jobs.metrics.metric import Metric
from jobs.metrics.question import MODELS, PEOPLE
from jobs.metrics.suite import ACROSS

IN_HEADING = ("rubric", "question", "condition", "method", "order")  # dims that a heading shows
WORDS = {
    "rule": {"mean": "mean", "any": "any rating"},
    "of": {"items": "items reported", "people": "people who reported"},
    "columns": {"raters": ""},
    "answer": {NO_MAJORITY: "no majority", NONE: "unsure or none"},
    "weights": {"none": "unweighted", "linear": "linear weights", "quadratic": "quadratic weights"},
    "first": {"": "no condition"},
    "second": {"": "no condition"},
}
GROUPS = (PEOPLE, MODELS, ACROSS)  # groups that are not mentioned next to a rater


def name_with_details(metric: Metric, *, group: str = "") -> str:
    """Return the words for a metric with the details that belong to its name, such as a threshold.

    Args:
        group: people or models, if the words are to say that a share is that of their means.
    """
    kind = kind_of(metric)
    if not all(metric.dims.get(name) for name in kind.details):
        return kind.label
    words = {name: _bare(name, metric) for name in kind.details}
    if group and words.get("rule") == "mean":
        words["rule"] = f"mean of {group}"
    return kind.detailed.format_map(words) or kind.label


def word(name: str, metric: Metric) -> str:
    """Return the words for the value of one of a metric's dims; empty if it has none."""
    value = metric.dims.get(name, "")
    if name == "inverted" and value:
        return "scale inverted"
    if name in ("k", "bins") and value:
        return f"{name} = {value}"
    if name == "threshold" and value:
        return f"≥ {value}"
    return _bare(name, metric)


def _bare(name: str, metric: Metric) -> str:
    value = metric.dims.get(name, "")
    return value.replace("_", " ") if name == "status" else WORDS.get(name, {}).get(value, value)


def label(metric: Metric, names: Sequence[str]) -> str:
    """Return a phrase for a metric's dims that are in `names`, and for its name if `names` contains `metric`."""
    return ", ".join(filter(None, _parts(metric, names)))


def rater_words(metric: Metric, names: Sequence[str]) -> str:
    """Return the words for the rater, pair of raters or group whose answers a metric is about."""
    dims = metric.dims
    shown = {name: dims[name] for name in ("rater", "rater_a", "rater_b", "group") if name in names and dims.get(name)}
    if {"rater_a", "rater_b"} <= shown.keys():
        answerer = f"{shown.pop('rater_a')} and {shown.pop('rater_b')}"
    else:
        answerer = shown.pop("rater", "")
    group = shown.pop("group", "")
    if (group in GROUPS and {"rater", "rater_a"} & dims.keys()) or (
        group == PEOPLE and Topic.PEOPLE in kind_of(metric).topics
    ):
        group = ""
    return ", ".join(filter(None, (answerer, group, *shown.values())))


def _parts(metric: Metric, names: Sequence[str]) -> Iterator[str]:
    dims = metric.dims
    done = {"rater", "rater_a", "rater_b", "group"}
    of_means = "rule" in kind_of(metric).details and "metric" in names and dims.get("rule") == "mean"
    group = dims.get("group", "") if of_means and "group" in names and dims.get("group") in (PEOPLE, MODELS) else ""
    if "metric" in names:
        yield name_with_details(metric, group=group)
        done.update(kind_of(metric).details)
    yield "" if group else rater_words(metric, names)
    if {"attribute", "part"} <= dims.keys() and {"attribute", "part"} <= set(names):
        yield f"{dims['attribute']}: {dims['part']}"
        done |= {"attribute", "part"}
    if {"first", "second"} <= dims.keys() and {"first", "second"} <= set(names):
        yield f"{word('first', metric)} → {word('second', metric)}"
        done |= {"first", "second"}
    yield from (word(name, metric) for name in names if name in dims and name not in done)
