import base64
import gzip
import html
import io
import tarfile
import zipfile
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from tests import secrets_found
from tests.cases import check_cases

SECRET = "Planted/Secret+1&<é"
ENCODED = {
    "text": SECRET,
    "percent": f"https://example.org/?sig={quote(SECRET, safe='')}",
    "html": f"<a title='{html.escape(SECRET)}'>",
    **{f"base64 at {at}": base64.b64encode(f"{'x' * at}{SECRET} and more".encode()).decode() for at in range(3)},
    "url-safe base64": base64.urlsafe_b64encode(SECRET.encode()).decode(),
}


def test_a_secret_is_found_wherever_it_is(tmp_path: Path) -> None:
    def check(place: str) -> None:
        folder = tmp_path / place
        folder.mkdir()
        secret = "PlantedSecret" if place == "name" else SECRET
        values = pa.table({"url": [f"https://example.org/?sig={secret}" if place == "value" else ""] * 50})
        table = values.replace_schema_metadata({"settings": secret if place == "metadata" else ""})
        pq.write_table(table, folder / "table.parquet", compression="zstd")
        data = f"{secret if place in ('gzip', 'zip', 'tar', 'tar.gz') else ''} text".encode() * 50
        (folder / "packed.gz").write_bytes(gzip.compress(data if place == "gzip" else b"nothing"))
        with zipfile.ZipFile(folder / "packed.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("member", data if place == "zip" else b"nothing")
        for suffix in ("tar", "tar.gz"):
            packed_tar = io.BytesIO()
            with tarfile.open(fileobj=packed_tar, mode="w") as members:
                member = tarfile.TarInfo("member")
                member.size = len(data)
                members.addfile(member, io.BytesIO(data if place == suffix else bytes(len(data))))
            content = packed_tar.getvalue()
            (folder / f"packed.{suffix}").write_bytes(gzip.compress(content) if suffix == "tar.gz" else content)
        (folder / (secret if place == "name" else "notes")).write_text(ENCODED.get(place, "nothing"))

        matches = secrets_found.find(str(folder), {"key": secret, "other": "NotThere"})
        packed = {"gzip": "packed.gz", "zip": "packed.zip", "tar": "packed.tar", "tar.gz": "packed.tar.gz"}
        places = packed | dict.fromkeys(("value", "metadata"), "table.parquet") | {"name": secret}
        assert matches == [f"key in {folder / places.get(place, 'notes')}"]

    check_cases(check, ["name", "gzip", "zip", "tar", "tar.gz", "value", "metadata", *ENCODED])
