"""The data card, README.md with the Hub's metadata as YAML and a text for people, and Croissant metadata.

Croissant (version 1.0 of the specification of MLCommons) describes the files and their columns as JSON-LD.
"""

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from jobs.errors import InputError
from jobs.releasing.released_files import ReleasedFile

_LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]*")
_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))
MOST_LICENCES = 20  # most licences of pictures that the card lists


@dataclass
class CardSettings:
    """Keys of `card`: contents of the data card and the Croissant metadata."""

    title: str = "Pictures with annotations"  # name of the data set
    description: str = ""  # a paragraph about the data set
    licence: str | None = None  # of links and annotations: an identifier of the Hub, such as cc-by-4.0; required
    languages: list[str] = field(default_factory=lambda: ["en"])  # languages of the texts: ISO 639-1 codes
    creators: list[str] = field(default_factory=list)  # people or organisations
    citation: str = ""  # BibTeX or text
    url: str | None = None  # where the data set is published
    version: str = "1.0.0"  # version of the data set
    date: str | None = None  # of publication, as 2025-11-23; null: today
    tags: list[str] = field(default_factory=list)  # tags on the Hugging Face Hub


def check(settings: CardSettings) -> str:
    """Return the licence.

    Raises:
        InputError: no licence, or one that is not an identifier.
    """
    if settings.licence is None:
        why = "required: the licence of links and annotations, such as card.licence=cc-by-4.0"
        raise InputError(why, key="card.licence", value="")
    if not _LICENCE.fullmatch(settings.licence):
        raise InputError(
            "must be a licence of the Hugging Face Hub, such as cc-by-4.0 or other",
            key="card.licence",
            value=settings.licence,
        )
    return settings.licence


@dataclass(frozen=True)
class CardFacts:
    """The facts about the contents that the card reports.

    Attributes:
        pictures: number of pictures; linked: of these with a link.
        licences: licence -> number of pictures, empty if unknown.
        is_sensitive: a rubric of the ratings says so, or there is none.
        people, models: numbers of people and models that annotated.
        left_out: sentences about what is not included.
        sources: (name, identity) of the tables that the files come from.
    """

    pictures: int
    linked: int
    licences: Mapping[str, int]
    is_sensitive: bool
    people: int
    models: Sequence[str]
    left_out: Sequence[str]
    sources: Sequence[tuple[str, str]]


def data_card(settings: CardSettings, files: Sequence[ReleasedFile], facts: CardFacts) -> str:
    """Return README.md."""
    return f"---\n{_metadata(settings, files, facts)}---\n\n{_text(settings, files, facts)}"


def _metadata(settings: CardSettings, files: Sequence[ReleasedFile], facts: CardFacts) -> str:
    size = next((name for limit, name in _SIZES if facts.pictures < limit), "10M<n<100M")
    metadata = {
        "pretty_name": settings.title,
        "license": settings.licence,
        "language": list(settings.languages),
        "tags": ["croissant", *settings.tags],
        "size_categories": [size],
        "configs": [
            {"config_name": file.name, "data_files": file.path, **({"default": True} if file is files[0] else {})}
            for file in files
        ],
    }
    return yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)


