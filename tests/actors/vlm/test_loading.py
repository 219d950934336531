"""Loading without network, checks of model files, and the facts recorded about a model."""

import contextlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.errors import ModelError
from actors.local_models import resolve
from actors.preparers import PromptPreparer, RubricPreparer
from actors.vlm import model_checks
from actors.vlm.chat import tokens_of_sizes
from actors.vlm.loading import (
    TextProcessor,
    check_placement,
    completed,
    load_processor,
    load_vlm,
    model_facts,
    rater_name,
)
from actors.vlm.model_checks import check_vlm, head_counts, model_type
from actors.vlm.settings import ContextSettings, ModelSettings, RubricSettings
from tests.cases import check_cases


def test_rater_names(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert rater_name("Qwen/Qwen2.5-VL-7B-Instruct", revision="abc") == "Qwen/Qwen2.5-VL-7B-Instruct@abc"
    assert rater_name("Qwen/Qwen2.5-VL-7B-Instruct") == "Qwen/Qwen2.5-VL-7B-Instruct@main"
    assert rater_name("local:qwen2.5-vl-tiny", revision="main") == "local:qwen2.5-vl-tiny"
    assert rater_name(str(tmp_path / "mine")) == "mine"
    assert rater_name("s3://bucket/models/mine/", revision="abc") == rater_name("s3://mine") == "mine"


def test_facts(vlm: tuple[Any, Any]) -> None:
    import torch
    import transformers

    facts = model_facts(vlm[0], model="local:qwen2.5-vl-tiny", revision=None)
    assert facts._asdict() == {
        "rater": "local:qwen2.5-vl-tiny",
        "family": "qwen2_5_vl",
        "revision": "",
        "dtype": "float32",
        "engine": f"transformers {transformers.__version__} / torch {torch.__version__}, {vlm[0].device.type}",
    }


def test_facts_of_a_hubs_model(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr("transformers.__version__", "5")
    monkeypatch.setattr(torch, "__version__", "2")
    monkeypatch.setattr("actors.vlm.fused.library", lambda model: "liger 1")
    config = SimpleNamespace(model_type="qwen2", _commit_hash="c0")
    loaded = SimpleNamespace(config=config, dtype=torch.bfloat16, device=torch.device("cpu"))
    facts = model_facts(loaded, model="a/b", revision="v1", engine="packed")
    assert facts == ("a/b@v1", "qwen2", "c0", "bfloat16", "packed, transformers 5 / torch 2 / liger 1, cpu")
    assert facts.tally == f"rater/qwen2|c0|bfloat16|{facts.engine}"
    config._commit_hash = None
    assert model_facts(loaded, model="a/b", revision="v1").revision == "v1"
    assert model_facts(loaded, model="a/b").engine == "transformers 5 / torch 2 / liger 1, cpu"


def test_what_a_processors_files_leave_open_is_filled_in() -> None:
    vision = SimpleNamespace(patch_size=14, model_type="clip_vision_model")
    config = SimpleNamespace(vision_config=vision, vision_feature_select_strategy="full")

    def filled(**values: Any) -> dict[str, Any]:
        return vars(completed(SimpleNamespace(**values), config))

    old = {"patch_size": None, "vision_feature_select_strategy": None, "num_additional_image_tokens": 0}
    expected = {"patch_size": 14, "vision_feature_select_strategy": "full", "num_additional_image_tokens": 1}
    assert filled(**old) == expected
    vision.model_type = "siglip_vision_model"
    assert filled(**old) == expected | {"num_additional_image_tokens": 0}
    for whole in ({"patch_size": 7, "vision_feature_select_strategy": None}, {"patch_size": None}, {}):
        assert filled(**whole) == whole


def test_a_text_models_processor_leaves_pictures_out() -> None:
    calls: list[Any] = []

    class Tokenizer:
        def __call__(self, text: Any, **options: Any) -> str:
            calls.append((text, options))
            return "tokens"

        def apply_chat_template(self, messages: Any, **options: Any) -> Any:
            return messages, options

        def batch_decode(self, ids: Any, *, skip: bool) -> list[str]:
            return [f"{ids} {skip}"]

    processor = TextProcessor(Tokenizer())
    assert processor(["a"], images=["P"], add_special_tokens=False) == "tokens"
    assert calls == [(["a"], {"add_special_tokens": False})]
    pieces = [{"type": "text", "text": "A"}, {"type": "image", "image": "P"}, {"type": "text", "text": "B"}]
    turns: list[dict[str, Any]] = [{"role": "system", "content": "S"}, {"role": "user", "content": pieces}]
    texts = [{"role": "system", "content": "S"}, {"role": "user", "content": "AB"}]
    assert processor.apply_chat_template(turns, tokenize=False) == (texts, {"tokenize": False})
    assert processor.batch_decode([1], skip=True) == ["[1] True"]
    assert not processor.sees_pictures


def test_bfloat16_is_loaded_when_asked_for() -> None:
    import torch

    model, _ = load_vlm("local:qwen2.5-vl-tiny", dtype="bfloat16", device_map="cpu")
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    assert not model.training


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("local:nothing", "local:nothing: no such local model"),
        ("FOLDER", "/empty: cannot load the model at revision main"),
    ],
)
def test_a_model_that_is_not_there(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=message) as caught:
        load_vlm(name.replace("FOLDER", str(tmp_path / "empty")))
    assert "\n" not in str(caught.value)


