"""The same requests through the engine alone and through `python -m jobs.judge`: what Ray, tables and rows cost.

The engine is given decoded pictures and texts, prepares and scores one picture after the other, and is warm. The job
is measured from its first finished unit to its last, a batch a unit, with all processes of its tree. What comes before
(Ray, imports, the model, the first unit) is the third contender's, which is the job from its start to its end.
"""

import hashlib
import io
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks import judging
from tests.benchmarks.child import Result
from tests.benchmarks.harness import Benchmark, Contender, Size, Target
from tests.benchmarks.measure import Tree

UNITS: dict[Size, int] = {"smoke": 2, "default": 4, "full": 16}
BATCH = 4  # pictures a unit; the first unit's are the engine's warm-up, and tell that the job is under way
TARGETS = "un_subregions"
RUBRIC = "cultural_relevance"
WORDS = 850  # of an article; with picture and rubric about 1,200 tokens
POLL_S = 0.02


def prepare(workdir: Path, size: Size) -> None:
    """Tables of pictures and of the records they come from, unit by unit, and the model."""
    from actors import local_models

    local_models.resolve(judging.MODEL)
    for unit in range(UNITS[size]):
        shown, about = zip(*(_picture(unit * BATCH + place) for place in range(BATCH)), strict=True)
        _put(workdir / "images", "images", f"unit{unit}", shown)
        _put(workdir / "records", "records", f"unit{unit}", about)


