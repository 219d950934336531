"""Answers of a server of pictures, for `tests.https_server`, and a limiter of requests without Ray."""

import io
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

from PIL import Image

from actors.fetching.politeness import LeaseTable, Limit
from tests.https_server import Answer, Seen


@lru_cache
def jpeg(width: int = 330, height: int = 220, **options: Any) -> bytes:
    out = io.BytesIO()
    Image.linear_gradient("L").resize((width, height)).convert("RGB").save(out, "JPEG", **options)
    return out.getvalue()


class Site:
    """Answers by path; `script` gives a path one answer after another, the last again and again."""

    def __init__(self) -> None:
        self.script: dict[str, list[Answer | Callable[[Seen], Any]]] = {}
        self.default: Answer | Callable[[Seen], Any] = Answer(200, jpeg())

    def __call__(self, seen: Seen) -> Any:
        answers = self.script.get(seen.path)
        answer = self.default if answers is None else answers.pop(0) if len(answers) > 1 else answers[0]
        return answer if isinstance(answer, Answer) else answer(seen)


class LocalLimiter:
    """A `Limiter` for one process."""

    def __init__(self) -> None:
        self._table = LeaseTable()

    async def acquire(self, limit: Limit) -> int | None:
        return self._table.acquire(limit)

    async def renew(self, leases: Collection[int]) -> list[int]:
        return self._table.renew(leases)

    async def release(self, lease: int) -> None:
        self._table.release(lease)

    async def settle(
        self, limit: Limit, *, received: int = 0, busy: bool | None = None, retry_after: float | None = None
    ) -> float:
        return self._table.settle(limit, received=received, busy=busy, retry_after=retry_after)
