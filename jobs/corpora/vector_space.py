"""The encoder and preprocessing of vectors; only vectors in the same space can be compared."""

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from jobs.errors import InputError

if TYPE_CHECKING:
    from jobs.store.reading import TableSource


class VectorSpace(NamedTuple):
    """The encoder and preprocessing of vectors, and their length."""

    encoder: str
    preprocessing: str
    dim: int


def space_of(source: "TableSource") -> VectorSpace:
    """Return the space of a table `embeddings`, from its metadata and schema.

    Raises:
        InputError: the column `embedding` does not contain vectors of one length.
    """
    kind = source.footers[0].schema.field("embedding").type
    if not pa.types.is_fixed_size_list(kind):
        raise InputError(f"its column embedding is {kind}; vectors of one length are needed", place=source.uri)
    encoder, preprocessing = (source.metadata.get(f"remine.{name}", "") for name in ("encoder", "preprocessing"))
    return VectorSpace(encoder, preprocessing, kind.list_size)


def check_same_space(one: tuple[str, VectorSpace], other: tuple[str, VectorSpace]) -> None:
    """Check that two sets of vectors, each a name for the message and a space, can be compared.

    Raises:
        InputError: the spaces differ; the message names both sides.
    """
    (name, space), (other_name, other_space) = one, other
    for field, value, other_value in zip(space._fields, space, other_space, strict=True):
        if value != other_value:
            raise InputError(f"{name} and {other_name} cannot be compared: their {field} is {value} and {other_value}")
