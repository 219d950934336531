"""Encoded pictures to vectors by SigLIP's image tower of base size (random weights): decode, resize, encode, normalise.

`forward` is the model alone on tensors that are ready: what is above it is what the way there costs, and 1 - forward /
remine is the share of the time in which the model is idle. It multiplies as remine does (`actors/devices.py`);
`forward-torch` as torch does by default. No figure includes loading the model.
"""

import hashlib
import io
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks import clip_retrieval_child
from tests.benchmarks.child import Result, SkippedError
from tests.benchmarks.clock import Clock
from tests.benchmarks.harness import Benchmark, Contender, Size, Target

PICTURES: dict[Size, int] = {"smoke": 32, "default": 128, "full": 512}
UNIT, BATCH, THREADS, SIDE = 64, 16, 2, 330
CONFIG = "open_clip_config.json"
TOWER = "ViT-B-16-SigLIP-i18n-256"  # the model whose image tower is measured
FILES, MODEL, TABLE = "pictures.npz", "model", "images"
STAGES = ("decode", "embed")
CLIP_PYTHON = "REMINE_CLIP_RETRIEVAL_PYTHON"  # the interpreter of an environment that has clip-retrieval
CLIP_SECONDS = 1200
SAME = 0.9999  # least cosine of a picture's vectors by two contenders, each float16


def prepare(workdir: Path, size: Size) -> None:
    """Encoded pictures of the width that Wikimedia's thumbnails have after `fetch`."""
    files: dict[str, Any] = {
        f"{number:06d}": np.frombuffer(data, np.uint8) for number, data in enumerate(noise(PICTURES[size]))
    }
    np.savez(workdir / FILES, **files)
    write_table(workdir / TABLE, [data.tobytes() for data in files.values()], rows=BATCH)
    if size == "smoke":
        write_model(workdir / MODEL, small_config())
    else:
        write_model(workdir / MODEL, config_of(TOWER))


