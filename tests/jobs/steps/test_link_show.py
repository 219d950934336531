"""CAIRE's worked example as a page: neighbours by encoder, nodes, and the rankings by method."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.steps import link_show
from tests.cases import check_cases
from tests.factories import picture, write_units

NODES = {"n1": "Pysanka", "n2": "Easter <egg>", "n3": "Ukraine"}
OF = {"k1": ["n1", "n2"], "k2": ["n2"], "k3": ["n3"]}
NEAR_PICTURES = {"siglip": ["k1", "k2", "k3"], "clip": ["k3", "k1", "k2"]}
LINKS = {"lemma_vision": ["n1", "n2", "n3"], "frequency_vision": ["n2", "n1", "n3"]}


@pytest.fixture
def keys(tmp_path: Path) -> list[str]:
    """Tables of a small knowledge base, two searches and two methods; returns the keys that name them."""
    nodes = [{"node_id": name, "lemmas": [("en", [lemma])]} for name, lemma in NODES.items()]
    write_units(tmp_path / "kb" / "nodes", "nodes", [nodes[:2], nodes[2:]])
    pairs = [{"node_id": node, "image_id": image} for image, some in OF.items() for node in some]
    write_units(tmp_path / "kb" / "node_images", "node_images", [pairs])
    for name, order in NEAR_PICTURES.items():
        hits = [{"query_id": q, "rank": rank, "item_id": item, "score": 1 - rank / 10}
                for q in ("q", "other") for rank, item in enumerate(order, 1)]  # fmt: skip
        write_units(tmp_path / "near" / name, "neighbors", [hits[:4], hits[4:]])
    for method, order in LINKS.items():
        links = [{"image_id": "q", "method": method, "rank": rank, "node_id": node, "lemma": NODES[node],
                  "score": float(4 - rank)} for rank, node in enumerate(order, 1)]  # fmt: skip
        write_units(tmp_path / "links" / method, "links", [links])
    images = []
    for name in ("q", "k1"):
        data = io.BytesIO()
        Image.new("RGB", (8, 8), "red").save(data, "PNG")
        images.append({**picture(1), "image_id": name, "bytes": data.getvalue()})
    write_units(tmp_path / "images", "images", [images])
    return [f"neighbors=[{tmp_path}/near/siglip,{tmp_path}/near/clip]", f"links=[{tmp_path}/links/*]",
            f"kb.path={tmp_path}/kb", f"kb.images={tmp_path}/images", f"images={tmp_path}/images",
            f"out={tmp_path}/out"]  # fmt: skip


def test_neighbours_nodes_and_rankings(tmp_path: Path, keys: list[str]) -> None:
    assert cli.main("link show", ["pictures=[q]", "nearest=2", "k=2", *keys]) == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out" / "rankings.csv").read_text("utf-8-sig"))))
    assert {row["picture"] for row in rows} == {"q"}
    assert [(r["name"], r["rank"], r["id"], r["lemma"]) for r in rows if r["kind"] == "neighbor"] == [
        ("siglip", "1", "k1", "Pysanka, Easter <egg>"),
        ("siglip", "2", "k2", "Easter <egg>"),
        ("clip", "1", "k3", "Ukraine"),
        ("clip", "2", "k1", "Pysanka, Easter <egg>"),
    ]
    assert [(r["name"], r["rank"], r["id"]) for r in rows if r["kind"] == "link"] == [
        ("frequency_vision", "1", "n2"), ("frequency_vision", "2", "n1"),
        ("lemma_vision", "1", "n1"), ("lemma_vision", "2", "n2"),
    ]  # fmt: skip
    assert [(r["name"], r["id"], r["lemma"], r["score"]) for r in rows if r["kind"] == "candidate"] == [
        ("siglip", "n1", "Pysanka", "1"), ("siglip", "n2", "Easter <egg>", "2"),
        ("clip", "n1", "Pysanka", "1"), ("clip", "n2", "Easter <egg>", "1"), ("clip", "n3", "Ukraine", "1"),
    ]  # fmt: skip
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count("candidate entities") == 2
    assert page.count("data:image/webp") == 3  # the picture, and k1 twice
    assert "Easter &lt;egg&gt;" in page
    assert page.index("Nearest pictures: siglip") < page.index("Nearest pictures: clip")
    assert cli.main("link show", ["pictures=[q]", *keys]) == 0  # its own page is replaced


def test_tables_with_one_method_are_distinguished_by_their_names(tmp_path: Path, keys: list[str]) -> None:
    links = [
        {"image_id": "q", "method": "frequency_vision", "rank": 1, "node_id": "n3", "lemma": "Ukraine", "score": 3.0}
    ]
    write_units(tmp_path / "links" / "clip", "links", [links])
    assert cli.main("link show", ["pictures=[q]", *keys]) == 0
    rows = csv.DictReader(io.StringIO((tmp_path / "out" / "rankings.csv").read_text("utf-8-sig")))
    assert [(r["name"], r["id"]) for r in rows if r["kind"] == "link" and r["rank"] == "1"] == [
        ("frequency_vision, clip", "n3"), ("frequency_vision, frequency_vision", "n2"), ("lemma_vision", "n1"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("pictures=[]", "name 1 to 100 image_ids"),
        ("pictures=[nobody]", "nobody is in no table"),
        ("pictures=[q] nearest=0", "nearest=0"),
        ("pictures=[q] neighbors=[] links=[]", "at least one is required"),
        ("pictures=[q] neighbors=[{folder}/near/clip,{folder}/again/clip]", "two tables have the name clip"),
    ],
)
def test_wrong_keys_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], keys: list[str], arguments: str, message: str
) -> None:
    hit = {"query_id": "q", "rank": 1, "item_id": "k1", "score": 0.5}
    write_units(tmp_path / "again" / "clip", "neighbors", [[hit]])
    own_keys = arguments.format(folder=tmp_path).split()
    names = {key.partition("=")[0] for key in own_keys}
    assert cli.main("link show", [*(key for key in keys if key.partition("=")[0] not in names), *own_keys]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_page_of_another_program_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], keys: list[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "index.html").write_text("mine")
    assert cli.main("link show", ["pictures=[q]", *keys]) == 2
    assert "did not write its index.html" in capsys.readouterr().err


def test_a_page_of_links_has_1_to_100_pictures_and_a_table() -> None:
    def check(keys: dict[str, Any], message: str | None) -> None:
        cfg = link_show.ShowLinksConfig(out="o", **{"pictures": ["p"], "links": ["l"], **keys})
        if message is None:
            link_show._check(cfg)
            return
        with pytest.raises(InputError, match=message):
            link_show._check(cfg)

    check_cases(check, [
        ({}, None), ({"pictures": ["p"] * 100, "nearest": 1, "k": 1}, None), ({"links": [], "neighbors": ["n"]}, None),
        ({"pictures": []}, r"^pictures=\[\]: name 1 to 100"), ({"pictures": ["p"] * 101}, "name 1 to 100 image_ids$"),
        ({"links": []}, "^neighbors= and links=: at least one"), ({"k": 0}, "^k=0: must be"),
        ({"nearest": 0}, "^nearest=0: must be at least 1"),
    ])  # fmt: skip