LLAMA = {"config.json": '{"model_type": "llama"}'}
TEMPLATE = {"chat_template.jinja": "x"}
WHOLE = "\x02" + 7 * "\0" + "{}"  # a file of safetensors without tensors


def test_a_folder_without_a_judge_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    cases = [
        ({}, "no model in the folder"),
        ({"config.json": "not JSON"}, "config.json is damaged"),
        ({"config.json": '{"model_type": "clip"}'}, "'clip'"),
        ({"model_index.json": '{"_class_name": "DiffusionPipeline"}'}, "a pipeline of diffusers"),
        (LLAMA, "no weights in the folder"),
        (
            {"config.json": '{"model_type": "bert", "architectures": ["BertModel"]}'},
            "BertModel",
        ),
        (
            {"config.json": '{"model_type": "qwen2", "architectures": ["Qwen2ForSequenceClassification"]}'},
            "Qwen2ForSequenceClassification",
        ),
        (LLAMA | {"a.safetensors": WHOLE}, "no chat template in the folder"),
        (LLAMA | {"a.safetensors": WHOLE + "0"}, "a.safetensors: damaged: 11 bytes, 10 by its header"),
        (LLAMA | {"a.safetensors": WHOLE[:-1]}, "a.safetensors: damaged: 9 bytes, no readable header"),
        (LLAMA | {"a.safetensors": ""}, "damaged: 0 bytes, no readable header"),
        (
            LLAMA | {"model.safetensors.index.json": '{"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}'},
            "index.json: 2 of 2 files are missing, the first a.safetensors",
        ),
        (LLAMA | TEMPLATE | {"a.safetensors": WHOLE}, "no tokenizer in the folder"),
        (
            {"config.json": '{"model_type": "qwen2_5_vl"}', "tokenizer.json": "{}", "a.safetensors": WHOLE} | TEMPLATE,
            "no processor of pictures in the folder",
        ),
    ]

    def check(files: dict[str, str], message: str) -> None:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        for name, text in files.items():
            (folder / name).write_text(text)
        with pytest.raises(ValueError, match=message):
            check_vlm(str(folder))

    check_cases(check, cases)


def test_sizes_and_classes_of_a_config_are_checked_before_anything_is_loaded(tmp_path: Path) -> None:
    def check(name: str, key: str, value: Any) -> None:
        folder = Path(shutil.copytree(resolve(name), tempfile.mkdtemp(dir=tmp_path), dirs_exist_ok=True))
        config = json.loads((folder / "config.json").read_text())
        is_size = key in ("hidden_size", "num_attention_heads")
        (config.get("text_config", config) if is_size else config)[key] = value
        (folder / "config.json").write_text(json.dumps(config))
        for read in (check_vlm, head_counts, model_type):
            if key != "architectures" or read is check_vlm:
                with pytest.raises(ValueError, match=rf"^{re.escape(str(folder))}: .+") as caught:
                    read(str(folder))
                assert "\n" not in str(caught.value)
                assert len(str(caught.value)) < len(str(folder)) + 300

    models = ("local:qwen2.5-vl-tiny", "local:llama-tiny")
    sizes: list[Any] = [2**40, 2**70, -1, 0, "x", True, None, 1.5, [1], {}, "9" * 5000]
    heads: list[Any] = [-1, "x", [], 2**40]
    classes: list[Any] = [5, [5], [None], [[]], "../../evil"]
    cases: list[tuple[str, str, Any]] = [(model, "hidden_size", size) for model in models for size in sizes]
    cases += [(model, "num_attention_heads", size) for model in models for size in heads]
    cases += [("local:qwen2.5-vl-tiny", part, 5) for part in ("text_config", "vision_config")]
    cases += [("local:qwen2.5-vl-tiny", "text_config", []), ("local:llama-tiny", "vision_config", "x")]
    cases += [(model, "architectures", value) for model in models for value in classes]
    check_cases(check, cases)


