"""The columns of a file: which are meant, their rows, and texts as numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import fields

import pyarrow as pa
import pyarrow.compute as pc

from jobs.analysis import compute
from jobs.analysis.from_file.config import AnalyzeConfig, Columns
from jobs.corpora.ratings_file import batches, select_columns
from jobs.errors import InputError

# Names of columns in released files. CrowdTruth: its two platforms (Figure Eight, Mechanical Turk) and the tasks of
# Snow et al. (2008), which its tutorials use. DSG: its answers and ratings. The first name that the file has is taken.
_CROWDTRUTH: dict[str, tuple[tuple[str, ...], ...]] = {
    "item": (("_unit_id",), ("HITId",), ("orig_id",)),
    "rater": (("_worker_id",), ("WorkerId",), ("!amt_worker_ids",)),
    "value": (("response",),),
}
_LIKERT: dict[str, tuple[tuple[str, ...], ...]] = {  # people's ratings of DSG
    "item": (("t2i_model", "item_id"),),
    "rater": (("worker_id",),),
    "value": (("answer",),),
}
USUAL: dict[str, dict[str, tuple[tuple[str, ...], ...]]] = {
    "agreement": {field: _CROWDTRUTH[field] + _LIKERT[field] for field in _CROWDTRUTH},
    "crowdtruth": _CROWDTRUTH,
    "dsg": {
        "item": (("t2i_model", "item_id"),),
        "question": (("question_id",),),
        "parents": (("dependency_id",),),
        "value": (("answer",),),
    },
}
NEEDED = {
    "agreement": ("item", "rater", "value"),
    "crowdtruth": ("item", "rater", "value"),
    "dsg": ("item", "question", "value"),
}
DECIMAL_COMMA = r"^\s*-?\d+,\d+\s*$"
LARGEST = 1e100  # of a score; squares of larger ones are infinite


def find_columns(cfg: AnalyzeConfig, uri: str) -> dict[str, list[str]]:
    """Field -> columns of the file: as configured, else under their usual names.

    Raises:
        InputError: a configured column is not in the file, or one is needed and not given; all of them are named.
    """
    there = next(batches(uri, encoding=cfg.encoding), pa.table({})).column_names
    found, missing = {}, []
    for each in fields(Columns):
        given = getattr(cfg.columns, each.name)
        names = named_columns(given, there)
        usual = USUAL[cfg.task].get(each.name, ())
        if not names:
            names = next((list(columns) for columns in usual if all(name in there for name in columns)), [])
        if not names and each.name in NEEDED[cfg.task]:
            missing.append(f"columns.{each.name}= is needed")
        missing += [f"no column {name!r} (columns.{each.name}={given})" for name in names if name not in there]
        if names:
            found[each.name] = names
    missing += [f"no column {name!r} (keep_rows.{name}=)" for name in cfg.keep_rows if name not in there]
    if cfg.task == "agreement":
        told = {"disaggregate": sorted(compute.told_apart(cfg.metrics)), "groups": cfg.metrics.groups}
        for key, parts in told.items():
            names = list(dict.fromkeys(name for part in parts for name in part.split("+")))
            missing += [f"no column {name!r} (metrics.{key}=)" for name in names if name not in there]
    if missing:
        raise InputError(f"{uri}: {', '.join(missing)}; there are {', '.join(there) or 'none'}")
    return found


def named_columns(given: str | None, there: Sequence[str]) -> list[str]:
    """One column of that name if there is one, else the names between commas."""
    if given is not None and given in there:
        return [given]
    return [name.strip() for name in (given or "").split(",") if name.strip()]


def read_rows(cfg: AnalyzeConfig, uri: str, columns: dict[str, list[str]]) -> Iterator[pa.Table]:
    """Yield the rows that keep_rows= keeps, in batches: a string column per field; values named by missing= null."""
    for batch in batches(uri, encoding=cfg.encoding):
        rows = select_columns(uri, batch, columns, cfg.keep_rows)
        if cfg.missing:
            none = pc.is_in(rows["value"], pa.array(cfg.missing, pa.string()))
            place = rows.column_names.index("value")
            rows = rows.set_column(place, "value", pc.if_else(none, None, rows["value"]))
        yield rows


def as_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column as numbers, 3,5 being 3.5 as spreadsheets of many countries write it; null for what is none."""
    comma = pc.match_substring_regex(column, DECIMAL_COMMA)
    text = pc.utf8_trim_whitespace(pc.if_else(comma, pc.replace_substring(column, ",", "."), column))
    number = pc.match_substring_regex(text, r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
    found = pc.if_else(number, text, None).cast(pa.float64())
    return pc.if_else(pc.less(pc.abs(found), LARGEST), found, None)


def check_named(uri: str, batch: pa.Table, names: Sequence[str]) -> None:
    """Refuse rows that do not say what they are about.

    Raises:
        InputError: with their number.
    """
    for name in names:
        if batch[name].null_count:
            raise InputError(f"{uri}: {batch[name].null_count} rows without {name}")
