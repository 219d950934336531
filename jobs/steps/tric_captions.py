"""Combine the captions of a TRIC split with dates, by templates -> table `texts`.

    remine tric captions split=tric/dev-0 out=R/captions

The table has one text for each template, caption and date of a picture in the split. The template (`none`, `year`,
`decade`) determines how the text gives the date; remine tric rank compares the templates. The column `source` has the
index of the caption, `revision` the template, and `date` the date in the text.
"""

from dataclasses import dataclass, field
from typing import Any

from actors.ids import content_id
from jobs.corpora.tric import TEMPLATES, Split, bucket, read_split
from jobs.errors import InputError, check_least
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.job_tables import write_rows
from jobs.runtime.outcomes import Manifest
from jobs.store.files import locations

CAPTIONS = {
    "none": "{caption}",
    "year": "{caption} A newspaper picture of {date}.",
    "decade": "{caption} A newspaper picture of the {date}s.",
}


@dataclass
class TricCaptionsConfig:
    """Keys of `tric captions`."""

    split: str = MISSING  # the folder with in.tsv and captions.tsv
    out: str = MISSING  # the table of texts to write
    # none, year, decade -> text with {caption} and {date}, which is the year, or the decade's first year
    templates: dict[str, str] = field(default_factory=lambda: dict(CAPTIONS))
    language: str = "en"  # BCP 47 tag of the captions
    # rarely: texts per unit, the granularity of distributing and resuming in the jobs that follow
    unit_rows: int = 4096


def execute(cfg: TricCaptionsConfig) -> Manifest:
    """Run the job and return the manifest; see the module's docstring."""
    _check(cfg.templates)
    check_least("unit_rows", cfg.unit_rows, 1)
    split = read_split(cfg.split)
    rows = captions(split, cfg.templates, cfg.language)
    identity = {"templates": dict(cfg.templates), "captions": content_id(*split.captions.values())}
    inputs = tuple(o for o in locations.find(cfg.split) if o.uri.rsplit("/", 1)[-1] in ("in.tsv", "captions.tsv"))
    manifest = write_rows(cfg, "texts", rows, identity, inputs=inputs, unit_rows=cfg.unit_rows)
    lines = [f"tric captions: {manifest['out']}"]
    for template in cfg.templates:
        count = sum(row["revision"] == template for row in rows)
        dates = count // len(split.captions)
        lines.append(f"  {template:<7} {count:>7,} texts = {len(split.captions):,} captions x {dates} dates")
    return Manifest(manifest, lines)


def captions(split: Split, templates: dict[str, str], language: str) -> list[dict[str, Any]]:
    """Return the rows of the table `texts`."""
    rows = []
    for template, text in templates.items():
        for date in sorted({bucket(day, template) for day in split.dates}):
            for index, caption in split.captions.items():
                worded = text.replace("{date}", date).replace(
                    "{caption}", caption
                )  # in this order, because a caption may contain {date}
                rows.append(
                    {
                        "text_id": content_id("caption", template, date, index, worded),
                        "role": "caption",
                        "language": language,
                        "date": date or None,
                        "source": index,
                        "revision": template,
                        "text": worded,
                    }
                )
    return rows


def _check(templates: dict[str, str]) -> None:
    if not templates:
        raise InputError(f"set at least one of {', '.join(TEMPLATES)}", key="templates", value=templates)
    for name, text in templates.items():
        if name not in TEMPLATES:
            raise InputError(f"must be one of {', '.join(TEMPLATES)}", key=f"templates.{name}")
        if "{caption}" not in text:
            raise InputError("{caption} is missing", key=f"templates.{name}", value=text)
        if ("{date}" in text) == (name == "none"):
            why = f"{{date}} {'is not allowed' if name == 'none' else 'is missing'}"
            raise InputError(why, key=f"templates.{name}", value=text)


JOB = cli.Job("tric captions", TricCaptionsConfig, execute)
