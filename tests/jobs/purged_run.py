"""A run with tables of every kind, from which the tests of `purge` remove a picture."""

import fnmatch
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from jobs.annotation.imported_rows import REPORTED
from jobs.corpora.wit import wit_base
from jobs.corpora.wit.wit_base import PLACES_FILE
from jobs.curation.curation_rules import NEAR_FILE
from jobs.store.files import locations
from jobs.store.reading import open_table
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import WHOLE, Unit
from jobs.store.writer import REJECTS, Reject, UnitWriter
from jobs.tables import table
from tests.factories import DIM, embedding_rows, picture, record_of, rows_of

PICTURES = [picture(number) for number in range(6)]
IDS = [row["image_id"] for row in PICTURES]
VECTORS = np.random.default_rng(1).normal(size=(len(IDS), DIM))
GONE, SHOWN_TOO = 1, 4  # the picture on the list, and one that an item shows next to it


def write(out: str, name: str, units: dict[str, list[dict[str, Any]]], parent: str | None = None, **keys: Any) -> str:
    """Write a table; its units are made from those of the table `parent` that have the same names.

    Args:
        keys: the `rejects` of units, the hash of the list (`listed`), and the `piece` and `extra` values of each unit.
    """
    sources = open_table(parent).by_unit() if parent else {}
    piece, extra = keys.get("piece", WHOLE), keys.get("extra", {})
    plan_units = [
        Unit(unit, (sources[unit],) if unit in sources else (), piece, len(rows), extra) for unit, rows in units.items()
    ]
    dim = DIM if name == "embeddings" else None
    identity = {"by": "hand", **({"exclusions": keys["listed"]} if "listed" in keys else {})}
    plan = TablePlan(out, name, identity, plan_units, {"exclusions": None}, {}, derived=True, dim=dim)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    for task in run.todo:
        rows = units[task.unit.name]
        with UnitWriter(run.target, task) as writer:
            rejects = keys.get("rejects", {}).get(task.unit.name, ())
            writer.counts.rows_in = len(rows) + len(rejects)
            for position, raw in enumerate(rejects):
                writer.reject(Reject("f", position, "malformed", "no row", raw))
            writer.write(pa.Table.from_pylist(rows, schema=table(name, dim=dim).schema()))
    run.finish()
    return out