def _text(settings: CardSettings, files: Sequence[ReleasedFile], facts: CardFacts) -> str:
    parts = [f"# {settings.title}", settings.description]
    parts.append("| file | rows | one row is |\n|---|---|---|\n" + "\n".join(
        f"| `{file.path}` | {file.rows:,} | {_cell(file.description)} |" for file in files))  # fmt: skip
    example = (
        "from datasets import load_dataset\n\n"
        f'pictures = load_dataset("PATH_OR_NAME", "{files[0].name}", split="train")'
    )
    parts.append(f"```python\n{example}\n```\n\n`croissant.json` describes the same files as Croissant metadata.")
    parts.append("## Pictures\n\n" + _pictures(settings, facts))
    parts.append("## Annotations\n\n" + _annotations(facts))
    parts.append("## What is not included\n\n" + "\n".join(f"- {line}" for line in facts.left_out))
    for file in files:
        columns = "\n".join(
            f"| `{_cell(name)}` | {_cell(column.description)} |" for name, column in file.columns.items()
        )
        parts.append(f"## Columns of {file.path}\n\n| column | contents |\n|---|---|\n{columns}")
    if settings.citation:
        parts.append(f"## Citation\n\n```\n{settings.citation.strip()}\n```")
    sources = "\n".join(f"- {name}: identity {identity}" for name, identity in facts.sources)
    parts.append(f"## Provenance\n\nWritten by remine from these tables:\n\n{sources}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _pictures(settings: CardSettings, facts: CardFacts) -> str:
    ranked = sorted(facts.licences.items(), key=lambda entry: (-entry[1], entry[0]))
    lines = [f"| {_cell(name) or 'unknown'} | {n:,} |" for name, n in ranked[:MOST_LICENCES]]
    rest = sum(n for _, n in ranked[MOST_LICENCES:])
    lines += [f"| others | {rest:,} |"] if rest else []
    where = (
        f"The {facts.pictures:,} pictures are links to their sources, with the pages that show them."
        if facts.linked == facts.pictures
        else f"The {facts.pictures:,} pictures are not included: "
        + (f"{facts.linked:,} are links to their sources, the others names of files." * bool(facts.linked))
        + ("the column `file` has the names of their files." * (not facts.linked))
    )
    disturbing = " Pictures and annotations may be disturbing." * facts.is_sensitive
    return (
        f"{where} Each picture has its own author and licence, which the data set's licence ({settings.licence}) does "
        "not change; check them at the source before you use a picture."
        f"{disturbing}\n\n"
        "| licence according to the source | pictures |\n|---|---|\n" + "\n".join(lines)
    )


def _cell(text: str) -> str:
    """Return a text as a cell of a table, which has one line and no bars."""
    return " ".join(text.split()).replace("|", r"\|")


def _annotations(facts: CardFacts) -> str:
    models = f" Models: {', '.join(facts.models)}." if facts.models else ""
    people = (
        f" {facts.people:,} people rated; their names are replaced by pseudonyms from a keyed hash."
        if facts.people
        else ""
    )
    return (
        "Answers of people and models, including items with fewer ratings than planned; an empty cell is a question "
        f"without a valid answer.{people}{models}"
    )


CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataBiases": "cr:dataBiases",
    "dataCollection": "cr:dataCollection",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "personalSensitiveInformation": "cr:personalSensitiveInformation",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
TYPES = {"text": "sc:Text", "integer": "sc:Integer", "boolean": "sc:Boolean", "url": "sc:URL"}


def croissant(settings: CardSettings, files: Sequence[ReleasedFile]) -> str:
    """Return the metadata as JSON; paths of files are relative to it."""
    metadata: dict[str, Any] = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": settings.title,
        "description": settings.description or settings.title,
        "license": f"https://choosealicense.com/licenses/{settings.licence}/",
        "version": settings.version,
        "datePublished": settings.date or time.strftime("%Y-%m-%d", time.gmtime()),
        "inLanguage": list(settings.languages),
        "keywords": list(settings.tags),
    }
    if settings.url:
        metadata["url"] = settings.url
    if settings.citation:
        metadata["citeAs"] = settings.citation
    if settings.creators:
        metadata["creator"] = [{"@type": "sc:Organization", "name": name} for name in settings.creators]
    metadata["distribution"] = [
        {
            "@type": "cr:FileObject",
            "@id": file.path,
            "name": file.path,
            "description": file.description,
            "contentUrl": file.path,
            "contentSize": f"{file.size} B",
            "encodingFormat": "text/csv",
            "sha256": file.sha256,
        }
        for file in files
    ]
    metadata["recordSet"] = [
        {
            "@type": "cr:RecordSet",
            "@id": file.name,
            "name": file.name,
            "description": file.description,
            "field": [
                {
                    "@type": "cr:Field",
                    "@id": f"{file.name}/{name}",
                    "name": name,
                    "description": column.description,
                    "dataType": TYPES[column.kind],
                    "source": {"fileObject": {"@id": file.path}, "extract": {"column": name}},
                }
                for name, column in file.columns.items()
            ],
        }
        for file in files
    ]
    return json.dumps(metadata, indent=2, ensure_ascii=False) + "\n"
