"""Labels of metrics on the page: phrases of a metric's name and the dims that it depends on."""

from collections.abc import Iterator, Sequence

from jobs.metrics.majority import NO_MAJORITY, NONE
from jobs.metrics.metric import Metric
from jobs.metrics.question import MODELS, PEOPLE
from jobs.metrics.suite import ACROSS

IN_HEADING = ("rubric", "question", "condition", "method", "order")  # dims that a heading shows
NAMES = {
    "percent_agreement": "equal answers",
    "percent_agreement_within": "answers within",
    "alpha": "Krippendorff’s α",
    "icc1": "ICC(1)",
    "icc2": "ICC(2,1)",
    "icc2k": "ICC(2,k)",
    "kappa": "Cohen’s κ",
    "pairwise_pearson": "Pearson, mean of pairs",
    "pairwise_spearman": "Spearman, mean of pairs",
    "status_share": "share",
    "share_lowest": "share of lowest score",
    "share_at_least": "share of scores from a threshold",
    "group_mean_score": "mean",
    "average_of_shares": "share of scores from a threshold, averaged over raters",
    "ratings_total": "ratings",
    "ratings_double": "rated more than once",
    "ratings_repeated": "repeated ratings",
    "ratings_excluded": "excluded ratings",
    "ratings_left": "ratings used",
    "people_total": "people",
    "items_per_person": "items per person",
    "items_per_person_sd": "items per person, SD",
    "pearson_with_people": "Pearson with people’s mean",
    "spearman_with_people": "Spearman with people’s mean",
    "kendall_with_people": "Kendall with people’s mean",
    "pearson_by_image": "Pearson by picture",
    "pearson_by_target": "Pearson by target",
    "pearson_by_concept_and_target": "Pearson by concept and target",
    "mean_deviation": "mean deviation from people",
    "majority_share": "share",
    "f1": "F1",
    "welch_p": "Welch’s p",
    "part_sd": "SD",
    "part_mean": "mean",
    "span_f1": "F1",
    "span_auc": "AUC",
    "span_status_share": "share",
    "description_mistake_share": "mistakes, share of tokens",
    "description_omission_share": "omissions, share of tokens",
    "description_pearson": "Pearson",
    "description_spearman": "Spearman",
    "span_alpha": "Krippendorff’s α",
    "dsg_score": "score",
    "bradley_terry": "Bradley-Terry",
    "ratings_per_person": "per person",
    "ratings_per_person_sd": "per person, SD",
    "refusal_rate": "rate",
    "remark_share": "share",
}
WORDS = {
    "rule": {"mean": "", "any": "from any rater"},
    "columns": {"raters": ""},
    "answer": {NO_MAJORITY: "no majority", NONE: "unsure or none"},
    "weights": {"none": "unweighted", "linear": "linear weights", "quadratic": "quadratic weights"},
    "first": {"": "no condition"},
    "second": {"": "no condition"},
}
AT_LEAST = ("share_at_least", "average_of_shares")  # named with their threshold, rule and number of raters
IN_NAME = {  # metric -> dims that `name_with_details` includes
    **dict.fromkeys(AT_LEAST, ("threshold", "rule", "raters")),
    "percent_agreement_within": ("tolerance",),
    "alpha": ("level",),
    "reported_share": ("of",),
}
OF_REPORTS = {"items": "share of items reported", "people": "share of people who reported"}
OF_PEOPLE = frozenset({"people_total", "items_per_person", "items_per_person_sd", "reported_share"})  # only of people
KINDS = (PEOPLE, MODELS, ACROSS)  # groups that are not mentioned next to a rater


def name_of(metric: Metric) -> str:
    """Return the words for a metric, without details such as a threshold."""
    return NAMES.get(metric.name, metric.name.replace("_", " ").removeprefix("rater correlation "))


def name_with_details(metric: Metric) -> str:
    """Return the words for a metric with the details that belong to its name (`IN_NAME`)."""
    dims, name = metric.dims, name_of(metric)
    if metric.name in AT_LEAST and (threshold := dims.get("threshold")):
        raters = dims.get("raters")
        rule = word("rule", metric)
        return f"share ≥ {threshold}" + f" {rule}" * bool(rule) + (f", average over {raters} raters" if raters else "")
    if metric.name == "percent_agreement_within" and dims.get("tolerance"):
        return f"{name} {dims['tolerance']}"
    if metric.name == "alpha" and dims.get("level"):
        return f"{name} ({dims['level']})"
    return OF_REPORTS.get(dims.get("of", ""), name) if metric.name == "reported_share" else name


def word(name: str, metric: Metric) -> str:
    """Return the words for the value of one of a metric's dims; empty if it has none."""
    value = metric.dims.get(name, "")
    if name == "inverted" and value:
        return "scale inverted"
    if name in ("k", "bins") and value:
        return f"{name} = {value}"
    if name == "threshold" and value:
        return f"≥ {value}"
    return WORDS.get(name, {}).get(value, value)


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
    if (group in KINDS and {"rater", "rater_a"} & dims.keys()) or (group == PEOPLE and metric.name in OF_PEOPLE):
        group = ""
    return ", ".join(filter(None, (answerer, group, *shown.values())))


def _parts(metric: Metric, names: Sequence[str]) -> Iterator[str]:
    dims = metric.dims
    done = {"rater", "rater_a", "rater_b", "group"}
    if "metric" in names:
        yield name_with_details(metric)
    if "metric" in names or metric.name in AT_LEAST:
        done.update(IN_NAME.get(metric.name, ()))
    yield rater_words(metric, names)
    if {"attribute", "part"} <= dims.keys() and {"attribute", "part"} <= set(names):
        yield f"{dims['attribute']}: {dims['part']}"
        done |= {"attribute", "part"}
    if {"first", "second"} <= dims.keys() and {"first", "second"} <= set(names):
        yield f"{word('first', metric)} → {word('second', metric)}"
        done |= {"first", "second"}
    yield from (word(name, metric) for name in names if name in dims and name not in done)
