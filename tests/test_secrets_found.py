import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import secrets_found


@pytest.mark.parametrize("place", ["name", "text", "gzip", "value", "metadata"])
def test_a_secret_is_found_wherever_it_is(tmp_path: Path, place: str) -> None:
    secret = "PlantedSecret"
    values = pa.table({"url": [f"https://example.org/?sig={secret}" if place == "value" else ""] * 50})
    table = values.replace_schema_metadata({"settings": secret if place == "metadata" else ""})
    pq.write_table(table, tmp_path / "table.parquet", compression="zstd")
    packed = gzip.compress(f"{secret if place == 'gzip' else ''} text".encode() * 50)
    (tmp_path / "packed.gz").write_bytes(packed)
    (tmp_path / (secret if place == "name" else "notes")).write_text(secret if place == "text" else "nothing")

    matches = secrets_found.find(str(tmp_path), {"key": secret, "other": "NotThere"})
    file = {"name": secret, "text": "notes", "gzip": "packed.gz"}.get(place, "table.parquet")
    assert matches == [f"key in {tmp_path / file}"]