def test_layers_may_differ_in_their_heads(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(resolve("local:qwen2.5-vl-tiny"), tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    config["vision_config"]["num_heads"] = [4, 8, 12]
    (folder / "config.json").write_text(json.dumps(config))
    assert check_vlm(str(folder))
    assert head_counts(str(folder)).pictures == 4


@pytest.mark.parametrize("name", ["local:qwen2.5-vl-tiny", "local:llama-tiny"])
def test_the_classes_of_a_processor_are_refused_or_ignored(tmp_path: Path, name: str) -> None:
    sees_pictures = check_vlm(name)

    def check(key: str, value: Any) -> None:
        folder = Path(shutil.copytree(resolve(name), tempfile.mkdtemp(dir=tmp_path), dirs_exist_ok=True))
        for file in ("tokenizer_config.json", "processor_config.json", "preprocessor_config.json"):
            if (folder / file).is_file():
                edit(folder / file, **{key: value})
        for load in (load_processor, lambda model: load_vlm(model)[1]):
            try:
                processor = load(str(folder))
            except ModelError as error:
                message = str(error)
            else:  # never a model of pictures that is given none
                assert hasattr(processor, "image_processor") is sees_pictures
                continue
            assert message.startswith(f"{folder}: ")
            assert "\n" not in message

    classes: list[Any] = ["../../evil", "os", 5, None, [], "AutoProcessor"]
    check_cases(check, [(key, value) for key in ("processor_class", "tokenizer_class") for value in classes])


def test_kinds_of_models_are_those_of_transformers() -> None:
    from transformers.models.auto import modeling_auto

    for mapping in (
        "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
        "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
        "MODEL_MAPPING_NAMES",
    ):
        assert model_checks._mapped(mapping) == set(getattr(modeling_auto, mapping)), mapping


def test_a_model_of_a_family_is_checked_without_its_libraries(vlm: tuple[Any, Any]) -> None:
    code = (
        "import sys; from actors.vlm.model_checks import check_vlm; "
        "print(check_vlm(sys.argv[1]), {'torch', 'transformers'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code, vlm[1].tokenizer.name_or_path]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True set()\n"


def test_a_folder_without_its_configuration_is_not_a_model(tmp_path: Path, vlm: tuple[Any, Any]) -> None:
    folder = tmp_path / "judge"
    shutil.copytree(vlm[1].tokenizer.name_or_path, folder)
    assert check_vlm(str(folder)) is True
    assert check_vlm("local:llama-tiny") is False
    (folder / "config.json").unlink()
    with pytest.raises(ValueError, match=r"config\.json"):
        check_vlm(str(folder))


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A hub on the loopback interface and an empty cache; yields the list of requested paths."""
    from huggingface_hub import constants

    content = {"config.json": '{"model_type": "qwen2"}', "tokenizer_config.json": '{"chat_template": "x"}'}
    whole = content | {"model.safetensors": ""}
    repositories: dict[str, dict[str, str]] = {
        "me/text": whole,
        "me/blind": whole | {"config.json": '{"model_type": "gemma3"}'},
        "me/seeing": whole
        | {"config.json": '{"model_type": "gemma3"}', "model.safetensors.index.json": "{}"}
        | {"processor_config.json": "{}"},
        "me/clip": whole | {"config.json": '{"model_type": "clip"}'},
        "me/encoder": whole | {"config.json": '{"model_type": "bert", "architectures": ["BertModel"]}'},
        "me/diffusion": {"model_index.json": "{}"},
        "me/pickled": content,
        "me/base": {name: text for name, text in whole.items() if name != "tokenizer_config.json"},
        "me/older": {name: text for name, text in whole.items() if name != "tokenizer_config.json"}
        | {"chat_template.json": "{}"},
    }
    asked: list[str] = []

    class Hub(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            owner, name, _, _, file = self.path.strip("/").split("/", 4)
            asked.append(self.path)
            files = repositories.get(f"{owner}/{name}")
            text = (files or {}).get(file)
            if name == "gated":
                self.send_response(403)
                self.send_header("X-Error-Code", "GatedRepo")
            elif text is None:
                self.send_response(404)
                self.send_header("X-Error-Code", "RepoNotFound" if files is None else "EntryNotFound")
            else:
                self.send_response(200)
                self.send_header("ETag", f'"{hash((name, file)):x}"')
                self.send_header("X-Repo-Commit", "0" * 40)
            body = (text or "").encode()
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    here = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", here)
    template = here + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_hub_model_that_cannot_judge_is_refused_before_anything_is_loaded(hub: list[str]) -> None:
    cases = [
        ("me/clip", "'clip'"),
        ("me/encoder", "BertModel"),
        ("me/diffusion", "a pipeline of diffusers"),
        ("me/pickled", "no weights on the hub or in its cache"),
        ("me/base", "no chat template on the hub or in its cache"),
        ("me/gated", "revision main is not in the cache, and it is gated: accept its licence"),
        ("me/nothing", "revision main is not in the cache, and the hub does not have it"),
    ]

    def check(name: str, message: str) -> None:
        with pytest.raises(ValueError, match=f"^{name}.*{message}") as caught:
            check_vlm(name)
        assert "\n" not in str(caught.value)

    check_cases(check, cases)


def test_a_hubs_judge_is_recognised_by_small_cached_files(hub: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    assert check_vlm("me/text") is False
    assert check_vlm("me/seeing") is True
    assert check_vlm("me/older") is False
    with pytest.raises(ValueError, match=r"^me/blind: no processor of pictures on the hub"):
        check_vlm("me/blind")
    assert not [path for path in hub if path.endswith(".bin")]
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"^me/text: no weights on the hub or in its cache"):
        check_vlm("me/text")  # its configuration was kept, its weights were not asked for
    with pytest.raises(ValueError, match=r"^me/other: revision main .* HF_HUB_OFFLINE"):
        check_vlm("me/other")


def test_a_hub_that_is_not_there(hub: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", "http://127.0.0.1:9/{repo_id}/{revision}/{filename}")
    with pytest.raises(ValueError, match=r"^me/text: revision main is not in the cache, and the hub cannot be reached"):
        check_vlm("me/text")


def test_unknown_dtype() -> None:
    with pytest.raises(ValueError, match="dtype=int8"):
        load_vlm("local:qwen2.5-vl-tiny", dtype="int8")


def test_pickled_weights_are_refused(tmp_path: Path, vlm: tuple[Any, Any]) -> None:
    import torch

    model, processor = vlm
    processor.save_pretrained(tmp_path)
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="cannot load the model"):
        load_vlm(str(tmp_path))


def edit(file: Path, **changed: Any) -> None:
    """Set keys of a JSON file, those of `text_config` there."""
    content = json.loads(file.read_text())
    (content.get("text_config", content) if "text_config" not in changed else content).update(changed)
    file.write_text(json.dumps(content))


HOSTILE: dict[str, Callable[[Path], object]] = {
    "negative layers": lambda folder: edit(folder / "config.json", num_hidden_layers=-1),
    "no heads": lambda folder: edit(folder / "config.json", num_attention_heads=0),
    "text for a number": lambda folder: edit(folder / "config.json", hidden_size="x"),
    "a list": lambda folder: (folder / "config.json").write_text("[1]"),
    "not JSON": lambda folder: (folder / "config.json").write_text("{"),
    "an empty tokenizer": lambda folder: (folder / "tokenizer.json").write_text("{}"),
    "cut weights": lambda folder: os.truncate(folder / "model.safetensors", 1000),
    "weights of 2**60 bytes": lambda folder: (folder / "model.safetensors").write_bytes(bytes(7) + b"\x10" + bytes(99)),
}


@pytest.mark.parametrize("fault", HOSTILE)
def test_a_damaged_or_absurd_model_is_refused_by_name(tmp_path: Path, fault: str) -> None:
    folder = Path(shutil.copytree(resolve("local:qwen2.5-vl-tiny"), tmp_path / "model"))
    HOSTILE[fault](folder)
    with pytest.raises(ValueError, match=rf"^{re.escape(str(folder))}: cannot load the model at revision main \(.+\)"):
        load_vlm(str(folder))


def test_weights_of_other_shapes_are_refused_by_name(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(resolve("local:qwen2.5-vl-tiny"), tmp_path / "model"))
    edit(folder / "config.json", intermediate_size=96)
    with pytest.raises(ModelError, match=rf"^{re.escape(str(folder))}: the shapes of some weights"):
        load_vlm(str(folder))


def test_settings_of_weights_that_transformers_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    import transformers

    calls: list[dict[str, Any]] = []

    def load(source: str, **options: Any) -> None:
        calls.append(options)
        raise OSError("no weights")

    for loader in (transformers.AutoModelForImageTextToText, transformers.AutoModelForCausalLM):
        monkeypatch.setattr(loader, "from_pretrained", load)
    common = {"use_safetensors": True, "trust_remote_code": False, "revision": "main"}
    for name in ("local:qwen2.5-vl-tiny", "local:llama-tiny"):
        for limits, options in ((None, {}), ({0: 9}, {"max_memory": {0: 9}})):
            monkeypatch.setattr("actors.vlm.memory.placement", lambda limits=limits: limits)
            with pytest.raises(ModelError, match=f"^{name}: cannot load the model at revision main .no weights"):
                load_vlm(name, dtype="float16", device_map="cuda:3")
            assert calls.pop() == common | {"dtype": torch.float16, "device_map": "cuda:3"} | options


@pytest.mark.parametrize(
    ("file", "keys"),
    [
        ("config.json", {"AutoConfig": "evil.Evil", "AutoModelForImageTextToText": "evil.Evil"}),
        ("tokenizer_config.json", {"AutoTokenizer": ["evil.Evil", None], "AutoProcessor": "evil.Evil"}),
        ("processor_config.json", {"AutoProcessor": "evil.Evil", "AutoImageProcessor": "evil.Evil"}),
    ],
)
@pytest.mark.parametrize("is_known", [True, False])
def test_code_of_a_model_never_runs(
    tmp_path: Path, small: dict[str, Any], file: str, keys: dict[str, Any], *, is_known: bool
) -> None:
    folder = Path(shutil.copytree(resolve("local:qwen2.5-vl-tiny"), tmp_path / "model"))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: pass\n")
    content = json.loads((folder / file).read_text()) | {"auto_map": keys}
    if not is_known:  # the libraries have no class of these names, so that only the model's own code could load it
        content |= dict.fromkeys(("model_type", "tokenizer_class", "processor_class"), "evil")
    (folder / file).write_text(json.dumps(content))
    settings = ModelSettings(checkpoint=str(folder))
    prompt = {"name": "n", "version": 1, "source": "s", "parts": {"ask": "Describe."}, "order": ["picture", "ask"]}
    for load in (
        lambda: load_vlm(str(folder)),
        lambda: PromptPreparer(ContextSettings(), model=settings, instruction=prompt),
        lambda: RubricPreparer(RubricSettings(rubric=small), model=settings),
        lambda: tokens_of_sizes(str(folder), [(32, 32)], bounds=settings.bounds),
    ):
        with contextlib.suppress(ValueError):  # refused, or loaded as what the libraries know
            load()
        assert not (tmp_path / "ran").exists()


def test_the_local_model_is_the_same_whenever_built(tmp_path: Path, vlm: tuple[Any, Any]) -> None:
    import torch
    from safetensors.torch import load_file

    from actors.local_models import qwen

    state = torch.random.get_rng_state()
    qwen.build(tmp_path)
    assert torch.equal(torch.random.get_rng_state(), state)
    stored = Path(vlm[1].tokenizer.name_or_path)
    for name in ("tokenizer.json", "config.json"):
        assert (tmp_path / name).read_bytes() == (stored / name).read_bytes()
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (tmp_path, stored))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_weights_outside_of_the_gpus_are_refused() -> None:
    for allowed in ({}, {"": "cpu"}, {"": 0}, {"vision": 0, "layers.0": 1}, {"vision": "cuda:0", "layers.0": "cuda:1"}):
        check_placement("gemma", allowed)
    for places in ({"vision": 0, "layers.0": "cpu"}, {"vision": 0, "head": "disk"}, {"": "disk"}):
        with pytest.raises(ValueError, match=r"^gemma: 1 of its \d parts .* model\.offload=true"):
            check_placement("gemma", places)
    with pytest.raises(ValueError, match=r"^gemma: 2 of its 3 parts .* were put on cpu and disk; "):
        check_placement("gemma", {"vision": 0, "head": "disk", "layers.0": "cpu"})
