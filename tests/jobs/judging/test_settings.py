"""The check of a model before a run: what is looked up, and which models are refused."""

from types import SimpleNamespace
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.judging.settings import check_model
from jobs.models.vlm import ModelConfig
from tests.factories import write_table


def test_a_model_of_texts_is_refused_where_a_picture_is_shown(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[tuple[str, str | None]] = []
    pictures = {"value": True}

    def check_vlm(checkpoint: str, *, revision: str | None) -> bool:
        looked_up.append((checkpoint, revision))
        return pictures["value"]

    monkeypatch.setattr("actors.vlm.model_checks.check_vlm", check_vlm)

    def checked(*, shown_by: str = "", only_plans: bool = False, table: str = "items", **model: Any) -> bool | None:
        keys = {"name": "m", "checkpoint": "me/seven", "revision": "abc", **model}
        write_table(tmp_path / table, table, [])
        cfg: Any = SimpleNamespace(model=ModelConfig(**keys), input=str(tmp_path / table), only_plans=only_plans)
        return check_model(cfg, shown_by=shown_by)

    assert [checked(), checked(shown_by="prompt 'p'", table="images")] == [True, True]
    pictures["value"] = False
    assert checked() is False
    assert looked_up == [("me/seven", "abc")] * 3
    with pytest.raises(ValueError, match=r"model\.checkpoint=me/seven: does not accept pictures, and prompt 'p' shows"):
        checked(shown_by="prompt 'p'")
    looked_up.clear()
    assert checked(shown_by="prompt 'p'", only_plans=True) is None
    with pytest.raises(ValueError, match=r"model\.dtype=int8"):
        checked(dtype="int8", only_plans=True)
    with pytest.raises(ValueError, match=r"model\.m.._pixels="):
        checked(min_pixels=-1, only_plans=True)
    with pytest.raises(InputError, match="texts"):
        checked(table="texts")
    assert looked_up == []