def halves(rows: list[Any]) -> dict[str, list[Any]]:
    """Return two units: the first has the rows of pictures 0 to 2."""
    return {"unit0": rows[: len(rows) // 2], "unit1": rows[len(rows) // 2 :]}


def item(item_id: str, images: list[str], texts: list[str], response: str | None = None) -> dict[str, Any]:
    return {"item_id": item_id, "kind": "image", "image_ids": images, "text_ids": texts, "response_id": response}


def rating(item_id: str, rater: str) -> dict[str, Any]:
    key = {"target": "", "rubric": "r", "question": "q", "condition": "", "method": "human", "order": "", "sample": 0}
    return {"item_id": item_id, "rater": rater, **key, "value": "1", "status": "ok"}


def write_run(root: str) -> str:
    """Write a run with all kinds of tables about pictures, tasks and pages to `root`; return it."""
    urls = [row["source_url"] for row in PICTURES]
    records = write(
        f"{root}/records", "records", halves([record_of(row, f"t{n}") for n, row in enumerate(PICTURES)]),
        rejects={"unit0": [f"en\t{urls[GONE]}\tx", "en\tother"]},
    )  # fmt: skip
    images = write(f"{root}/images", "images", halves(PICTURES), records)
    vectors = embedding_rows(IDS, "image", VECTORS)
    write(f"{root}/embeddings", "embeddings", halves(vectors), images)
    near = [
        {"query_id": IDS[q], "rank": r, "item_id": IDS[(q + r) % 6], "score": 1.0} for q in range(6) for r in (1, 2)
    ]
    write(f"{root}/near", "neighbors", halves(near))
    write(f"{root}/links", "links", halves([
        {"image_id": i, "method": "lemma", "rank": 1, "node_id": "n", "lemma": "l", "score": 1.0} for i in IDS
    ]))  # fmt: skip
    items = [item(f"i{n}", [i], [f"text{n}", "shared"]) for n, i in enumerate(IDS)]
    items[SHOWN_TOO] = item(f"i{SHOWN_TOO}", [IDS[SHOWN_TOO], IDS[GONE]], [f"text{SHOWN_TOO}"])
    items[0]["attributes"] = [("entity_picture_1", urls[GONE]), ("entity_picture_2", urls[2]), ("node", "n")]
    write(f"{root}/set/items", "items", halves(items))
    write(f"{root}/report/metrics", "metrics", halves([
        {"metric": "unit_quality", "dims": json.dumps({"question": "q", "unit": unit}, separators=(",", ":"))}
        for unit in (*IDS[:3], *(f"i{n}" for n in range(6)), "")
    ]))  # fmt: skip
    names = [*(f"text{n}" for n in range(6)), "shared"]
    prompts = [{"text_id": name, "role": "prompt", "text": f"{name}: not {IDS[GONE]}"} for name in names]
    write(f"{root}/set/texts", "texts", halves(prompts))
    responses: list[dict[str, Any]] = [
        {"response_id": f"r{n}", "item_id": f"i{n}", "model": "m", "prompt": "p", "text": "t", "status": "ok"}
        for n in range(6)
    ]
    for row in responses:
        row |= {"condition": "", "sample": 0, "seed": 0}
    write(f"{root}/responses/m", "responses", halves(responses))
    write(f"{root}/judged/items", "items", halves([item(f"r{n}", [], [], f"r{n}") for n in range(6)]))
    write(f"{root}/ratings/m", "ratings", halves([rating(f"r{n}", "m") for n in range(6)]))
    write(f"{root}/ratings/people", "ratings", halves([rating(i, "p") for i in IDS]))
    tasks = f"{root}/tasks"
    write(f"{tasks}/assignments", "assignments", halves([
        {"rater": "p", "place": n, "item_id": i, "target": "", "file": "p"} for n, i in enumerate(IDS)
    ]))  # fmt: skip
    labelled = [{"data": {"item_id": i, "image_ids": [i], "image": url}} for i, url in zip(IDS, urls, strict=True)]
    put(f"{tasks}/label_studio/p.json", json.dumps(labelled))
    sheet = [f"{n},{i},=wording\r\n" for n, i in enumerate(IDS)]
    put(f"{tasks}/spreadsheet/p.csv", "".join(["\ufeffplace,item_id,wording\r\n", *sheet]))
    for i in IDS:
        put(f"{tasks}/pictures/{i}.jpg", "picture")
    put(f"{root}/choose/index.html", '<meta name="generator" content="remine"><img src=\'data:image/webp;base64,xx\'>')
    put(f"{root}/pages/index.html", f'<meta name="generator" content="remine"><a href="{urls[GONE]}">{IDS[GONE]}</a>')
    put(f"{root}/choose/mine.html", "<img src='data:image/webp;base64,xx'>")
    lines = [f"{i},{url}\r\n" for i, url in zip(IDS, urls, strict=True)]
    put(f"{root}/choose/choose.csv", "".join(["item_id,url\r\n", *lines]))
    put(f"{root}/ratings/people/_run/{REPORTED}", json.dumps(dict.fromkeys(IDS, 2)))
    groups = [{"stays": IDS[GONE], "near": {"a": 1}}, {"stays": IDS[0], "near": {IDS[GONE]: 2, IDS[2]: 3}}]
    groups.append({"stays": IDS[3], "near": {IDS[GONE]: 4}})
    put(f"{root}/records/_run/{NEAR_FILE}", "".join(f"{json.dumps(group)}\n" for group in groups))
    places = pa.table({"image_url": urls, "row": list(range(6))})
    put(f"{root}/images/_run/{PLACES_FILE}", wit_base.pack_places(places))
    stale = pa.Table.from_pylist([{"raw": f"en\t{urls[GONE]}\tx"}], schema=REJECTS)
    put(f"{root}/records/_rejects/unit1.0.parquet", wit_base.pack_places(stale))
    return root


def put(uri: str, content: str | bytes) -> None:
    locations.replace(uri, content if isinstance(content, bytes) else content.encode())


def text_of(uri: str) -> str:
    return locations.read_bytes(uri).decode()


def files_of(root: str, pattern: str = "*") -> dict[str, str]:
    """Return the files whose uris match a glob -> etags."""
    return {file.uri: file.etag for file in locations.listing(root) if fnmatch.fnmatch(file.uri, f"{root}/{pattern}")}


def listed(folder: Path, *entries: str) -> str:
    file = folder / "withdrawn.txt"
    file.write_text("".join(f"{entry}\n" for entry in entries))
    return f"exclusions={file}"


def ids_by_table(root: str | Path) -> dict[str, set[str]]:
    columns = {"records": "image_id", "images": "image_id", "embeddings": "item_id", "near": "query_id",
               "links": "image_id", "set/items": "item_id", "set/texts": "text_id", "responses/m": "response_id",
               "judged/items": "item_id", "ratings/m": "item_id", "ratings/people": "item_id",
               "tasks/assignments": "item_id"}  # fmt: skip
    return {name: {row[column] for row in rows_of(f"{root}/{name}")} for name, column in columns.items()}


def item_response(number: int, item_id: str) -> dict[str, Any]:
    key = {"response_id": f"r{number}", "item_id": item_id, "model": "m", "prompt": "p", "condition": ""}
    return {**key, "sample": 0, "seed": 0, "text": "t", "status": "ok"}
