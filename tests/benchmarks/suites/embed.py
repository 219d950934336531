"""Encoded pictures to vectors by SigLIP's image tower of base size (random weights): decode, resize, encode, normalise.

`forward` is the model alone on tensors that are ready: what is above it is what the way there costs.
"""

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.child import Result
from tests.benchmarks.harness import Benchmark, Contender, Size, Target

PICTURES: dict[Size, int] = {"smoke": 32, "default": 128, "full": 512}
UNIT, BATCH, THREADS, SIDE = 64, 16, 2, 330
CONFIG = "open_clip_config.json"
FILES, MODEL = "pictures.npz", "model"


def prepare(workdir: Path, size: Size) -> None:
    """Encoded pictures of the width that Wikimedia's thumbnails have after `fetch`."""
    from PIL import Image

    draw = np.random.default_rng(0)
    files: dict[str, Any] = {}
    for number in range(PICTURES[size]):
        blocks = Image.fromarray(draw.integers(0, 255, (9, 12, 3), np.uint8))
        stream = io.BytesIO()
        blocks.resize((SIDE, SIDE * 3 // 4)).save(stream, "JPEG", quality=85)
        files[f"{number:06d}"] = np.frombuffer(stream.getvalue(), np.uint8)
    np.savez(workdir / FILES, **files)
    _write_model(workdir / MODEL, "vit_base_patch16_siglip_256" if size != "smoke" else "test_vit")


def _write_model(folder: Path, image_tower: str) -> None:
    """A checkpoint like the tiny local one, with another image tower; texts are not embedded here."""
    import torch
    from open_clip import CustomTextCLIP
    from safetensors.torch import save_file

    from actors import local_models

    folder.mkdir()
    told = json.loads((Path(local_models.resolve("local:siglip-tiny")) / CONFIG).read_text())
    told["model_cfg"]["vision_cfg"]["timm_model_name"] = image_tower
    told["model_cfg"]["embed_dim"] = 64 if image_tower == "test_vit" else 768
    (folder / CONFIG).write_text(json.dumps(told))
    torch.manual_seed(0)
    model = CustomTextCLIP(**{name: value for name, value in told["model_cfg"].items() if name != "custom_text"})
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")


def remine(workdir: Path, size: Size) -> Result:
    """The two stages of `embed`, a unit of pictures at a time, one beside the other as the job runs them."""
    from concurrent.futures import ThreadPoolExecutor

    import pyarrow as pa

    from actors.embedder import Embedder, PictureDecoder

    decoder = PictureDecoder(model=_model(workdir), pretrained=None)
    embedder = Embedder(model=_model(workdir), pretrained=None, device="cpu", batch_size=BATCH, threads=THREADS)
    units = []
    data = _pictures(workdir)
    for first in range(0, len(data), UNIT):
        some = data[first : first + UNIT]
        ids, nothing = [f"{first + n:06d}" for n in range(len(some))], pa.nulls(len(some), pa.string())
        columns = {"image_id": ids, "bytes": pa.array(some, pa.large_binary()), "status": ["ok"] * len(some)}
        units.append(pa.table({**columns, "error_kind": nothing, "error_message": nothing}))
    with ThreadPoolExecutor(1) as pool:
        made = [np.array(embedder(decoded)["embedding"].to_pylist()) for decoded in pool.map(decoder, units)]
    return _result(np.concatenate(made))


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

    made = []
    with torch.inference_mode():
        for batch in DataLoader(Pictures(), batch_size=BATCH, num_workers=1):
            made.append(torch.nn.functional.normalize(model.eval().encode_image(batch), dim=-1).numpy())
    return _result(np.concatenate(made).astype(np.float16))


def forward(workdir: Path, size: Size) -> Result:
    """The bare model on one prepared batch, over and over."""
    import open_clip
    import torch

    torch.set_num_threads(THREADS)
    model, *_ = open_clip.create_model_and_transforms(_model(workdir))
    batch = torch.zeros(BATCH, 3, 256, 256)
    with torch.inference_mode():
        for _ in range(0, PICTURES[size], BATCH):
            model.eval().encode_image(batch)
    return Result(rows=0, digest="")


def _model(workdir: Path) -> str:
    return f"local-dir:{workdir / MODEL}"


def _pictures(workdir: Path) -> list[bytes]:
    with np.load(workdir / FILES, allow_pickle=False) as files:
        return [files[name].tobytes() for name in sorted(files.files)]


def _result(vectors: np.ndarray) -> Result:
    """What float16 leaves alike between batches of other sizes: two decimals of the vectors' sums."""
    told = np.round(vectors.astype(np.float64).mean(axis=0), 2) + 0.0
    return Result(rows=len(vectors), digest=hashlib.sha256(told.tobytes()).hexdigest())


BENCHMARK = Benchmark(
    name="embed",
    about=__doc__,
    prepare=prepare,
    contenders=(
        Contender(name="forward", function=f"{__name__}:forward", compared=False, about="the bare model"),
        Contender(name="remine", function=f"{__name__}:remine", about="decoder and embedder"),
        Contender(name="loader", function=f"{__name__}:loader", about="torch DataLoader, open_clip"),
    ),
    reference="forward",
    targets=(
        Target(metric="wall_s", contender="forward", against="remine", at_least=0.92),
        Target(metric="wall_s", contender="loader", against="remine", at_least=1.5),
    ),
    packages=("numpy", "open_clip_torch", "torch"),
)
