"""`embed`: which tables an encoder reads, and what identifies its vectors."""

from pathlib import Path
from typing import Any

import pytest

from actors.encoders.encoder_sources import EncoderFacts
from jobs import embed
from jobs.embed import EmbedConfig
from jobs.errors import InputError
from jobs.runtime.configuration import config
from jobs.runtime.outcomes import Plan
from jobs.runtime.selection import exclusions
from jobs.store.reading import open_table
from tests.factories import picture, write_table

SCALARS = {"logit_scale": "2.0", "logit_bias": "-3.0"}


class Recorder:
    """Stands for what `embed` calls before and at the beginning of a run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.facts = EncoderFacts("seven@1", 7, "none")
        self.checked: list[str] = []
        self.begun: dict[str, Any] = {}
        monkeypatch.setattr(embed, "encoder_facts", lambda _: self.facts)
        monkeypatch.setattr(embed, "check_available", lambda embedder: self.checked.append(embedder.name))
        monkeypatch.setattr(embed, "logit_scalars", lambda _: SCALARS)
        monkeypatch.setattr(embed.lifecycle, "begin", self.begin)

    def begin(self, name: str, cfg: EmbedConfig, plan: Any, excluded: Any, **keys: Any) -> Plan:
        self.begun = {"name": name, "plan": plan, **keys}
        return Plan([])


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    return Recorder(monkeypatch)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    write_table(tmp_path / "images", "images", [picture(1)])
    write_table(tmp_path / "texts", "texts", [{"text_id": "t", "role": "prompt", "text": "a cat"}])
    write_table(tmp_path / "items", "items", [{"item_id": "i"}])
    return tmp_path


def begin(folder: Path, table: str, *keys: str) -> None:
    arguments = [f"input={folder}/{table}", "embedder=local-tiny", f"out={folder}/out", *keys]
    assert embed.execute(config.load("embed", EmbedConfig, arguments)) == Plan([])


def test_texts_need_a_text_tower_and_pictures_a_decoder(tables: Path, recorder: Recorder) -> None:
    for table, pools in (("images", ["decode", "embed"]), ("texts", ["embed"])):
        begin(tables, table)
        assert (recorder.begun["name"], recorder.begun["pools"]) == ("embed", pools)
        assert "7 dimensions" in recorder.begun["note"]
    assert recorder.checked == ["local-tiny"] * 2
    recorder.facts = EncoderFacts("seven@1", 7, "none", texts=False)
    begin(tables, "images")
    with pytest.raises(
        InputError, match=r"^embedder\.checkpoint=.*: encodes pictures only, but .*/texts is a table of"
    ):
        begin(tables, "texts")
    with pytest.raises(InputError, match="items"):
        begin(tables, "items")


def test_vectors_are_identified_by_encoder_preprocessing_dtype_and_input(tables: Path, recorder: Recorder) -> None:
    (tables / "list.txt").write_text("https://pictures.example/gone.jpg\n")
    begin(tables, "texts", "embedder.dtype=float32", f"exclusions={tables}/list.txt")
    plan = recorder.begun["plan"]
    vectors = {"encoder": "seven@1", "preprocessing": "none"}
    source = open_table(f"{tables}/texts", "texts")
    listed = exclusions.identity(exclusions.read_exclusions(f"{tables}/list.txt"))
    assert plan.identity == {**vectors, "dtype": "float32", "input": source.identity, **listed}
    assert (plan.table, plan.dim, plan.metadata) == ("embeddings", 7, vectors | SCALARS)
    assert (plan.models, plan.derived) == ({"local-tiny": "seven@1"}, True)


def test_a_plan_reads_no_weights(tables: Path, recorder: Recorder) -> None:
    begin(tables, "texts", "plan=true")
    assert recorder.checked == []
    assert recorder.begun["plan"].metadata == {"encoder": "seven@1", "preprocessing": "none"}