def noise(count: int) -> list[bytes]:
    """Encoded pictures of smooth noise."""
    from PIL import Image

    draw = np.random.default_rng(0)
    files = []
    for _ in range(count):
        blocks = Image.fromarray(draw.integers(0, 255, (9, 12, 3), np.uint8))
        stream = io.BytesIO()
        blocks.resize((SIDE, SIDE * 3 // 4)).save(stream, "JPEG", quality=85)
        files.append(stream.getvalue())
    return files


def write_table(out: Path, data: Sequence[bytes], *, rows: int) -> None:
    """Write the pictures as a table `images`, in units of so many rows."""
    from jobs.store.runs.table_run import open_run
    from jobs.store.table_plan import TablePlan
    from jobs.store.units import Unit
    from jobs.store.writer import UnitWriter

    firsts = range(0, len(data), rows)
    units = [Unit(f"unit{first:06d}", (), rows=min(rows, len(data) - first)) for first in firsts]
    run = open_run(
        TablePlan(str(out), "images", {"made": "for embed"}, units, {}, {}, derived=False),
        resume=False, overwrite=False, retry=[],
    )  # fmt: skip
    for task, first in zip(run.todo, firsts, strict=True):
        some = _images(data[first : first + rows], first)
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = some.num_rows
            writer.write(some)
    run.finish()


def small_config() -> dict[str, Any]:
    """Return the `open_clip_config.json` of the tiny local checkpoint."""
    from actors import local_models

    content: dict[str, Any] = json.loads((Path(local_models.resolve("local:siglip-tiny")) / CONFIG).read_text())
    return content


def config_of(name: str) -> dict[str, Any]:
    """Return the config of the tiny local checkpoint with the image tower of open_clip's model `name`."""
    import open_clip

    content, published = small_config(), open_clip.get_model_config(name)
    content["model_cfg"]["embed_dim"] = published["embed_dim"]
    content["model_cfg"]["vision_cfg"] = published["vision_cfg"]
    content["preprocess_cfg"]["size"] = [published["vision_cfg"]["image_size"]] * 2
    return content


def build_model(config: dict[str, Any]) -> Any:
    """Return the model of such a config, with random weights."""
    from open_clip import CustomTextCLIP

    return CustomTextCLIP(**{name: value for name, value in config["model_cfg"].items() if name != "custom_text"})


def write_model(folder: Path, config: dict[str, Any]) -> None:
    """Write a checkpoint with random weights; texts are not embedded here."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir()
    (folder / CONFIG).write_text(json.dumps(config))
    torch.manual_seed(0)
    save_file(build_model(config).state_dict(), folder / "open_clip_model.safetensors")


def remine(workdir: Path, size: Size) -> Result:
    """The two stages of `embed`, a unit of pictures at a time, one next to the other as the job runs them."""
    return _remine(workdir, dtype="float32")


def remine_bfloat16(workdir: Path, size: Size) -> Result:
    """The same with embedder.dtype=bfloat16."""
    return _remine(workdir, dtype="bfloat16")


def _remine(workdir: Path, *, dtype: str) -> Result:
    from concurrent.futures import ThreadPoolExecutor

    from actors.embedder import Embedder, PictureDecoder
    from actors.encoders.encoder_sources import EncoderSettings

    model = _model(workdir)
    settings = EncoderSettings(model, device="cpu", dtype=dtype)
    decoder = PictureDecoder(settings)
    embedder = Embedder(settings, batch_size=BATCH, threads=THREADS)
    data = _pictures(workdir)
    units = [_images(data[first : first + UNIT], first) for first in range(0, len(data), UNIT)]
    embedder(decoder(units[0].slice(0, BATCH)))
    clock = Clock()
    with ThreadPoolExecutor(1) as pool, clock:
        created = [np.array(embedder(decoded)["embedding"].to_pylist()) for decoded in pool.map(decoder, units)]
    return _result(np.concatenate(created), clock.wall_s, clock.cpu_s)


def loader(workdir: Path, size: Size) -> Result:
    """A plain loop: open_clip's own transform in a DataLoader with a worker, float32 tensors through its queue."""
    import open_clip
    import torch
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset

    torch.set_num_threads(THREADS)
    model, _, transform = open_clip.create_model_and_transforms(_model(workdir))
    data = _pictures(workdir)

    class Pictures(Dataset):
        def __len__(self) -> int:
            return len(data)

        def __getitem__(self, number: int) -> Any:
            return transform(Image.open(io.BytesIO(data[number])).convert("RGB"))

    created = []
    clock = Clock()
    with torch.inference_mode():
        model.eval().encode_image(torch.zeros(BATCH, 3, 256, 256))
        with clock:
            for batch in DataLoader(Pictures(), batch_size=BATCH, num_workers=1):
                created.append(torch.nn.functional.normalize(model.encode_image(batch), dim=-1).numpy())
    return _result(np.concatenate(created).astype(np.float16), clock.wall_s, clock.cpu_s)


def clip_retrieval(workdir: Path, size: Size) -> Result:
    """clip-retrieval's reader, model and writer in a separate environment, if there is one.

    A worker reads next to the model, as in `loader`; the same batches, tower, threads and pictures, which lie in files.

    Raises:
        SkippedError: no such environment is named.
        ValueError: its vectors are not ours.
    """
    python = os.environ.get(CLIP_PYTHON)
    if not python:
        raise SkippedError(f"{CLIP_PYTHON} names no interpreter of an environment with clip-retrieval")
    from actors import local_models

    data = _pictures(workdir)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pictures, task, answer, out = (folder / part for part in ("pictures", "task.json", "answer.json", "out"))
        pictures.mkdir()
        for number, body in enumerate(data):
            (pictures / f"{number:06d}.jpg").write_bytes(body)
        places = {"model": str(workdir / MODEL), "pictures": str(pictures), "out": str(out)}
        places["tokenizer"] = str(local_models.resolve("local:siglip-tiny"))
        task.write_text(json.dumps(places | {"batch": BATCH, "workers": 1, "threads": THREADS}), encoding="utf-8")
        ended = subprocess.run(
            [python, clip_retrieval_child.__file__, str(task), str(answer)],
            check=False, capture_output=True, text=True, timeout=CLIP_SECONDS,
        )  # fmt: skip
        if ended.returncode:
            raise RuntimeError(f"clip-retrieval ended with {ended.returncode}: {ended.stderr[-2000:]}")
        content = json.loads(answer.read_text(encoding="utf-8"))
        vectors = np.load(out / "img_emb" / "img_emb_0.npy", allow_pickle=False)
    _same(vectors[:BATCH], workdir, data[:BATCH])
    return _result(vectors, content["wall_s"], content["cpu_s"])


def _same(vectors: np.ndarray, workdir: Path, data: list[bytes]) -> None:
    """Refuse vectors [n, dim] that are not ours of the same pictures."""
    from actors.embedder import Embedder, PictureDecoder
    from actors.encoders.encoder_sources import EncoderSettings

    model = _model(workdir)
    settings = EncoderSettings(model, device="cpu", dtype="float32")
    decoded = PictureDecoder(settings)(_images(data, 0))
    embedder = Embedder(settings, batch_size=BATCH, threads=THREADS)
    ours = np.array(embedder(decoded)["embedding"].to_pylist(), np.float64)
    theirs = vectors.astype(np.float64)
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    least = float(((ours * theirs).sum(axis=1) / lengths).min())
    if least < SAME:
        raise ValueError(f"the least cosine of a picture's vectors is {least:.6f}")


def forward(workdir: Path, size: Size) -> Result:
    """The bare model on one prepared batch, over and over."""
    return _forward(workdir, size, "float32")


def forward_torch(workdir: Path, size: Size) -> Result:
    """The same with the products that torch takes by itself."""
    return _forward(workdir, size, "float32", sped_up=False)


def forward_bfloat16(workdir: Path, size: Size) -> Result:
    """The same in bfloat16."""
    return _forward(workdir, size, "bfloat16")


def _forward(workdir: Path, size: Size, dtype: str, *, sped_up: bool = True) -> Result:
    import open_clip
    import torch

    from actors import devices

    torch.set_num_threads(THREADS)
    model, *_ = open_clip.create_model_and_transforms(_model(workdir))
    model = model.eval().to(getattr(torch, dtype))
    if sped_up:
        devices.enable_onednn()
    batch = torch.zeros(BATCH, 3, 256, 256, dtype=getattr(torch, dtype))
    clock = Clock()
    with torch.inference_mode():
        model.encode_image(batch)
        with clock:
            for _ in range(0, PICTURES[size], BATCH):
                model.encode_image(batch)
    return Result(rows=0, digest="", wall_s=clock.wall_s, cpu_s=clock.cpu_s)


def job(workdir: Path, size: Size) -> Result:
    """`python -m jobs.embed` with its Ray, from its first finished unit to its last, as seconds for all pictures.

    Both stages take a unit at a time, so that each is written when it is ready. One actor per core, with one thread:
    two threads of one actor wait for each other whenever something else takes a core.
    """
    from jobs.runtime.command_line import cli

    if PICTURES[size] < 8 * BATCH:
        raise SkippedError("too few units for a steady rate; use size default")
    with tempfile.TemporaryDirectory() as folder:
        actors = [f"resources.embed.actors={THREADS}", "resources.embed.threads=1"]
        resources = [*actors, *(f"resources.{s}.batch_size={BATCH}" for s in STAGES)]
        named = ["embedder=local-tiny", f"embedder.checkpoint={_model(workdir)}", "embedder.dtype=float32"]
        if cli.main("embed", [f"input={workdir / TABLE}", f"out={folder}/out", *named, *resources]):
            raise RuntimeError("the job failed")
        ends = sorted(path.stat().st_mtime for path in (Path(folder) / "out").glob("*.parquet"))
    ends = ends[THREADS - 1 :]  # the actors begin, and end a unit, at about the same time
    return Result(rows=0, digest="", wall_s=(ends[-1] - ends[0]) * PICTURES[size] / (BATCH * (len(ends) - 1)))


def _images(some: Sequence[bytes], first: int) -> Any:
    """Return rows of a table `images`."""
    import pyarrow as pa

    from jobs.tables import TABLES

    rows = [
        {"image_id": f"{first + n:06d}", "rendition": "original", "bytes": data, "status": "ok"}
        for n, data in enumerate(some)
    ]
    return pa.Table.from_pylist(rows, schema=TABLES["images"].schema())


def _model(workdir: Path) -> str:
    return f"local-dir:{workdir / MODEL}"


def _pictures(workdir: Path) -> list[bytes]:
    with np.load(workdir / FILES, allow_pickle=False) as files:
        return [files[name].tobytes() for name in sorted(files.files)]


def _result(vectors: np.ndarray, wall_s: float, cpu_s: float) -> Result:
    """Return a result with a digest of the mean vector to two decimals, which in float16 no batch size changes."""
    mean = np.round(vectors.astype(np.float64).mean(axis=0), 2) + 0.0
    digest = hashlib.sha256(mean.tobytes()).hexdigest()
    return Result(rows=len(vectors), digest=digest, wall_s=wall_s, cpu_s=cpu_s)


BENCHMARK = Benchmark(
    name="embed",
    input_version=2,
    about=__doc__,
    bound="the image tower's matrix products on a CPU; next to a GPU, decoding",
    prepare=prepare,
    contenders=(
        Contender(name="forward", function=f"{__name__}:forward", compared=False, about="the bare model"),
        Contender(
            name="forward-torch", function=f"{__name__}:forward_torch", compared=False, about="with torch's products"
        ),
        Contender(name="remine", function=f"{__name__}:remine", about="decoder and embedder"),
        Contender(name="job", function=f"{__name__}:job", compared=False, about="jobs.embed, steady; CPU of all of it"),
        Contender(name="forward-bf16", function=f"{__name__}:forward_bfloat16", compared=False, about="the bare model"),
        Contender(
            name="remine-bf16", function=f"{__name__}:remine_bfloat16", compared=False, about="decoder and embedder"
        ),
        Contender(name="loader", function=f"{__name__}:loader", about="torch DataLoader, open_clip"),
        Contender(
            name="clip-retrieval", function=f"{__name__}:clip_retrieval", about="its inference, by its own environment"
        ),
    ),
    reference="forward",
    targets=(
        Target(metric="wall_s", contender="forward", against="remine", at_least=0.92),
        Target(metric="cpu_s", contender="forward", against="remine", at_least=0.92),
        Target(metric="wall_s", contender="forward", against="job", at_least=0.92),
        Target(metric="wall_s", contender="forward-bf16", against="remine-bf16", at_least=0.92),
        Target(metric="wall_s", contender="loader", against="remine", at_least=1.5),
        Target(metric="wall_s", contender="clip-retrieval", against="remine", at_least=1.5),
    ),
    packages=("numpy", "open_clip_torch", "torch"),
)
