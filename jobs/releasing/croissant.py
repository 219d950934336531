"""Croissant metadata (version 1.0 of the specification of MLCommons): files and their columns as JSON-LD."""

import json
import time
from collections.abc import Sequence
from typing import Any

from jobs.releasing.card import CardSettings
from jobs.releasing.files import ReleasedFile

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