def _picture(number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a row of `images` and one of `records`."""
    import numpy as np
    from PIL import Image

    draw = np.random.default_rng(number)
    pixels = draw.integers(0, 256, (judging.PIXELS, judging.PIXELS, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=90)
    name, article = f"{number:032x}", " ".join(draw.choice(judging.ARTICLE.split(), WORDS))
    return (
        {"image_id": name, "rendition": "original", "bytes": stream.getvalue(), "status": "ok"},
        {"record_id": name, "image_id": name, "page_title": f"Room {number}", "context_page_description": article},
    )


def _put(out: Path, name: str, unit: str, rows: Sequence[dict[str, Any]]) -> None:
    import pyarrow as pa

    from jobs.store.units import Unit
    from jobs.store.writer import Target as Place
    from jobs.store.writer import UnitTask, UnitWriter
    from jobs.tables import table

    task = UnitTask(Unit(unit, (), rows=len(rows)))
    with UnitWriter(Place(str(out), name, {}, "identity", {}), task) as writer:
        writer.counts.rows_in = len(rows)
        writer.write(pa.Table.from_pylist(list(rows), schema=table(name).schema()))


def engine(workdir: Path, size: Size) -> Result:
    """`ClosedSetScorer`, nothing around it."""
    import torch

    from actors.vlm.loading import load_vlm
    from actors.vlm.scoring import ClosedSetScorer

    torch.set_num_threads(1)
    scorer = ClosedSetScorer(*load_vlm(judging.MODEL, dtype="float32", device_map="cpu"))
    answers: list[str] = []
    begun = Mark(0.0, 0.0)
    for number, requests in enumerate(_requests(workdir)):
        if number == BATCH:
            begun = Mark(time.perf_counter(), time.process_time())
        for shares in judging.logprobs(scorer.score(requests)):
            answers.append(f"{number} {shares.index(max(shares))}")
    return _result(answers, begun, Mark(time.perf_counter(), time.process_time()))


def _requests(workdir: Path) -> list[list[Any]]:
    """Return the requests of the job about each picture, in the pictures' order."""
    from actors.pictures import decode_rgb
    from actors.rubrics.prompts import PromptBuilder
    from actors.rubrics.rubric import Rubric
    from actors.vlm.scoring_requests import ScoringRequest
    from jobs.judge import JudgeConfig
    from jobs.runtime.configuration import config
    from jobs.store.reading import open_table

    asked = config.load("judge", JudgeConfig, [f"rubric={RUBRIC}", "model=local-tiny", "input=i", "out=o"])
    rubric = Rubric.from_dict(asked.rubric)
    builder, targets = PromptBuilder(rubric), _targets()

    def rows(name: str, columns: list[str]) -> list[dict[str, Any]]:
        results = [row for batch in open_table(str(workdir / name), name).batches(columns) for row in batch.to_pylist()]
        return sorted(results, key=lambda row: row["image_id"])

    fields = ["page_title", "context_page_description"]
    created = []
    for shown, about in zip(rows("images", ["image_id", "bytes"]), rows("records", ["image_id", *fields]), strict=True):
        picture = decode_rgb(shown["bytes"])
        prompts = builder.prompts({field: about[field] for field in fields}, targets=targets)
        created.append([ScoringRequest(entry.prompt, picture, entry.question.codes) for entry in prompts])
    return created


def job(workdir: Path, size: Size) -> Result:
    """The command, from its first finished unit to its last."""
    marks, answers = _run(workdir, size)
    return _result(answers, marks[1], marks[-1])


def job_whole(workdir: Path, size: Size) -> Result:
    """The command, from its start to its end."""
    marks, answers = _run(workdir, size)
    return _result(answers, marks[0], Mark(time.perf_counter(), marks[-1].cpu_s))


class Mark(NamedTuple):
    """A moment, and the CPU seconds of all processes until then."""

    wall_s: float
    cpu_s: float


def _run(workdir: Path, size: Size) -> tuple[list[Mark], list[str]]:
    """Run the job; its start and the moments at which its units were done, and the answers.

    Raises:
        RuntimeError: the job failed.
    """
    import shutil
    import tempfile

    from jobs.runtime.command_line import cli

    out = Path(tempfile.mkdtemp(prefix="judged-", dir=workdir.parent))
    ended = threading.Event()
    marks = [Mark(time.perf_counter(), 0.0)]
    watch = threading.Thread(target=_watch, args=(out, UNITS[size], marks, ended))
    watch.start()
    try:
        code = cli.main(
            "judge",
            [f"input={workdir / 'images'}", f"records={workdir / 'records'}", f"rubric={RUBRIC}", f"targets={TARGETS}",
             "model=local-tiny", f"model.checkpoint={judging.MODEL}", "resources.judge.threads=1",
             f"resources.judge.batch_size={BATCH}", f"out={out}"],
        )  # fmt: skip
        if code:
            raise RuntimeError(f"the job ended with {code}")
        watch.join()
        return marks, _answers(out)
    finally:
        ended.set()
        shutil.rmtree(out, ignore_errors=True)


def _watch(out: Path, units: int, marks: list[Mark], ended: threading.Event) -> None:
    """Note when each unit's object is there."""
    tree = Tree(os.getpid())
    while len(marks) <= units and not ended.wait(POLL_S):
        count = len(list(out.glob("*.parquet")))
        if count >= len(marks):
            tree.sample()
            marks += [Mark(time.perf_counter(), tree.cpu_seconds)] * (count - len(marks) + 1)


def _answers(out: Path) -> list[str]:
    from jobs.store.reading import open_table

    places = {target: place for place, target in enumerate(_targets())}
    rows = [
        row
        for batch in open_table(str(out), "ratings").batches(["item_id", "target", "value"])
        for row in batch.to_pylist()
    ]
    rows.sort(key=lambda row: (row["item_id"], places[row["target"]]))
    return [f"{int(row['item_id'], 16)} {judging.CODES.index(row['value'])}" for row in rows]


def _targets() -> tuple[str, ...]:
    from jobs.judging.targets import read_targets

    return read_targets(TARGETS) or ()


def _result(answers: list[str], begun: Mark, ended: Mark) -> Result:
    digest = hashlib.sha256("\n".join(answers).encode()).hexdigest()
    return Result(len(answers), digest, cpu_s=ended.cpu_s - begun.cpu_s, wall_s=ended.wall_s - begun.wall_s)


BENCHMARK = Benchmark(
    name="judge_job",
    about=__doc__,
    bound="the model; what the job adds is Ray's processes, tables and rows, on the same cores",
    prepare=prepare,
    contenders=(
        Contender(name="engine", function=f"{__name__}:engine", about="the scorer alone"),
        Contender(name="job", function=f"{__name__}:job", about="python -m jobs.judge, under way"),
        Contender(name="job_whole", function=f"{__name__}:job_whole", about="the same and its start"),
    ),
    reference="engine",
    targets=(
        Target(metric="cpu_s", contender="engine", against="job", at_least=0.9),
        Target(metric="wall_s", contender="engine", against="job", at_least=0.9),
    ),
    repeats={"smoke": 1, "default": 1, "full": 3},
    packages=("ray", "torch", "transformers"),
)
