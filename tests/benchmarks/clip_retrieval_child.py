"""Run by the interpreter of clip-retrieval's environment, never by this one: its inference over a folder of pictures.

    PYTHON tests/benchmarks/clip_retrieval_child.py TASK.json ANSWER.json

It imports nothing of the project. The model is loaded and warm before the clock starts, as for the other contenders.
The process that writes clip-retrieval's statistics is left out: it imports all libraries anew while the model works.
"""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

MODEL, TAG = "benchmark", "local"


def main(task: str, answer: str) -> None:
    """Read {model, tokenizer, pictures, out, batch, workers, threads}; write {wall_s, cpu_s}, and its vectors.

    `model` is a folder with `open_clip_config.json` and `open_clip_model.safetensors`, `tokenizer` one for transformers
    (its warm-up has a text), `pictures` one of JPEGs. The vectors, float16 in the order of the files' names, go to
    out/img_emb.
    """
    import pandas  # noqa: F401  # its writer imports it at the end
    import torch
    from all_clip import load_clip
    from clip_retrieval.clip_inference.mapper import ClipMapper
    from clip_retrieval.clip_inference.reader import FilesReader
    from clip_retrieval.clip_inference.runner import Runner
    from clip_retrieval.clip_inference.writer import NumpyWriter

    asked = json.loads(Path(task).read_text(encoding="utf-8"))
    torch.set_num_threads(asked["threads"])
    register(Path(asked["model"]), asked["tokenizer"], Path(asked["out"]))
    kinds = {"enable_text": False, "enable_image": True, "enable_metadata": False}
    model = {"clip_model": f"open_clip:{MODEL}/{TAG}", "use_jit": False, "warmup_batch_size": asked["batch"]}
    _, preprocess, tokenizer = load_clip(**model, clip_cache_path=None)
    mapper = ClipMapper(**kinds, **model, use_mclip=False, mclip_model="")
    batches = {"batch_size": asked["batch"], "num_prepro_workers": asked["workers"]}
    runner = Runner(
        reader_builder=lambda some: FilesReader(some, preprocess, tokenizer, asked["pictures"], **batches, **kinds),
        mapper_builder=lambda: mapper,
        writer_builder=lambda number: NumpyWriter(number, asked["out"], **kinds, output_partition_count=1),
        logger_builder=lambda number: NoLogger(),
        output_partition_count=1,
    )
    begun = time.perf_counter(), cpu_seconds()
    runner(0)
    seconds = {"wall_s": time.perf_counter() - begun[0], "cpu_s": cpu_seconds() - begun[1]}
    Path(answer).write_text(json.dumps(seconds), encoding="utf-8")


def register(folder: Path, tokenizer: str, out: Path) -> None:
    """Make the model known to open_clip by name and tag: from a plain file it would get OpenAI's preprocessing."""
    import open_clip
    from open_clip import pretrained

    content = json.loads((folder / "open_clip_config.json").read_text(encoding="utf-8"))
    content["model_cfg"]["text_cfg"]["hf_tokenizer_name"] = tokenizer
    configs = out / "configs"
    configs.mkdir(parents=True)
    (configs / f"{MODEL}.json").write_text(json.dumps(content["model_cfg"]), encoding="utf-8")
    open_clip.add_model_config(configs)
    pretrained._PRETRAINED[MODEL] = {
        TAG: {"file": str(folder / "open_clip_model.safetensors"), **content["preprocess_cfg"]}
    }


class NoLogger:
    """Takes the place of clip-retrieval's LoggerWriter."""

    def start(self) -> None: ...

    def end(self) -> None: ...

    def __call__(self, stats: dict[str, Any]) -> None: ...


def cpu_seconds() -> float:
    """Of this process and of the workers that have ended."""
    used = [resource.getrusage(rater_name) for rater_name in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(entry.ru_utime + entry.ru_stime for entry in used)


if __name__ == "__main__":
    main(*sys.argv[1:])
