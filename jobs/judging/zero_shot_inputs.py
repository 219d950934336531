"""The inputs of `zero_shot`: pictures or items with the vectors of their pictures, and the sentences of `template=`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import yaml

from actors.errors import first_line
from actors.ids import content_id
from actors.items import TARGETS
from actors.status import Status
from jobs.checkpoints.encoder import PICTURES, VECTORS, EncoderInput
from jobs.errors import InputError, as_input_error
from jobs.judging import kept_rubric
from jobs.judging.items import ItemTables
from jobs.judging.joined_rows import lookup
from jobs.judging.kept_rubric import KeptRubric
from jobs.judging.targets import read_targets
from jobs.runtime.configuration.config_files import CONF
from jobs.runtime.selection import exclusions
from jobs.store.files import locations
from jobs.store.pieces import read_piece
from jobs.store.reading import open_table
from jobs.store.writer import UnitTask

if TYPE_CHECKING:
    from actors.zero_shot_rater import ZeroShotTemplate


TEMPLATES = CONF / "zero_shot_template"


def open_vectors(uri: str, embeddings: str | None) -> ItemTables:
    """Open the table of the pictures or items, and for items also the table of their pictures' vectors.

    Args:
        uri: a table of embeddings, of images, or of items.
        embeddings: for a table of items: the embeddings of their pictures.

    Raises:
        InputError: a table does not exist or is incomplete, or `embeddings` is missing or not allowed.
    """
    source = open_table(uri, "embeddings", "images", "items", key="input")
    if source.name != "items":
        if embeddings:
            why = f"allowed only for a table of items, and input={uri} is a table of {source.name}"
            raise InputError(why, key="embeddings", value=embeddings, remedy="omit it")
        return ItemTables(source)
    if not embeddings:
        raise InputError("a table of items; set embeddings= to the vectors of their pictures", key="input", value=uri)
    return ItemTables(source, vectors=open_table(embeddings, "embeddings", key="embeddings"))


def read_item_vectors(task: UnitTask) -> pa.Table:
    """Return the items of a unit with the vector of their picture.

    The unit's inputs are an object of the table `items`, and an object of the table `embeddings` or that whole table.

    Returns:
        `item_id`, `embedding: list<float>`, `status`, `error_kind`, `error_message`, `targets: list<string>`, and
        `jobs.runtime.selection.exclusions.SHOWN`. An item without a picture, or whose picture has no vector, is
        `missing_input`; one with several pictures is `skipped`.
    """
    _, vectors = task.unit.inputs
    items = read_piece(task.unit, ["item_id", "image_ids", TARGETS]).to_pylist()
    ids = {i for item in items for i in item["image_ids"] or ()}
    columns = ["kind", "embedding", "status", "error_kind", "error_message"]
    rows = lookup(vectors, "item_id", ids, columns)
    outcomes = [_item_vector(item["image_ids"] or (), rows) for item in items]
    return pa.table({
        "item_id": pa.array([item["item_id"] for item in items], pa.string()),
        "embedding": pa.array([outcome["embedding"] for outcome in outcomes], pa.list_(pa.float32())),
        **{name: pa.array([o[name] for o in outcomes], pa.string()) for name in columns[2:]},
        TARGETS: pa.array([item[TARGETS] for item in items], pa.list_(pa.string())),
        exclusions.SHOWN: pa.array([item["image_ids"] for item in items], pa.list_(pa.string())),
    })  # fmt: skip


def _item_vector(image_ids: Sequence[str], rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the vector and the outcome of an item with the pictures `image_ids`."""
    failure = {"embedding": None, "status": Status.MISSING_INPUT.value, "error_kind": "no_picture"}
    if len(image_ids) > 1:
        message = f"the item has {len(image_ids)} pictures; an encoder rates one"
        skipped = {"status": Status.SKIPPED.value, "error_kind": "picture_count", "error_message": message}
        return {**failure, **skipped}
    row = rows.get(image_ids[0]) if image_ids else None
    if row is None or row["kind"] != "image":
        message = "the item has no picture" if not image_ids else "the table of embeddings does not have the picture"
        return {**failure, "error_message": message}
    vector = None if row["embedding"] is None else np.asarray(row["embedding"], np.float32)
    return {**row, "embedding": vector}


INPUTS = {"images": PICTURES, "embeddings": VECTORS, "items": EncoderInput(read_item_vectors, "item_id")}


@dataclass(frozen=True)
class Sentences:
    """The sentences that pictures are compared with.

    Attributes:
        template: the checked template.
        data: the content of its file.
        targets: labels for items without their own.
    """

    template: "ZeroShotTemplate"
    data: Mapping[str, Any]
    targets: tuple[str, ...]

    @property
    def identity(self) -> dict[str, Any]:
        """Return the part of a run's identity that describes the sentences."""
        template = {"name": self.template.name, "hash": content_id(repr(self.template))}
        return {"template": template, "targets": content_id(*self.targets)}

    @property
    def kept(self) -> KeptRubric:
        """Return what a table of ratings keeps of the template."""
        levels = [(level.value, level.phrase, level.score) for level in self.template.levels]
        return kept_rubric.of_levels(
            self.template.name, self.template.question, self.template.sentence, levels, self.data
        )


def read_sentences(template: str, targets: Any) -> Sentences:
    """Return the sentences of `template=` about the labels of `targets=`.

    Args:
        template: as in `read_template`.
        targets: as in `jobs.judging.targets.read_targets`.

    Raises:
        InputError: a file does not exist or cannot be used.
    """
    from actors.zero_shot_rater import ZeroShotTemplate

    labels = read_targets(targets) or ()
    data = read_template(template)
    try:
        return Sentences(ZeroShotTemplate.from_dict(data), data, labels)
    except ValueError as error:
        raise as_input_error(error) from error


def read_template(name: str) -> Any:
    """Return the content of a template's YAML file, not validated (see `actors.zero_shot_rater.ZeroShotTemplate`).

    Args:
        name: the name of a file in conf/zero_shot_template, or a path or s3:// URI that ends in `.yaml`.

    Raises:
        InputError: there is no such template, or the file is not YAML.
    """
    uri = locations.absolute(name) if name.endswith(".yaml") else str(TEMPLATES / f"{name}.yaml")
    shipped = sorted(path.stem for path in TEMPLATES.glob("*.yaml"))
    if not name.endswith(".yaml") and name not in shipped:
        why = f"no such template; must be one of {', '.join(shipped)}, or your own .yaml file"
        raise InputError(why, key="template", value=name)
    with locations.named_errors(uri):
        data = locations.read_bytes(uri)
    try:
        return yaml.safe_load(data.decode("utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not valid YAML ({first_line(error)})", key="template", value=name) from error
