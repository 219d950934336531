"""A checkpoint of a real architecture whose answers follow from one character of its prompt.

All weights are zero but those below, so that a picture and the prompt's wording change nothing and each probability can
be computed by hand:

- the embedding of a marker (a rare character such as "~") is a unit vector of its own dimension;
- the first layer attends to all tokens alike and passes the markers' dimensions on;
- the last normalisation removes the length of the sum, so that one marker anywhere in the prompt gives its unit vector;
- the head maps that vector to the logarithms of the scripted probabilities.

With two markers, each at equally many places, the tokens that both of them script get the probability.

A marker that the model writes ends its turn: as the last token it also sets the dimension of the end token.
"""

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from actors.local_models import resolve
from actors.local_models.qwen import TURN_END

ABOVE_OTHERS = 40.0  # logit of a probability of 1; other tokens have logit 0, exp(-40) of it
STOP = 0  # the dimension of the end token; markers have the following ones


def write(folder: Path, script: Mapping[str, Mapping[str, float]]) -> str:
    """Write a checkpoint of Qwen2.5-VL's architecture; returns its folder.

    Args:
        script: marker -> next token -> its probability. A marker is one character. A prompt must have exactly one
            marker, at any place and any number of times.
    """
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import AutoTokenizer

    shutil.copytree(resolve("local:qwen2.5-vl-tiny"), folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["text_config"]["rms_norm_eps"] = 1e-20  # the sum over a long prompt is short, and must not be damped
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = {text: _token(tokenizer, text) for answers in script.values() for text in answers}
    weights = {
        name: torch.ones_like(weight) if name.endswith("norm.weight") else torch.zeros_like(weight)
        for name, weight in load_file(folder / "model.safetensors").items()
    }
    embedding, head = weights["model.embed_tokens.weight"], weights["lm_head.weight"]
    value, output = (weights[f"model.layers.0.self_attn.{name}_proj.weight"] for name in "vo")
    texts = _texts(tokenizer)
    length = math.sqrt(embedding.shape[1])  # of a normalised vector
    for number, (marker, answers) in enumerate(script.items(), STOP + 1):
        for token in (token for token, text in texts.items() if marker in text):
            embedding[token, number] = 1
            embedding[token, STOP] = 1
        value[number, number] = 1
        output[number, number] = 1
        for text, probability in answers.items():
            head[tokens[text], number] = (ABOVE_OTHERS + math.log(probability)) / length
    head[tokenizer.convert_tokens_to_ids(TURN_END), STOP] = 10 * ABOVE_OTHERS / length
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return str(folder)


def write_with_settings(folder: Path, name: str, script: Mapping[str, Mapping[str, float]]) -> str:
    """Write a checkpoint of that name into `folder`, and the file that names it to a job; returns the file's path."""
    settings = {
        "name": name, "checkpoint": write(folder / name, script), "revision": None, "dtype": "float32",
        "device_map": "cpu", "memory_gb": 1, "licence": None,
    }  # fmt: skip
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return str(path)


def _token(tokenizer: Any, text: str) -> int:
    token: int
    (token,) = tokenizer.encode(text, add_special_tokens=False)
    return token


def _texts(tokenizer: Any) -> dict[int, str]:
    return {token: tokenizer.decode([token]) for token in range(len(tokenizer))}
