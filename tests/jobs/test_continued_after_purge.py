"""After a purge the same commands, given the list, continue tables of pieces and make nothing again: on a real Ray."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from tests.factories import picture, rows_of, write_units

ROWS = 36  # of one unit, in pieces of 8 or 9 rows for two actors


def photo(number: int) -> bytes:
    pixels = np.random.default_rng(number).integers(0, 255, (24, 32, 3), np.uint8)
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "PNG")
    return data.getvalue()


def written(root: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in root.glob("*/*.parquet")}


@pytest.mark.long
def test_embed_and_judge(ray_session: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "R"
    pictures = [{**picture(number), "bytes": photo(number), "format": "PNG"} for number in range(ROWS + 4)]
    write_units(root / "images", "images", [pictures[:ROWS], pictures[ROWS:]])
    read = ["resources.read.num_cpus=0.3", "resources.write.num_cpus=0.3"]
    judge = ["model=local-tiny", "rubric=cultural_relevance", "targets=[Brazil,Japan]", "resources.judge.threads=1"]
    commands = {
        "embeddings": ["embed", "embedder=local-tiny", "resources.embed.threads=1", "resources.embed.actors=2"],
        "ratings": ["judge", *judge, "resources.judge.actors=2", "resources.judge.num_cpus=0.3"],
    }

    def run(name: str, *keys: str) -> int:
        job, *rest = commands[name]
        return cli.main(job, [f"input={root}/images", *rest, *read, f"out={root}/{name}", *keys])

    for name in commands:
        assert run(name) == 0, capsys.readouterr()
        assert len(open_table(f"{root}/{name}").footers) > 3
    before = {name: rows_of(f"{root}/{name}") for name in commands}
    gone = {pictures[number]["image_id"] for number in (2, 3, 20, ROWS - 1)}
    withdrawn = tmp_path / "withdrawn.txt"
    withdrawn.write_text("\n".join(gone))
    keys = [f"input={root}", f"exclusions={withdrawn}"]
    assert cli.main("purge", keys) == 0
    assert "writes them again" not in capsys.readouterr().out
    purged = written(root)
    for name in commands:
        assert run(name) == 2  # without the list
        assert run(name, keys[1]) == 0, capsys.readouterr()
        assert cli.main("verify", [f"input={root}/{name}"]) == 0
        assert rows_of(f"{root}/{name}") == [row for row in before[name] if row["item_id"] not in gone]
    assert written(root) == purged
    assert cli.main("verify", keys) == 0
