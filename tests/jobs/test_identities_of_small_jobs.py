"""What identifies the tables of jobs that the driver does alone: every key and table on which their rows depend."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from actors.ids import content_id
from actors.rubrics.rubric import Rubric
from jobs.judging import kept_rubric
from jobs.judging.targets import read_targets
from jobs.page.picture_sheets import item_of
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config_files import CONF
from jobs.runtime.selection.exclusions import identity, read_exclusions
from jobs.store.reading import open_table
from jobs.store.run_files import MANIFEST, begun_units, read_json, run_uri
from tests.cases import check_cases
from tests.factories import write_csv
from tests.jobs.small_jobs import CAPTIONS, DAYS, IMAGES, write_small_jobs

OF_ROWS = ("rows", "units")  # keys of tables that are written at once
SHEET = ["query_id", "prompt", "values", "rank", "item_id", "score", "url", "chosen"]
CHOSEN = [["q", "a thing", "{}", "1", image, "0.5", "", "x"] for image in IMAGES[:2]]
SEVERAL = {  # the tables of jobs whose out= is a folder
    "candidates": ["records", "neighbors"],
    "link review": ["items", "texts"],
    "concepts": ["items", "texts"],
    "tric rank": ["neighbors", "metrics"],
    "tric rerank": ["metrics"],
}
WITHOUT_PICTURES = ("prompts", "concepts", "tric captions", "tric statistics")  # have no key exclusions=


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    folder = tmp_path_factory.mktemp("small")
    (folder / "list.txt").write_text("https://pictures.example/gone.jpg\n")
    commands = write_small_jobs(folder / "in")
    return commands | {"choose": [f"chosen={write_csv(folder / 'choose.csv', SHEET, CHOSEN)}"]}


def test_an_identity_has_every_key_and_table_of_which_the_rows_follow(
    commands: dict[str, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(commands["link evaluate"][0].removeprefix("ranked=")).parent
    listed = folder.parent / "list.txt"
    excluded = identity(read_exclusions(str(listed)))
    relevance = yaml.safe_load((CONF / "rubric" / "cultural_relevance.yaml").read_text(encoding="utf-8"))
    religions = ",".join(read_targets("world_religions") or ())
    split = {"expected": content_id("0", "1", "2"), **excluded}

    def identities(*tables: str) -> list[str]:
        return [open_table(f"{folder}/{table}").identity for table in tables]

    def check(job: str, keys: list[str], inputs: str, amounts: str, expected: dict[str, Any]) -> None:
        out, more = tmp_path / job, [] if job in WITHOUT_PICTURES else [f"exclusions={listed}"]
        assert cli.main(job, [*commands[job], *keys, *more, f"out={out}"]) == 0
        printed = capsys.readouterr().out
        assert amounts in printed
        assert job == "link evaluate" or str(out) in printed
        assert ("1 of 1 entries match no picture here" in printed) == bool(more)
        for name in SEVERAL.get(job, ["."]):
            manifest = read_json(run_uri(f"{out}/{name}", MANIFEST))
            kept = {key: value for key, value in manifest["identity"].items() if key not in OF_ROWS}
            assert kept == expected | ({"template": "none"} if (job, name) == ("tric rank", "neighbors") else {})
            assert manifest["config"]["out"] == str(out)
            uris = {o.uri for unit in begun_units(f"{out}/{name}") for o in unit.inputs}
            places = {
                uri.removesuffix(f"/{uri.rsplit('/', 1)[-1]}") if uri.endswith(".parquet") else uri for uri in uris
            }
            assert {place.removeprefix(f"{folder}/") for place in places} == set(inputs.split()), inputs

    tric = ("tric/pictures", "tric/captions", "tric/vectors")
    check_cases(check, [
        ("prompts", ["language=de"], "",
         "  4 = 2 concept x 2 country; the first: A realistic photo of bread in Peru\n", {
            "template": "A realistic photo of {concept} in {country}", "language": "de",
            "axes": {"concept": ["bread", "rice"], "country": ["Peru", "Chad"]},
        }),
        ("link evaluate", ["k=[2]", "group_by=node_id", "unlisted=wrong"], "links",
         "link evaluate: 12 of 12 queries of ", {
            "ranked": identities("links")[0], "k": [2], "group_by": "node_id", "unlisted": "wrong",
        }),
        ("candidates", ["k=1"], "near",
         "  4 neighbors = 4 kept\n  4 distinct pictures\n", {
            "neighbors": identities("near")[0], "k": 1, **excluded,
            "corpus": {"path": f"{folder}/corpus", "id": "uid", "url": "url", "caption": "text"},
        }),
        ("choose", [], f"{folder.parent}/choose.csv",
         "  2 items of 1 prompt\n  1 prompt with more than one, 0 with none\n", {
            **excluded,
            "chosen": content_id(*(item_of(dict(zip(SHEET, row, strict=True)))["item_id"] for row in CHOSEN)),
        }),
        ("link review", ["ranks=2", "pictures=2", "language=de"], "links kb/nodes kb/articles",
         "  24 pairs of a picture and one of 6 nodes\n", {
            "links": identities("links"),
            "kb": dict(zip(("nodes", "articles"), identities("kb/nodes", "kb/articles"), strict=True)),
            "ranks": 2, "pictures": 2, "language": "de", **excluded,
        }),
        ("link names", ["k=3", "names=4", "longest=2"], "names kb/nodes",
         "link names: 6 names of the responses are lemmas or titles of kb.path=", {
            "k": 3, "names": 4, "longest": 2, **excluded,
            "responses": identities("names")[0], "nodes": identities("kb/nodes")[0],
        }),
        ("concepts", [], "",
         "  1 set of 24 labels\n", {"lists": content_id(f"world_religions:{religions}")}),
        ("calibrate", ["cross=true", "choose_on=b", "threshold=-1.5"], "loglik labelled",
         "; n counts pairs of item and label with gold\n", {
            "criterion": "f1", "threshold": -1.5, "choose_on": "b", "cross": True, "split_by": None, "seed": 0,
            "condition": "log-likelihood",
            "rubric": kept_rubric.of_rubric(Rubric.from_dict(relevance), relevance).sha256,
            "inputs": identities("loglik", "labelled"), **excluded,
        }),
        ("question_scores", [], "answers",
         "  24 in = 24 out\n", {
            "ratings": identities("answers")[0], "questions": identities("questions")[0],
            "convention": "answered", "rubric": "dsg", **excluded,
        }),
        ("tric captions", ["unit_rows=3"], "tric/dev-0/in.tsv tric/dev-0/captions.tsv",
         "  year         24 texts = 8 captions x 3 dates\n", {
            "captions": content_id(*CAPTIONS.values()), "templates": {
                "none": "{caption}", "year": "{caption} A newspaper picture of {date}.",
                "decade": "{caption} A newspaper picture of the {date}s.",
            },
        }),
        ("tric rank", [], " ".join(tric),
         "tric rank: 3 of 3 pictures ranked, 8 captions each\n", {"sources": identities(*tric), **split}),
        ("tric items", ["k=2", "dates=year"], "tric/neighbors",
         "  3 pictures, 6 captions to judge, dates: year\n", {
            "neighbors": identities("tric/neighbors")[0], "k": 2, "dates": "year", **excluded,
        }),
        ("tric rerank", [], "tric/neighbors tric/captions tric/ratings",
         "  m day: 3 of 3 pictures re-ranked; the others keep their order\n", {
            "sources": identities("tric/neighbors", "tric/captions", "tric/ratings"), **split,
        }),
        ("tric statistics", ["bins.words=2", "unions.own=[dev-0]"], "tric/dev-0/in.tsv tric/dev-0/captions.tsv",
         "  training: left out, ", {
            "splits": {"dev-0": content_id(*DAYS, *DAYS.values(), *CAPTIONS.values())}, "unions": {"own": ["dev-0"]},
            "bins": {"year": 1, "words": 2, "characters": 10},
        }),
    ])  # fmt: skip
