"""Describe the splits of TRIC, and unions of them: years, words and characters -> table `metrics`.

    remine tric statistics path=tric out=R/statistics

`path` has one folder per split (train, train2, dev-0, test-A, test-B), or is the folder of one split. The table has
the number of pictures, the mean, median, standard deviation, smallest and largest value of year, words and characters
per caption, and their histograms, for each split and for each union whose splits are all there (TRIC, table I, section
VI.B, figures 4 to 7).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from actors.ids import content_id
from actors.quantities import quantity
from jobs.analysis.metrics_output import metrics_table
from jobs.analysis.tric_metrics import statistics
from jobs.corpora.tric import SPLITS, Split, read_split
from jobs.errors import InputError, check_least
from jobs.metrics.metric import Metric
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.job_tables import write_rows
from jobs.runtime.outcomes import Manifest
from jobs.store.files import locations

_FILES = ("in.tsv", "captions.tsv")


# Section VI.B of the paper counts dev-0 as testing data. Its years (1880 to 1900) and their deviation (4.18) are those
# of test-A and test-B alone: dev-0 has pictures of 1867 and of 1922.
UNIONS = {
    "training": ("train", "train2"),
    "testing": ("dev-0", "test-A", "test-B"),
    "tests": ("test-A", "test-B"),
    "all": ("train", "train2", "dev-0", "test-A", "test-B"),
}


@dataclass
class HistogramBins:
    """Width of the bins of each histogram."""

    year: int = 1  # width of a bin, in years
    words: int = 1  # width of a bin, in words
    characters: int = 10  # width of a bin, in characters


@dataclass
class TricStatisticsConfig:
    """Keys of `tric statistics`."""

    path: str = MISSING  # the folder that has a folder for each split, or the folder of one split
    out: str = MISSING  # the table of metrics to write
    splits: list[str] | None = None  # the folders to read; null: all folders of the release that path has
    # name -> splits; one with a missing split is left out
    unions: dict[str, list[str]] = field(
        default_factory=lambda: {name: list(splits) for name, splits in UNIONS.items()}
    )
    bins: HistogramBins = field(default_factory=HistogramBins)


def execute(cfg: TricStatisticsConfig) -> Manifest:
    """Run the job and return the manifest; see the module's docstring."""
    for name in ("year", "words", "characters"):
        check_least(f"bins.{name}", getattr(cfg.bins, name), 1)
    path, names = (cfg.path, list(cfg.splits)) if cfg.splits is not None else _present(cfg.path)
    if not names:
        why = "name at least one folder, or omit it to read the folders of the release"
        raise InputError(why, key="splits", value="[]")
    if clash := next((name for name in cfg.unions if name in names), None):
        raise InputError("is the name of a split; choose another name", key=f"unions.{clash}")
    splits = {name: read_split(locations.join(path, name)) for name in names}
    unions = {name: list(parts) for name, parts in cfg.unions.items() if set(parts) <= set(splits)}
    bins = {name: int(getattr(cfg.bins, name)) for name in ("year", "words", "characters")}
    metrics = list(statistics(splits, unions, bins))
    lines = list(_lines(splits, unions, metrics))
    for name in (union for union in cfg.unions if union not in unions):
        absent = ", ".join(part for part in cfg.unions[name] if part not in splits)
        lines.append(f"  {name}: left out, {cfg.path} has no {absent}")
    identity = {"splits": {name: _hash(split) for name, split in splits.items()}, "unions": unions, "bins": bins}
    files = [o for name in splits for o in locations.find(locations.join(path, name))]
    inputs = tuple(o for o in files if o.uri.rsplit("/", 1)[-1] in _FILES)
    manifest = write_rows(cfg, "metrics", metrics_table(metrics), identity, inputs=inputs)
    return Manifest(manifest, [*lines, f"tric statistics: {quantity(len(metrics), 'metric')} in {manifest['out']}"])


def _present(path: str) -> tuple[str, list[str]]:
    """Return the folder of the splits, and the splits of the release that it has; of a split's folder, that split."""
    folders = {o.uri.rsplit("/", 1)[0] for o in locations.find(path) if o.uri.endswith("/in.tsv")}
    whole = locations.absolute(path).rstrip("/")
    if whole in folders:
        parent, _, name = whole.rpartition("/")
        return parent, [name]
    if names := [name for name in SPLITS if name in {folder.rsplit("/", 1)[-1] for folder in folders}]:
        return path, names
    why = f"has none of the folders {', '.join(SPLITS)} with in.tsv"
    raise InputError(why, key="path", value=path, remedy="name others with splits=")


def _hash(split: Split) -> str:
    return content_id(*split.pictures, *map(str, split.dates), *split.captions.values())


def _lines(splits: dict[str, Split], unions: dict[str, list[str]], metrics: Sequence[Metric]) -> Iterator[str]:
    value = {(m.name, m.dims["split"], m.dims.get("column")): m.value for m in metrics if "bin" not in m.dims}
    yield f"  {'split':<10} {'pictures':>8}  column      mean    median  deviation   min   max"
    for name in (*splits, *unions):
        for column in ("year", "words", "characters"):
            numbers = [value[statistic, name, column] for statistic in ("mean", "median", "standard_deviation")]
            mean, median, deviation = (f"{number:.2f}" if number is not None else "-" for number in numbers)
            low, high = (int(value[end, name, column] or 0) for end in ("minimum", "maximum"))
            count = f"{int(value['instances', name, None] or 0):,}" if column == "year" else ""
            first = name if column == "year" else ""
            yield f"  {first:<10} {count:>8}  {column:<10} {mean:>7} {median:>7} {deviation:>9} {low:>6} {high:>5}"


JOB = cli.Job("tric statistics", TricStatisticsConfig, execute)
