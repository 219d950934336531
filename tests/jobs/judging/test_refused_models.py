"""Models that cannot run: each job's plan says why, in a sentence with the remedy, before torch or Ray is loaded."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.factories import write_table

SEES: dict[str, Any] = {"model_type": "qwen2_5_vl", "architectures": ["Qwen2_5_VLForConditionalGeneration"]}
READS: dict[str, Any] = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
REMOTE = {"model_type": "deep_chat", "auto_map": {"AutoModel": "modeling.Chat"}}
TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
REMEDIES = ("; use ", "; copy ", "; install ", "; merge ", " are required")
LARGE = 145 * 10**9  # bytes of weights
Files = dict[str, str | bytes | None]


def written(
    folder: Path, *, config: Any = SEES, files: Mapping[str, str | bytes | None] | None = None, size: int = 0
) -> None:
    """Write a model, with other or no (None) files; `size` is that of its only tensor, which takes no disk."""
    header = json.dumps({"x": {"dtype": "BF16", "shape": [size // 2], "data_offsets": [0, size]}}).encode()
    usual: Files = {
        "config.json": config if isinstance(config, str | bytes) else json.dumps(config),
        "tokenizer.json": "{}",
        "preprocessor_config.json": "{}",
        "chat_template.jinja": TEMPLATE,
        "model.safetensors": len(header).to_bytes(8, "little") + header,
    }
    folder.mkdir()
    for name, content in (usual | dict(files or {})).items():
        if content is not None:
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    if size:
        with (folder / "model.safetensors").open("ab") as stream:
            stream.truncate(stream.tell() + size)


def quantised(method: str, **more: Any) -> dict[str, Any]:
    return {"config": SEES | {"quantization_config": {"quant_method": method, **more}}}


def index(*names: str) -> str:
    return json.dumps({"weight_map": dict(enumerate(names))})


NOTHING: Files = dict.fromkeys(
    ("config.json", "tokenizer.json", "preprocessor_config.json", "chat_template.jinja", "model.safetensors")
)
ADAPTER = json.dumps({"peft_type": "LORA", "base_model_name_or_path": "Qwen/Qwen2.5-VL-7B-Instruct"})
SHARD = index("a.safetensors", "b.safetensors")
# By the model's folder: how it is written, and words of the refusal.
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "no-weights": ({"files": {"model.safetensors": None}}, "no weights in the folder; .safetensors files are required"),
    "pickled": ({"files": {"model.safetensors": None, "pytorch_model.bin": "x"}}, "no weights in the folder"),
    "cut-off": ({"files": {"model.safetensors": b"\x09" + bytes(9)}}, "model.safetensors: damaged: 10 bytes"),
    "no-shard": ({"files": {"model.safetensors.index.json": SHARD}}, "2 of 2 files are missing, the first a.safe"),
    "awq": (quantised("awq", bits=4), "quantised by awq, which needs gptqmodel"),
    "gptq": (quantised("gptq", bits=4), "quantised by gptq, which needs optimum and gptqmodel"),
    "fbgemm": (quantised("fbgemm_fp8"), "quantised by fbgemm_fp8, which needs"),
    "bitsandbytes": (quantised("bitsandbytes", load_in_4bit=True), "quantised by bitsandbytes, which needs"),
    "newer-method": (quantised("newer"), "quant_method='newer', which transformers does not know"),
    "unknown": ({"config": {"model_type": "qwen9_vl"}}, "model_type 'qwen9_vl' is unknown to transformers"),
    "remote-code": ({"config": REMOTE}, "is code of the model's repository"),
    "no-template": ({"files": {"chat_template.jinja": None}}, "no chat template in the folder"),
    "broken-template": ({"files": {"chat_template.jinja": "{% for m %}"}}, "chat template cannot be parsed (line 1:"),
    "no-processor": ({"files": {"preprocessor_config.json": None}}, "no processor of pictures in the folder"),
    "no-tokenizer": ({"files": {"tokenizer.json": None}}, "no tokenizer in the folder"),
    "encoder": ({"config": {"model_type": "siglip"}}, "model_type 'siglip' is neither a vision-language model nor"),
    "headless": ({"config": SEES | {"architectures": ["Qwen2_5_VLModel"]}}, "Qwen2_5_VLModel does not generate text"),
    "large": ({"size": LARGE}, "its weights take 145.0 GB in bfloat16; an actor has 1 x L40S with 48 GB"),
    "corrupt": ({"config": '{"model_type": "qwen2_5_vl", '}, "config.json is damaged ("),
    "utf-16": ({"config": json.dumps(SEES).encode("utf-16")}, "config.json is damaged ("),
    "untyped": ({"config": {}}, "config.json has no model_type"),
    "utf-8-less": ({"files": {"tokenizer_config.json": b"\xff\xfe"}}, "one of its text files is not UTF-8"),
    "empty": ({"files": NOTHING}, "no model in the folder (no config.json)"),
    "gguf": ({"files": NOTHING | {"model-Q4_K_M.gguf": "GGUF"}}, "GGUF files, which are not read"),
    "adapter": ({"files": NOTHING | {"adapter_config.json": ADAPTER}}, "(adapter_config.json) of Qwen/Qwen2.5"),
    "damaged-adapter": ({"files": NOTHING | {"adapter_config.json": "{"}}, "adapter (adapter_config.json) of a model"),
    "pipeline": ({"files": NOTHING | {"model_index.json": "{}"}}, "a pipeline of diffusers (model_index.json)"),
}  # fmt: skip
JOBS = {
    "judge": ["rubric=century_labels"],
    "loglik": ["targets=[Japan,Peru]"],
    "generate": ["prompt=explicit"],
}
PLANS = """
import contextlib, io, json, sys
from jobs.runtime.command_line import cli
import jobs.generate, jobs.judge, jobs.loglik
for job, arguments in json.load(sys.stdin):
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(io.StringIO()):
        code = cli.main(job, arguments)
    print(json.dumps([code, printed.getvalue(), sorted({"ray", "torch"} & sys.modules.keys())]))
"""


def test_plans_say_why_a_model_cannot_run(tmp_path: Path) -> None:
    for name, (model, _) in CASES.items():
        written(tmp_path / name, **model)
    written(tmp_path / "text", config=READS)
    write_table(tmp_path / "images", "images", [])
    wanted = [(job, name, message) for job in JOBS for name, (_, message) in CASES.items()]
    wanted += [(job, "text", "does not accept pictures, and prompt '") for job in ("loglik", "generate")]
    keys = [f"input={tmp_path}/images", f"out={tmp_path}/out", "plan=true", "resources=cluster", "resources.gpu=L40S"]
    calls = [
        (job, [*keys, *JOBS[job], "model.name=m", f"model.checkpoint={tmp_path}/{name}"]) for job, name, _ in wanted
    ]
    ended = subprocess.run(
        [sys.executable, "-c", PLANS], input=json.dumps(calls), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    wrong = []
    for (job, name, message), line in zip(wanted, ended.stdout.splitlines(), strict=True):
        code, printed, loaded = json.loads(line)
        sentence = printed.removesuffix("\n")
        begins = sentence.startswith(f"error: model.checkpoint={tmp_path}/{name}: ") and sentence.count(f"{name}:") == 1
        has_remedy = any(words in sentence for words in REMEDIES)
        if not (code == 2 and begins and message in sentence and has_remedy and "\n" not in sentence and not loaded):
            wrong.append(f"{job} {name}: {code} {loaded} {printed}")
    assert not wrong, "\n".join(wrong)
