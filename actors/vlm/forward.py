"""One pass over suffixes behind an encoded prefix, in two ways that give the same hidden states.

`cascade`: all suffixes in one sequence, attention as in `actors.vlm.attention`. `batched`: a suffix a row over an
expanded cache, with the attention that every model has.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from actors.vlm import attention
from actors.vlm.families import SLIDING, Family, base_model, language_model, windows
from actors.vlm.prefix import Prefix, last_layer_at, shell
from actors.vlm.token_trees import PackedRows, TokenTree, block

PLAIN = "sdpa"


def hidden_states(
    model: Any,
    family: Family,
    prefix: Prefix,
    rows: Sequence[TokenTree],
    *,
    engine: str,
    read: Sequence[int] | None = None,
) -> Any:
    """Last hidden states of the tokens of `rows` behind `prefix`.

    Args:
        engine: `cascade` or `batched`.
        read: which of them, by their number in the flattened result; all if None. The others mean nothing.

    Returns:
        [rows, width, hidden]; what lies past a row's end means nothing.
    """
    import torch

    made = block(rows)
    nodes = None if read is None else torch.tensor(sorted(set(read)))
    with torch.inference_mode():
        return (_cascade if engine == "cascade" else _batched)(model, family, prefix, made, nodes)


def _cascade(model: Any, family: Family, prefix: Prefix, suffixes: PackedRows, nodes: Any) -> Any:
    import torch

    config = model.config.get_text_config()
    count, width = suffixes.ids.shape
    padded = not bool(suffixes.real.all())
    places = suffixes.real.flatten().nonzero().flatten() if padded else None
    ids, depths = suffixes.ids.flatten(), suffixes.depths.flatten()
    if places is not None:
        ids, depths = ids[places], depths[places]
        nodes = None if nodes is None else torch.searchsorted(places, nodes)
    plan = attention.AttentionPlan(
        prefix=prefix.layers,
        windows=windows(config),
        rows=count,
        width=width,
        places=places,
        depths=suffixes.depths,
        ancestors=suffixes.ancestors,
    )
    attention.register()
    with _implementation(model, attention.NAME), attention.active(plan), last_layer_at(model, nodes):
        found = _pass(model, family, prefix, ids[None], depths[None], mask=None, joined=False)[0]
    if places is None:
        return found.reshape(count, width, -1)
    filled = found.new_zeros(count * width, found.shape[-1])
    filled[places.to(found.device)] = found
    return filled.reshape(count, width, -1)


def _batched(model: Any, family: Family, prefix: Prefix, suffixes: PackedRows, nodes: Any) -> Any:
    import torch

    config = model.config.get_text_config()
    count, width = suffixes.ids.shape
    own = suffixes.ancestors
    if own is None:
        own = torch.ones(width, width, dtype=torch.bool).tril().expand(count, -1, -1)
    device = _device(model)
    depths = suffixes.depths

    def mask(seen: int, window: int | None) -> Any:  # [rows, 1, width, seen + width]
        before = torch.ones(count, width, seen, dtype=torch.bool)
        among = own
        if window is not None:
            back = torch.arange(seen, 0, -1)
            before = depths[:, :, None] + back[None, None] < window
            among = own & (depths[:, :, None] - depths[:, None] < window)
        return torch.cat([before, among], 2)[:, None].to(device)

    limited = windows(config)
    seen = {layer: keys.shape[2] for layer, (keys, _) in prefix.layers.items()}
    full = next((n for layer, n in seen.items() if layer not in limited), prefix.length)
    given: Any = mask(full, None)
    if limited:
        layer, window = next(iter(limited.items()))
        given = {"full_attention": given, SLIDING: mask(seen[layer], window)}
    with _implementation(model, PLAIN), last_layer_at(model, nodes):
        return _pass(model, family, prefix, suffixes.ids, depths, mask=given, joined=True)


def _pass(model: Any, family: Family, prefix: Prefix, ids: Any, depths: Any, *, mask: Any, joined: bool) -> Any:
    rows, length = ids.shape
    device = _device(model)
    positions = (depths + prefix.position).to(device)
    extra: dict[str, Any] = {}
    if family.three_axes:
        positions = positions[None].expand(3, -1, -1)
    if prefix.cross_mask is not None:
        extra = _cross_masks(model, prefix.cross_mask, rows, length)
    config = model.config.get_text_config()
    return language_model(model)(
        input_ids=ids.to(device),
        attention_mask=mask,
        position_ids=positions,
        past_key_values=shell(prefix, rows=rows, config=config, joined=joined),
        use_cache=True,
        **extra,
    ).last_hidden_state


def _cross_masks(model: Any, row: Any, rows: int, length: int) -> dict[str, Any]:
    """Mllama's masks of tokens that see the tiles which the prefix's last token saw; without them they see padding."""
    import torch

    tiles = row.expand(rows, length, -1, -1).repeat_interleave(base_model(model).vision_model.num_patches, 3)
    seen = tiles.reshape(rows, 1, length, -1).bool()
    some = seen.any(-1, keepdim=True)
    least = torch.finfo(model.dtype).min
    mask = torch.zeros(seen.shape, dtype=model.dtype, device=seen.device).masked_fill_(~seen & some, least)
    return {"cross_attention_mask": mask, "full_text_row_masked_out_mask": some.to(model.dtype)}


@contextmanager
def _implementation(model: Any, name: str) -> Iterator[None]:
    """Let the text model attend by `name` for the length of a pass."""
    config = language_model(model).config
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before


def _device(model: Any) -> Any:
    """Where token ids go: the device of the input embedding, as a model may be spread over several."""
    return model.get_input_embeddings().weight.device
