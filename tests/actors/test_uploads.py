"""Uploads on a device whose copies and work run late, each in its own order: what a missing guard would break."""

import queue
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
import pyarrow as pa
import pytest
import torch

from actors import searcher, uploads
from actors.embedder import Embedder
from actors.encoders.encoder_sources import EncoderSettings
from actors.search_queries import Queries, SearchSettings
from actors.searcher import Search
from actors.uploads import AT_A_TIME, STAGES, Event, Uploads

LATE = 0.002  # seconds by which each operation is late


class Late:
    """A stream: operations run in their order in a thread, later than they are begun."""

    def __init__(self, delay: float) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._delay = delay
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def begin(self, task: Callable[[], object]) -> None:
        self._tasks.put(task)

    def event(self) -> "LateEvent":
        event = LateEvent()
        self._tasks.put(event.happened.set)
        return event

    def end(self) -> None:
        self._tasks.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            time.sleep(self._delay)
            task()


class LateEvent:
    def __init__(self) -> None:
        self.happened = threading.Event()

    def synchronize(self) -> None:
        assert self.happened.wait(30)


class LateLane:
    """A lane whose copies and work are late. Work that the caller does itself is done when it asks for more."""

    def __init__(self, *, copies: float, work: float | None) -> None:
        self.copies, self.work = Late(copies), None if work is None else Late(work)
        self.stages: list[int] = []
        self.buffers: list[int] = []

    def pinned(self, size: int) -> torch.Tensor:
        self.stages.append(size)
        return torch.empty(size, dtype=torch.uint8)

    def allocate(self, size: int) -> torch.Tensor:
        self.buffers.append(size)
        return torch.empty(size, dtype=torch.uint8)

    def send(self, target: torch.Tensor, source: torch.Tensor) -> LateEvent:
        self.copies.begin(lambda: target.copy_(source))
        return self.copies.event()

    def hold_copies(self, event: Event) -> None:
        self.copies.begin(event.synchronize)

    def hold_work(self, event: Event, memory: torch.Tensor) -> None:
        if self.work is None:
            event.synchronize()
        else:
            self.work.begin(event.synchronize)

    def worked(self) -> LateEvent:
        return (self.work or self.copies).event()

    def wait(self) -> None:
        self.copies.event().synchronize()

    def end(self) -> None:
        self.copies.end()
        if self.work is not None:
            self.work.end()


@pytest.fixture
def lanes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., LateLane]]:
    monkeypatch.setattr(uploads, "STAGE_BYTES", 1 << 10)
    created: list[LateLane] = []

    def create(*, copies: float = 0.0, work: float | None = None) -> LateLane:
        created.append(LateLane(copies=copies, work=work))
        return created[-1]

    yield create
    for lane in created:
        lane.end()


def arrays(count: int) -> list[torch.Tensor]:
    """Of several dtypes and sizes: less than a stage, several of them, not contiguous."""
    draw = torch.Generator().manual_seed(0)
    kinds = (torch.float16, torch.float32, torch.float64)
    whole = [torch.randn(40 + 31 * (n % 5), 12, generator=draw).to(kinds[n % 3]) for n in range(count)]
    return [array.T if n == 4 else array for n, array in enumerate(whole)]


@pytest.mark.parametrize(("copies", "work"), [(LATE, 0.0), (0.0, 5 * LATE), (LATE, LATE)])
def test_no_array_is_overwritten_before_it_is_read(lanes: Callable[..., LateLane], copies: float, work: float) -> None:
    lane = lanes(copies=copies, work=work)
    upload, sent, results = Uploads(lane), arrays(12), []
    assert lane.work is not None
    for _ in range(2):
        allocated = len(lane.buffers)
        for array in upload(sent):
            lane.work.begin(lambda array=array: results.append(array.clone()))  # type: ignore[misc]
    lane.work.event().synchronize()
    for expected, result in zip(sent * 2, results, strict=True):
        assert expected.dtype == result.dtype
        assert torch.equal(expected, result)
    assert lane.stages == [1 << 10] * STAGES
    assert len(lane.buffers) == allocated  # the second call reuses those of the first


@pytest.mark.parametrize(("copies", "work"), [(LATE, 0.0), (0.0, 5 * LATE)])
def test_no_array_is_overwritten_without_the_thread(lanes: Callable[..., LateLane], copies: float, work: float) -> None:
    lane = lanes(copies=copies, work=work)
    upload, sent, results = Uploads(lane), arrays(12), []
    assert lane.work is not None
    for number in range(24):
        same = sent[number % 12].clone()
        array = upload.send(same)
        same.zero_()  # what is not pinned is read before `send` returns
        lane.work.begin(lambda array=array: results.append(array.clone()))  # type: ignore[misc]
    lane.work.event().synchronize()
    assert all(torch.equal(array, expected) for array, expected in zip(results, sent * 2, strict=True))


def test_copies_run_ahead_of_the_work(lanes: Callable[..., LateLane]) -> None:
    lane, asked = lanes(), []

    def listed() -> Iterator[torch.Tensor]:
        for number in range(6):
            asked.append(number)
            yield torch.full((3, 4), float(number))

    with closing(Uploads(lane)(listed())) as coming:
        assert float(next(coming)[0, 0]) == 0
        assert asked == list(range(AT_A_TIME))
        assert float(next(coming)[0, 0]) == 1
        assert asked == list(range(AT_A_TIME + 1))


