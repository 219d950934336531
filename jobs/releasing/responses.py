"""Released responses of models and the subjects of their items, included only on request."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jobs.releasing.files import Column
from jobs.store.reading import TableSource

RESPONSE_COLUMNS = {
    "response_id": Column("id of the response"),
    "century_id": Column("id of the picture that the model was asked about"),
    "response.model": Column("model and revision"),
    "response.prompt": Column("name of the prompt"),
    "response.condition": Column("experimental condition; empty if none"),
    "response.sample": Column("number of the sample, from 0", "integer"),
    "response.status": Column("ok, refused, truncated and so on"),
    "response.refusal_kind": Column("full, hedge, blocked or drop_event; empty if none"),
    "response.text": Column("the response"),
}
RATED_RESPONSE = {
    "response_id": Column("id of the response that was rated"),
    "century_id": Column("id of the picture that the response is about"),
}
_READ = ("response_id", "item_id", "model", "prompt", "condition", "sample", "status", "refusal_kind", "text")


class Subjects:
    """The subjects of items: their picture and their response.

    Args:
        items: tables of items.
        pictures: ids of the released pictures.
    """

    def __init__(self, items: Sequence[TableSource], pictures: Mapping[str, Any]) -> None:
        self._pictures = pictures
        self._of: dict[str, tuple[str | None, str | None]] = {}
        for source in items:
            for batch in source.batches(["item_id", "image_ids", "response_id"]):
                for row in batch.to_pylist():
                    picture = next((name for name in row["image_ids"] or () if name in pictures), None)
                    self._of[row["item_id"]] = (picture, row["response_id"])

    def picture(self, item: str) -> str | None:
        """Return the released picture that an item is or is about; None without one."""
        return item if item in self._pictures else self._of.get(item, (None, None))[0]

    def rated_response(self, item: str) -> dict[str, str] | None:
        """Return the columns `RATED_RESPONSE` of an item; None unless it is a response about a released
        picture."""
        picture, response = self._of.get(item, (None, None))
        return {"response_id": response, "century_id": picture} if picture and response else None


def read_responses(
    sources: Sequence[TableSource], subjects: Subjects, left_out: Counter[str]
) -> Iterator[dict[str, Any]]:
    """Yield the responses about released pictures as rows of `responses.csv`; count the others in `left_out`."""
    for source in sources:
        for batch in source.batches(list(_READ)):
            for row in batch.to_pylist():
                if (picture := subjects.picture(row["item_id"])) is None:
                    left_out["not about a released picture"] += 1
                    continue
                rest = {f"response.{name}": row[name] for name in _READ if name not in ("response_id", "item_id")}
                yield {"response_id": row["response_id"], "century_id": picture, **rest}
