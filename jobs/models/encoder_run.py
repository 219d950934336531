"""The stages of a run with an encoder."""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from jobs.models.encoder import EmbedderConfig
from jobs.models.encoder_inputs import EncoderInput
from jobs.runtime.configuration.resources import Resources
from jobs.store.runs.table_run import TableRun


def stream_encoded(
    run: TableRun,
    embedder: EmbedderConfig,
    rows: EncoderInput,
    actor: type,
    arguments: Mapping[str, Any] | None = None,
    *,
    job: str,
    resources: Resources,
    excluded: str | None,
    rows_out: int | Callable[[pa.Table], list[int]] = 1,
) -> None:
    """Pass the rows of the remaining units through an actor that has the encoder; pictures are decoded first.

    Args:
        actor: a class such as `actors.embedder.Embedder`; `arguments` are its arguments besides the encoder's.
        job: the job's name, for progress.
        excluded: URI of the stored list of exclusions.
        rows_out: the number of output rows per row (`jobs.runtime.stage_contract.Stage.rows_out`).
    """
    from actors.embedder import BATCHES_PER_CALL, PictureDecoder
    from jobs.runtime import stages

    pool = resources.embed
    encoder = {"settings": embedder, "batch_size": pool.batch_size, "threads": pool.threads, **(arguments or {})}
    batches = BATCHES_PER_CALL if pool.num_gpus else 1
    chain = [stages.Stage("embed", actor, encoder, rows_out=rows_out, batches=batches)]
    if rows.decodes:
        chain.insert(0, stages.Stage("decode", PictureDecoder, {"settings": embedder}))
    read = stages.Read(rows.read, item=rows.item, output_item="item_id", excluded=excluded)
    stages.stream(run, name=job, read=read, stages=chain, resources=resources)
