"""What many prompts share, encoded once: keys and values that passes over suffixes read and cannot change."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from actors.vlm.families import Family, base_model, language_model


@dataclass(frozen=True)
class Prefix:
    """A prefix of one sequence after its pass through the model.

    Attributes:
        length: tokens.
        position: of the first token after it; not `length` where a picture takes fewer positions than tokens.
        layers: self-attention layer -> keys and values [1, key heads, seen, head size].
        cross: cross-attention layer -> keys and values of the picture.
        cross_mask: [1, 1, pictures, tiles] what the last token sees of the picture.
    """

    length: int
    position: int
    layers: dict[int, tuple[Any, Any]]
    cross: dict[int, tuple[Any, Any]]
    cross_mask: Any

    @property
    def bytes_per_token(self) -> float:
        """Of keys and values over all self-attention layers."""
        held = sum(k.nbytes + v.nbytes for k, v in self.layers.values())
        return held / max(1, self.length)


def encode(model: Any, family: Family, inputs: Mapping[str, Any]) -> Prefix:
    """Pass `inputs` (as the processor returned them, cut to the prefix) through the model.

    The cache is read out and left: `crop` of a cache would also cut the picture's keys of cross-attention layers.
    """
    import torch
    from transformers import DynamicCache

    config = model.config.get_text_config()
    cache: Any = DynamicCache(config=config)
    forget_positions(model)
    nothing = torch.empty(0, dtype=torch.long)  # keys and values are taken; the last hidden states are not
    with torch.inference_mode(), last_layer_at(model, nothing):
        base_model(model)(**inputs, past_key_values=cache, use_cache=True)
    length = int(inputs["input_ids"].shape[1])
    crossing = set(getattr(config, "cross_attention_layers", ())) if family.cross_attention else set()
    held = {number: (layer.keys, layer.values) for number, layer in enumerate(cache.layers) if layer.keys is not None}
    mask = inputs.get("cross_attention_mask")
    return Prefix(
        length=length,
        position=length + (_offset(model) if family.three_axes else 0),
        layers={number: pair for number, pair in held.items() if number not in crossing},
        cross={number: pair for number, pair in held.items() if number in crossing and pair[0].numel()},
        cross_mask=None if mask is None else mask[:, -1:],
    )


@contextmanager
def last_layer_at(model: Any, nodes: Any) -> Iterator[None]:
    """Let the last layer's feed-forward be computed for some tokens of a pass only: no other token reads its output.

    Of a model with ten layers that is 7 % of the work, of one with thirty 2 %.

    Args:
        nodes: [n] numbers of the tokens in the flattened pass; None for all.
    """
    feed = None if nodes is None else getattr(language_model(model).layers[-1], "mlp", None)
    if feed is None:
        yield
        return
    import torch

    whole, before = feed.forward, feed.__dict__.get("forward")  # accelerate puts one of its own there

    def some(hidden: Any) -> Any:
        found = torch.zeros_like(hidden)
        if nodes.numel():
            places = nodes.to(hidden.device)
            found.view(-1, hidden.shape[-1])[places] = whole(hidden.reshape(-1, hidden.shape[-1])[places][None])[0]
        return found

    feed.forward = some
    try:
        yield
    finally:
        del feed.forward
        if before is not None:
            feed.forward = before


def forget_positions(model: Any) -> None:
    """Qwen keeps the last picture's position offset on the module; it is wrong for the next one."""
    for module in (model, base_model(model)):
        if hasattr(module, "rope_deltas"):
            module.rope_deltas = None


def _offset(model: Any) -> int:
    """How far positions run behind the count of tokens, as the pass just made has left it; 0 without a picture."""
    offset = getattr(base_model(model), "rope_deltas", None)
    return 0 if offset is None else int(offset.flatten()[0])


def shell(prefix: Prefix, *, rows: int, config: Any, joined: bool) -> Any:
    """A cache over the prefix's tensors for one pass, which keeps nothing of it.

    Args:
        rows: batch of the pass.
        joined: whether a layer gets the prefix's keys before its own (for plain attention), or only its own.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    base: Any = DynamicCache

    class Shell(base):
        def update(self, key: Any, value: Any, layer_idx: int, *_: Any, **__: Any) -> tuple[Any, Any]:
            if not joined:
                return key, value
            import torch

            keys, values = prefix.layers[layer_idx]
            return (
                torch.cat([keys.expand(rows, -1, -1, -1), key], 2),
                torch.cat([values.expand(rows, -1, -1, -1), value], 2),
            )

        def get_seq_length(self, *_: Any, **__: Any) -> int:
            return prefix.length

    made: Any = Shell()
    if prefix.cross:  # read by name, not through `update`
        made.layers = [DynamicLayer() for _ in range(config.num_hidden_layers)]
        for number, (keys, values) in prefix.cross.items():
            layer = made.layers[number]
            layer.keys, layer.values = (t.expand(rows, -1, -1, -1) for t in (keys, values))
            layer.dtype, layer.device, layer.is_initialized = keys.dtype, keys.device, True
    return made
