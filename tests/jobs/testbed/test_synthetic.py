"""The synthetic corpus: deterministic, hard to read in WIT's ways, and what its facts say it is."""

import csv
import gzip
import hashlib
import io
from pathlib import Path

import pytest
from PIL import Image

from jobs.tables import WIT_COLUMNS
from jobs.testbed.synthetic import CorpusFacts, write_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CorpusFacts]:
    folder = tmp_path_factory.mktemp("corpus")
    return folder, write_corpus(folder)


def read(folder: Path, facts: CorpusFacts) -> list[dict[str, str]]:
    rows = []
    for name, count in facts.files.items():
        text = gzip.decompress((folder / name).read_bytes()).decode()
        results = list(csv.DictReader(io.StringIO(text, newline=""), delimiter="\t"))
        assert len(results) == count
        assert list(results[0]) == WIT_COLUMNS
        rows += results
    return rows


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_each_step_of_curation_drops_something_and_the_planned_pictures_survive(
    corpus: tuple[Path, CorpusFacts],
) -> None:
    facts = corpus[1]
    steps = [facts.rows, facts.english, facts.matched, facts.main_image, facts.single_image_pages, facts.https]
    assert facts.rows == sum(facts.files.values()) == 6000
    assert all(before > after for before, after in zip(steps, [*steps[1:], facts.unique_images], strict=True))
    assert facts.unique_images == len(facts.surviving) == 120
    assert 0.4 < facts.english / facts.rows < 0.6


def test_rows_are_hard_in_the_ways_of_wit(corpus: tuple[Path, CorpusFacts]) -> None:
    folder, facts = corpus
    rows = read(folder, facts)
    assert len({row["language"] for row in rows}) >= 12
    for mark in '"\n\t':
        assert any(mark in row["page_title"] for row in rows)
        assert any(mark in row["context_page_description"] for row in rows)
    # a line inside a quoted field that looks like the start of an English row
    assert any("\n\ten\t" in row["context_page_description"] for row in rows)
    # a term whose capital only Unicode's lower() folds
    assert any("Émeute" in row["page_title"] and row["language"] == "en" for row in rows)
    assert any(row["image_url"].startswith("http://") for row in rows)


def test_pictures_are_those_of_the_survivors(corpus: tuple[Path, CorpusFacts]) -> None:
    folder, facts = corpus
    wanted = {url.rsplit("/", 1)[1] for url in facts.surviving}
    present = {path.name for path in (folder / "pictures").iterdir()}
    assert wanted - present == set(facts.missing)
    assert present <= wanted
    assert len(facts.broken) == len(facts.missing) == 2
    modes = set()
    broken = set()
    for path in (folder / "pictures").iterdir():
        try:
            with Image.open(path) as image:
                image.load()
                modes.add((image.format, image.mode))
                assert all(200 <= side <= 400 for side in image.size)
        except OSError:
            broken.add(path.name)
    assert broken == set(facts.broken)
    assert facts.pictures == len(present) - len(broken)
    assert modes >= {("JPEG", "RGB"), ("JPEG", "L"), ("PNG", "RGBA"), ("PNG", "P"), ("PNG", "L")}


def test_same_seed_same_bytes_other_seed_other_bytes(tmp_path: Path) -> None:
    created = [
        write_corpus(tmp_path / name, rows=300, seed=seed, pictures=12) for name, seed in (("a", 0), ("b", 0), ("c", 1))
    ]
    assert created[0] == created[1] != created[2]
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    pictures = [set(digests(tmp_path / name / "pictures").values()) for name in ("a", "c")]
    assert len(pictures[0] & pictures[1]) == 1, "only the file that is not a picture is the same"
    assert created[2].unique_images == 12


@pytest.mark.parametrize(("rows", "pictures", "word"), [(6000, 7, "pictures=7"), (100, 120, "rows=100")])
def test_too_small_is_refused(tmp_path: Path, rows: int, pictures: int, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        write_corpus(tmp_path / "x", rows=rows, pictures=pictures)
    assert not (tmp_path / "x").exists()
