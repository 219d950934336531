"""`link names`: links by the names that a model gives."""

from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from tests.factories import rows_of, trials_below, write_table, write_units
from tests.jobs.small_jobs import response

NODES = [
    {"node_id": "n1", "lemmas": [("en", ["pysanka"])]},
    {"node_id": "n2", "lemmas": [("en", ["egg"])]},
    {"node_id": "n3", "lemmas": [("en", ["drum"])]},
]


def named_response(image: str, text: str | None, *, sample: int = 0, status: str = "ok") -> dict[str, Any]:
    return {
        "response_id": f"{image}{sample}",
        "item_id": image,
        "model": "m",
        "prompt": "name_entity",
        "condition": "",
        "sample": sample,
        "text": text,
        "status": status,
    }


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("names")
    write_table(root / "kb" / "nodes", "nodes", NODES)
    first = [
        named_response("a", "A decorated egg\nPysanka"),
        named_response("a", "a drum", sample=1),
        named_response("b", "Pysanka", status="truncated"),
        named_response("c", "a cat"),
    ]
    second = [named_response("d", None, status="missing_input"), named_response("e", "drum", status="refused")]
    write_units(root / "responses", "responses", [first, second])
    write_table(root / "cats", "responses", [named_response("c", "a cat")])
    (root / "out.txt").write_text("b\n")
    return root


def run(tables: Path, out: Path, *keys: str) -> Any:
    arguments = {"responses": f"{tables}/responses", "kb.path": f"{tables}/kb", "out": str(out)}
    arguments |= dict(key.split("=", 1) for key in keys)
    return cli.execute("link names", [f"{name}={value}" for name, value in arguments.items()])


def test_links_in_the_models_order(tables: Path, tmp_path: Path) -> None:
    manifest = run(tables, tmp_path / "out")
    rows = [(r["image_id"], r["rank"], r["node_id"], r["method"], r["score"]) for r in rows_of(str(tmp_path / "out"))]
    assert rows == [
        ("a", 1, "n2", "named", pytest.approx(1 / 3)),
        ("a", 2, "n1", "named", 1.0),
        ("a", 3, "n3", "named", pytest.approx(1 / 2)),
        ("b", 1, "n1", "named", 1.0),
    ]
    assert manifest["counts"]["filtered"] == {"no name is in the knowledge base": 1, "no response": 2}


def test_fewer_nodes_and_exclusions(tables: Path, tmp_path: Path) -> None:
    manifest = run(tables, tmp_path / "out", "k=1", f"exclusions={tables}/out.txt")
    assert [(row["image_id"], row["node_id"]) for row in rows_of(str(tmp_path / "out"))] == [("a", "n2")]
    assert manifest["counts"]["filtered"] == {"excluded": 1, "no name is in the knowledge base": 1, "no response": 2}


def test_accuracy_is_computed_as_of_other_links(tables: Path, tmp_path: Path) -> None:
    run(tables, tmp_path / "out")
    (tmp_path / "gold.csv").write_text("image_id,node_id\na,n1\nb,n1\nc,n3\n")
    cli.execute("link evaluate", [f"ranked={tmp_path}/out", f"gold={tmp_path}/gold.csv", f"out={tmp_path}/metrics"])
    values = {row["metric"]: row["value"] for row in rows_of(f"{tmp_path}/metrics")}
    assert values["accuracy@1"] == pytest.approx(1 / 2)  # of the two pictures with links


def test_a_model_may_name_nothing_that_the_knowledge_base_has(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pipeline continues: that nothing matches is a result of the baseline."""
    manifest = run(tables, tmp_path / "out", f"responses={tables}/cats")
    assert manifest["counts"]["rows_out"] == 0
    assert manifest["counts"]["filtered"] == {"no name is in the knowledge base": 1}
    assert "0 names of the responses" in (printed := capsys.readouterr().out)
    assert "prompt=name_entity" in printed


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["k=0"], "k=0: must be at least 1"),
        (["longest=0"], "longest=0: must be at least 1"),
        (["responses={}/kb/nodes"], "is a table 'nodes', expected responses"),
    ],
)
def test_wrong_values_are_refused(tables: Path, tmp_path: Path, keys: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(tables, tmp_path / "out", *(key.format(tables) for key in keys))
    assert not (tmp_path / "out").exists()


def test_a_limit_takes_all_samples_of_the_first_pictures(tables: Path, tmp_path: Path) -> None:
    whole = run(tables, tmp_path / "whole")
    links = rows_of(str(tmp_path / "whole"))
    manifest = run(tables, tmp_path / "first", "limit=1")
    assert rows_of(str(tmp_path / "first")) == [row for row in links if row["image_id"] == "a"]
    assert manifest["counts"]["filtered"] == {}
    assert (manifest["limit"]["rows"], manifest["limit"]["noun"]) == (1, "pictures")
    assert trials_below(tmp_path) == {"first": "whole"}
    with pytest.raises(InputError, match="limit"):
        run(tables, tmp_path / "whole", "limit=1")
    more = run(tables, tmp_path / "more", "limit=9")
    assert (more["counts"], more["limit"]["rows"]) == (whole["counts"], 5)


def test_names_of_earlier_samples_and_lines_come_first(tmp_path: Path) -> None:
    nodes = [{"node_id": f"n{n}", "lemmas": [("en", [name])]} for n, name in enumerate(("egg", "drum", "old drum"))]
    write_table(tmp_path / "kb" / "nodes", "nodes", nodes)
    texts = [response("a", "an old drum", 1), response("a", "egg\ndrum", 0), response("b", "", 0)]
    write_table(tmp_path / "names", "responses", [*texts, response("c", "drum") | {"status": "error"}])
    keys = [f"responses={tmp_path}/names", f"kb.path={tmp_path}/kb"]

    def linked(*more: str) -> list[tuple[str, int, str]]:
        out = tmp_path / "-".join(more).replace("=", "") / "out"
        manifest: Any = cli.execute("link names", [*keys, *more, f"out={out}"])
        assert manifest["counts"]["filtered"] == {"no response": 2}
        assert open_table(str(out)).metadata["remine.method"] == "named"
        return [(row["image_id"], row["rank"], row["node_id"]) for row in rows_of(str(out))]

    assert linked("k=9") == [("a", 1, "n0"), ("a", 2, "n1"), ("a", 3, "n2")]
    assert linked("k=2") == [("a", 1, "n0"), ("a", 2, "n1")]
    assert linked("names=1") == [("a", 1, "n0"), ("a", 2, "n2")]
    assert linked("names=1", "longest=1") == [("a", 1, "n0"), ("a", 2, "n1")]
    with pytest.raises(InputError, match="names=0: must be at least 1"):
        cli.execute("link names", [*keys, "names=0", f"out={tmp_path}/never"])
