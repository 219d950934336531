"""Small inputs of the jobs that run on Ray, for tests of what these jobs plan and start."""

from pathlib import Path

import numpy as np

from tests.factories import DIM, embedding_rows, picture, write_table, write_units

PICTURES = [picture(number) for number in range(3)]
IMAGES = [row["image_id"] for row in PICTURES]
FACTS = {"encoder": "e@1", "preprocessing": "p"}


def write_inputs(folder: Path) -> Path:
    """Write a table of each kind, terms, a corpus without rows, and a list of exclusions; return `folder`."""
    write_table(folder / "images", "images", PICTURES, made="images")
    texts = [
        {"text_id": "t1", "role": "reference", "source": "n1", "text": "A dog."},
        {"text_id": "t2", "role": "generated", "source": "n1", "text": "A cat."},
        {"text_id": "t3", "role": "prompt", "source": "n1", "text": "A bird."},
    ]
    write_table(folder / "texts", "texts", texts, made="texts")
    items = [
        {"item_id": f"i{n}", "image_ids": [image], "text_ids": ["t1", "t2"], "targets": ["Türkei"] if n else ["Peru"]}
        for n, image in enumerate(IMAGES)
    ]
    write_table(folder / "items", "items", items, made="items")
    near = [{"query_id": IMAGES[0], "rank": rank, "item_id": f"p{rank}", "score": 1 / rank} for rank in (1, 2, 3)]
    write_table(folder / "near", "neighbors", near, made="near")
    write_table(folder / "kb" / "nodes", "nodes", [{"node_id": "n1", "lemmas": [("en", ["dog"])]}], made="nodes")
    write_table(folder / "kb" / "node_images", "node_images", [{"node_id": "n1", "image_id": "p1"}], made="carried")
    write_table(folder / "kb" / "lemmas", "texts", texts[:1], made="lemmas")
    vectors = np.eye(3, DIM)
    for name, kind, ids in (("vectors", "image", IMAGES), ("text_vectors", "text", ["t1", "t2"])):
        rows = embedding_rows(ids, kind, vectors[: len(ids)])
        write_units(folder / name, "embeddings", [rows[:1], rows[1:]], **FACTS)
    (folder / "list.txt").write_text("https://pictures.example/gone.jpg\n")
    (folder / "terms.txt").write_text("dog\nwar\n")
    (folder / "wit.tsv").write_text("language\tpage_url\timage_url\tpage_title\tis_main_image\n")
    return folder
