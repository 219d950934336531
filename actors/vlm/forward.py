"""Forward passes over suffixes of an encoded prefix.

Both kinds return the same hidden states. `cascade` puts all suffixes into one sequence and attends as in
`actors.vlm.attention`. `batched` has one row per suffix over an expanded cache and uses the model's usual attention.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from actors.devices import upload
from actors.vlm import attention
from actors.vlm.families import SLIDING, Family, base_model, language_model, windows
from actors.vlm.prefix import Prefix, last_layer_at, shell
from actors.vlm.token_trees import PackedRows, TokenTree, block

PassKind = Literal["cascade", "batched"]
PLAIN = "sdpa"  # transformers' name of the attention that all families support


def hidden_states(
    model: Any,
    family: Family,
    prefix: Prefix,
    rows: Sequence[TokenTree],
    *,
    kind: PassKind,
    read: Sequence[int] | None = None,
) -> Any:
    """Return the last hidden states of the tokens of `rows` after `prefix`.

    Args:
        read: indices, in the flattened result, of the tokens that are needed; None: all. Other tokens are undefined.

    Returns:
        [rows, width, hidden] in the model's dtype; undefined past the end of a row.
    """
    import torch

    packed = block(rows)
    nodes = None if read is None else torch.tensor(sorted(set(read)))
    with torch.inference_mode():
        return (_cascade if kind == "cascade" else _batched)(model, family, prefix, packed, nodes)


def _cascade(model: Any, family: Family, prefix: Prefix, suffixes: PackedRows, nodes: Any) -> Any:
    import torch

    config = model.config.get_text_config()
    count, width = suffixes.ids.shape
    is_padded = not bool(suffixes.real.all())
    places = suffixes.real.flatten().nonzero().flatten() if is_padded else None
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
    attention.register(attention.NAME, attention.cascade)
    with attention_implementation(model, attention.NAME), attention.active(plan), last_layer_at(model, nodes):
        states = text_pass(model, family, prefix, ids[None], depths[None], mask=None, is_joined=False)[0]
    if places is None:
        return states.reshape(count, width, -1)
    padded = states.new_zeros(count * width, states.shape[-1])
    padded[places.to(states.device)] = states
    return padded.reshape(count, width, -1)


def _batched(model: Any, family: Family, prefix: Prefix, suffixes: PackedRows, nodes: Any) -> Any:
    import torch

    config = model.config.get_text_config()
    count, width = suffixes.ids.shape
    ancestors = suffixes.ancestors
    if ancestors is None:
        ancestors = torch.ones(width, width, dtype=torch.bool).tril().expand(count, -1, -1)
    device = _device(model)
    depths = suffixes.depths

    def visible(seen: int, window: int | None) -> Any:  # [rows, 1, width, seen + width]
        prefix_part = torch.ones(count, width, seen, dtype=torch.bool)
        row_part = ancestors
        if window is not None:
            back = torch.arange(seen, 0, -1)
            prefix_part = depths[:, :, None] + back[None, None] < window
            row_part = ancestors & (depths[:, :, None] - depths[:, None] < window)
        return torch.cat([prefix_part, row_part], 2)[:, None].to(device)

    limited = windows(config)
    seen = {layer: keys.shape[2] for layer, (keys, _) in prefix.layers.items()}
    full = next((n for layer, n in seen.items() if layer not in limited), prefix.length)
    mask: Any = visible(full, None)
    if limited:
        layer, window = next(iter(limited.items()))
        mask = {"full_attention": mask, SLIDING: visible(seen[layer], window)}
    with attention_implementation(model, PLAIN), last_layer_at(model, nodes):
        return text_pass(model, family, prefix, suffixes.ids, depths, mask=mask, is_joined=True)


def text_pass(model: Any, family: Family, prefix: Prefix, ids: Any, depths: Any, *, mask: Any, is_joined: bool) -> Any:
    """Return the text model's last hidden states [rows, length, hidden] of tokens after `prefix`.

    Args:
        ids: [rows, length] token ids.
        depths: [rows, length] positions after `prefix.position`.
        mask: attention mask, as transformers expects it.
        is_joined: as for `actors.vlm.prefix.shell`.
    """
    rows, length = ids.shape
    device = _device(model)
    positions = upload(depths + prefix.position, device)
    extra: dict[str, Any] = {}
    if family.three_axes:
        positions = positions[None].expand(3, -1, -1)
    if prefix.cross_mask is not None:
        extra = _cross_masks(model, prefix.cross_mask, rows, length)
    config = model.config.get_text_config()
    return language_model(model)(
        input_ids=upload(ids, device),
        attention_mask=mask,
        position_ids=positions,
        past_key_values=shell(prefix, rows=rows, config=config, is_joined=is_joined),
        use_cache=True,
        **extra,
    ).last_hidden_state


def _cross_masks(model: Any, row: Any, rows: int, length: int) -> dict[str, Any]:
    """Return mllama's masks: each token sees the same tiles as the prefix's last token, not the padding tiles."""
    import torch

    tiles = row.expand(rows, length, -1, -1).repeat_interleave(base_model(model).vision_model.num_patches, 3)
    seen = tiles.reshape(rows, 1, length, -1).bool()
    some = seen.any(-1, keepdim=True)
    least = torch.finfo(model.dtype).min
    mask = torch.zeros(seen.shape, dtype=model.dtype, device=seen.device).masked_fill_(~seen & some, least)
    return {"cross_attention_mask": mask, "full_text_row_masked_out_mask": some.to(model.dtype)}


@contextmanager
def attention_implementation(model: Any, name: str) -> Iterator[None]:
    """Use the attention function `name` in the text model."""
    config = language_model(model).config
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before


def _device(model: Any) -> Any:
    """Return the device of the input embedding, to which token ids go: a model may be spread over several devices."""
    return model.get_input_embeddings().weight.device