def test_what_is_pinned_is_not_staged(lanes: Callable[..., LateLane], monkeypatch: pytest.MonkeyPatch) -> None:
    lane = lanes(copies=LATE)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda _: True)
    sent = arrays(5)
    assert all(torch.equal(array, expected) for array, expected in zip(Uploads(lane)(sent), sent, strict=True))
    assert lane.stages == []


def test_an_end_in_between_waits_for_the_copies(
    lanes: Callable[..., LateLane], monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = lanes(copies=LATE)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda _: True)
    upload, sent = Uploads(lane), arrays(8)
    with closing(upload(sent)) as coming:
        next(coming)
    assert lane.copies._tasks.empty()  # the caller may free what it sent
    assert all(torch.equal(array, expected) for array, expected in zip(upload(sent), sent, strict=True))


def test_an_end_in_between_waits_for_the_thread(
    lanes: Callable[..., LateLane], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be beginning a copy, of which the caller may free the source."""
    lane, begun, release = lanes(), threading.Event(), threading.Event()
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda _: True)
    send, events = lane.send, []

    def slow(target: torch.Tensor, source: torch.Tensor) -> LateEvent:
        events.append("begun")
        if len(events) > 1:  # after the first array, which the caller gets
            begun.set()
            assert release.wait(30)
        events.append("ended")
        return send(target, source)

    monkeypatch.setattr(lane, "send", slow)
    with closing(Uploads(lane)(arrays(8))) as coming:
        next(coming)
        assert begun.wait(30)
        threading.Timer(0.1, release.set).start()
    assert events.count("begun") == events.count("ended") < AT_A_TIME + 1


def test_memory_of_arrays_is_shared_without_a_warning() -> None:
    array = np.frombuffer(b"abcd", np.uint8)  # read-only
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tensor = uploads.tensor_of(array)
    finally:
        torch.set_warn_always(False)
    assert tensor.data_ptr() == array.ctypes.data
    assert tensor.tolist() == [97, 98, 99, 100]


def test_an_error_of_the_device_reaches_the_caller(
    lanes: Callable[..., LateLane], monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = lanes()

    def full(size: int) -> torch.Tensor:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(lane, "allocate", full)
    with pytest.raises(torch.OutOfMemoryError):
        list(Uploads(lane)(arrays(5)))


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("score", ["inner_product", "cosine"])
def test_a_search_of_uploaded_rows_is_the_same(lanes: Callable[..., LateLane], kind: str, score: str) -> None:
    """Ties, bad rows and rows that are too long or short for float32 too, on what is a GPU's way but for the GPU."""
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((3000, 24)).astype(kind)
    rows[1500:1540] = rows[3]
    rows[[10, 700, 2999]] = np.array([np.nan, np.inf, 0])[:, None]
    if kind == "float64":
        rows[[20, 21, 900, 901]] *= np.array([[1e100], [1e-100], [1e300], [1e-300]])
    asked = Queries(rows[[3, 40, 1200]], SearchSettings(k=8, score=score, device="cpu"))

    def searched(lane: LateLane | None) -> tuple[list[bytes | list[str]], list[bytes]]:
        search = Search(asked, ids=lambda numbers: [f"{n * 7919 % 3001:04d}" for n in numbers.tolist()])
        search.rows_at_a_time = 256
        if lane is not None:
            search._uploads = Uploads(lane)
        bad = [
            part.tobytes() for cut in (0, 2000) for part in search.add(rows[cut:][:2000], np.arange(cut, 3000)[:2000])
        ]
        hits = search.finish()
        return [hits.query.tobytes(), hits.row.tobytes(), hits.score.tobytes(), hits.item_id], bad

    assert searched(lanes(copies=0.0002)) == searched(None)


def test_vectors_of_uploaded_pictures_are_the_same(lanes: Callable[..., LateLane]) -> None:
    """Batches with and without rows that are not good, one across the chunks of the table."""
    draw = np.random.default_rng(0)
    embedder = Embedder(EncoderSettings("local:siglip-tiny", device="cpu"), batch_size=4)
    rows: list[bytes | None] = [draw.integers(0, 256, 256 * 256 * 3, np.uint8).tobytes() for _ in range(14)]
    rows[5], rows[6] = None, b"short"
    nothing, names = pa.nulls(14, pa.string()), [f"{n}" for n in range(14)]
    columns = {"item_id": names, "kind": ["image"] * 14, "pixels": pa.array(rows, pa.large_binary())}
    whole = pa.table(columns | {"status": ["ok"] * 14, "error_kind": nothing, "error_message": nothing})
    batch = pa.concat_tables([whole.slice(0, 9), whole.slice(9)])
    expected = embedder(batch)
    embedder._uploads = Uploads(lanes(copies=0.0001))
    assert embedder(batch).equals(expected)
    assert expected["error_kind"].to_pylist()[4:8] == [None, "no_pixels", "wrong_size", None]


def test_pieces_of_a_gpu_are_bounded() -> None:
    for dim, rows in ((8, 1 << 17), (768, 1 << 17), (2000, 67_072), (65_536, 2048), (10**9, 256)):
        assert searcher._gpu_rows(dim) == rows
