"""Find the columns of a file, read its rows, and convert texts to numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import fields

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.quantities import quantity
from jobs.analysis import metric_settings
from jobs.analysis.from_file.config import AnalyzeConfig, Columns
from jobs.corpora.ratings_file import batches, column_names, select_columns
from jobs.errors import InputError
from jobs.runtime.selection.exclusions import ExclusionFilter

# Names of columns in released files: for CrowdTruth those of its two platforms (Figure Eight, Mechanical Turk) and of
# the tasks of Snow et al. (2008) in its tutorials, for DSG those of its answers and ratings. The first name in the file
# is used.
_CROWDTRUTH: dict[str, tuple[tuple[str, ...], ...]] = {
    "item": (("_unit_id",), ("HITId",), ("orig_id",)),
    "rater": (("_worker_id",), ("WorkerId",), ("!amt_worker_ids",)),
    "value": (("response",),),
}
_LIKERT: dict[str, tuple[tuple[str, ...], ...]] = {  # for people's ratings of DSG
    "item": (("t2i_model", "item_id"),),
    "rater": (("worker_id",),),
    "value": (("answer",),),
}
KNOWN_NAMES: dict[str, dict[str, tuple[tuple[str, ...], ...]]] = {
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
LARGEST = 1e100  # of a score; the squares of larger scores are infinite


def find_columns(cfg: AnalyzeConfig, uri: str) -> dict[str, list[str]]:
    """Return the file's columns for each field: the configured ones, else those named as in released data sets.

    A required field without either is the column of the same name.

    Raises:
        InputError: configured columns are not in the file, or required ones are not configured.
    """
    available = column_names(uri, encoding=cfg.encoding)
    columns_of, missing = {}, []
    for column_field in fields(Columns):
        configured = getattr(cfg.columns, column_field.name)
        names = named_columns(configured, available)
        known_names = KNOWN_NAMES[cfg.task].get(column_field.name, ())
        if not names:
            names = next((list(columns) for columns in known_names if all(name in available for name in columns)), [])
        if not names and column_field.name in NEEDED[cfg.task] and column_field.name in available:
            names = [column_field.name]
        if not names and column_field.name in NEEDED[cfg.task]:
            missing.append(f"columns.{column_field.name}= is required")
        missing += [
            f"no column {name!r} (columns.{column_field.name}={configured})" for name in names if name not in available
        ]
        if names:
            columns_of[column_field.name] = names
    missing += [f"no column {name!r} (keep_rows.{name}=)" for name in cfg.keep_rows if name not in available]
    if cfg.task == "agreement":
        attributes = {
            "disaggregate": sorted(metric_settings.compared_attributes(cfg.metrics)),
            "groups": cfg.metrics.groups,
            "unit": [cfg.metrics.unit] if cfg.metrics.unit else [],
        }
        for key, parts in attributes.items():
            names = list(dict.fromkeys(name for part in parts for name in part.split("+")))
            missing += [f"no column {name!r} (metrics.{key}=)" for name in names if name not in available]
    if missing:
        raise InputError(f"{', '.join(missing)}; the file has the columns {', '.join(available)}", place=uri)
    if next(batches(uri, columns_of["item"], encoding=cfg.encoding), None) is None:
        raise InputError("has no rows", place=uri)
    return columns_of


def named_columns(configured: str | None, available: Sequence[str]) -> list[str]:
    """Return the column `configured` if the file has it, else the names between its commas."""
    if configured is not None and configured in available:
        return [configured]
    return [name.strip() for name in (configured or "").split(",") if name.strip()]


def read_rows(
    cfg: AnalyzeConfig, uri: str, columns: dict[str, list[str]], exclusion_filter: ExclusionFilter
) -> Iterator[pa.Table]:
    """Yield batches of the rows that keep_rows= keeps, without excluded items: one string column per field.

    Values of missing= are null.
    """
    used = [*(name for names in columns.values() for name in names), *cfg.keep_rows]
    for batch in batches(uri, used, encoding=cfg.encoding):
        present = without_excluded(batch, columns.get("item", ()), exclusion_filter)
        rows = select_columns(uri, present, columns, cfg.keep_rows)
        if cfg.missing:
            is_missing = pc.is_in(rows["value"], pa.array(cfg.missing, pa.string()))
            position = rows.column_names.index("value")
            rows = rows.set_column(position, "value", pc.if_else(is_missing, None, rows["value"]))
        yield rows


def without_excluded(rows: pa.Table, names: Sequence[str], exclusion_filter: ExclusionFilter) -> pa.Table:
    """Return the rows whose item, identified by the columns `names`, is not on the list of exclusions."""
    out = np.zeros(rows.num_rows, bool)
    for name in names:
        if exclusion_filter and name in rows.column_names:
            out |= exclusion_filter.mask(rows[name])
    return rows.filter(pa.array(~out)) if out.any() else rows


def as_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the column as numbers, null where it has none; 3,5 is read as 3.5, as many countries' spreadsheets write
    it."""
    comma = pc.match_substring_regex(column, DECIMAL_COMMA)
    text = pc.utf8_trim_whitespace(pc.if_else(comma, pc.replace_substring(column, ",", "."), column))
    number = pc.match_substring_regex(text, r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
    values = pc.if_else(number, text, None).cast(pa.float64())
    return pc.if_else(pc.less(pc.abs(values), LARGEST), values, None)


def check_named(uri: str, batch: pa.Table, names: Sequence[str]) -> None:
    """Check that all rows have a value in each of the columns `names`.

    Raises:
        InputError: a row has no value.
    """
    for name in names:
        if batch[name].null_count:
            raise InputError(
                f"columns.{name} is empty in {quantity(batch[name].null_count, 'row')}; every row must have it",
                place=uri,
            )
