"""Turn pictures or texts into vectors with a dual encoder -> table `embeddings`.

    remine embed input=R/images embedder=siglip-i18n-base out=R/embeddings
    remine embed input=R/prompts embedder=siglip-i18n-base out=R/prompt-embeddings

A CPU pool decodes pictures and resizes them to the model's input size; a second pool, on GPUs if `resources` gives it
any, encodes them. Texts are cleaned, truncated and padded as in training. Vectors are L2-normalised float16; the
metadata of the table name the encoder and its preprocessing. A picture without bytes, or an empty text, keeps its row,
with a status and no vector.
"""

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from omegaconf import MISSING

from jobs.errors import InputError
from jobs.models.devices import check_device, check_dtype
from jobs.models.encoder import EmbedderConfig, check_available, encoder_facts, logit_scalars
from jobs.models.encoder_inputs import read_pictures, read_texts
from jobs.runtime import cli, exclusions, lifecycle
from jobs.runtime.config import FailingRows
from jobs.store.compact_list import CompactList
from jobs.store.pieces import cut_of, in_pieces
from jobs.store.reading import TableSource, open_table
from jobs.store.run import TablePlan, TableRun

if TYPE_CHECKING:
    from actors.encoders.facts import EncoderFacts


@dataclass
class EmbedConfig(FailingRows):
    """Keys of `embed`."""

    input: str = MISSING  # a table of images, or of texts
    embedder: EmbedderConfig = MISSING


def execute(cfg: EmbedConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring.

    Returns:
        The manifest; None with plan=true.
    """
    check_device(cfg, cfg.embedder.device, prefix="embedder.")
    check_dtype(cfg.embedder.dtype, prefix="embedder.")
    source = open_table(cfg.input, "images", "texts")
    excluded = exclusions.read_exclusions(cfg.exclusions)
    facts = encoder_facts(cfg.embedder)
    if source.name == "texts" and not facts.texts:
        raise InputError(
            f"embedder.checkpoint={cfg.embedder.checkpoint}: has no text tower, and {source.uri} is a table of texts; "
            "choose another embedder="
        )
    if not cfg.only_plans:
        check_available(cfg.embedder)
    plan = _plan(cfg, source, facts, exclusions.identity(excluded))
    pools = ["embed"] if source.name == "texts" else ["decode", "embed"]
    run = lifecycle.begin("embed", cfg, plan, pools=pools, note=f"{facts.dim} dimensions")
    if run is None:
        return None
    _embed(cfg, run, source, exclusions.keep(run, excluded))
    return lifecycle.end("embed", run, excluded)


def _plan(cfg: EmbedConfig, source: TableSource, facts: "EncoderFacts", excluded: dict[str, str]) -> TablePlan:
    vectors = {"encoder": facts.encoder, "preprocessing": facts.preprocessing}
    cut = cut_of(cfg.out, actors=cfg.resources.embed.most_actors, overwrite=cfg.overwrite)
    return TablePlan(
        out=cfg.out,
        table="embeddings",
        identity={**vectors, "dtype": cfg.embedder.dtype, "input": source.identity, **excluded},
        units=CompactList(in_pieces(source.units(), cut)),
        config=asdict(cfg),
        metadata=vectors if cfg.only_plans else vectors | logit_scalars(cfg.embedder),
        derived=True,
        dim=facts.dim,
        models={cfg.embedder.name: facts.encoder},
    )


def _embed(cfg: EmbedConfig, run: TableRun, source: TableSource, excluded: str | None) -> None:
    """Read, decode and encode the units of `run`."""
    from actors.embedder import BATCHES_PER_CALL, Embedder, PictureDecoder, TextEmbedder
    from jobs.runtime import stages

    pool = cfg.resources.embed
    batches = BATCHES_PER_CALL if pool.num_gpus else 1
    encoder = {"settings": cfg.embedder, "batch_size": pool.batch_size, "threads": pool.threads}
    if source.name == "texts":
        read = stages.Read(read_texts, item="text_id", output_item="item_id", excluded=excluded)
        chain = [stages.Stage("embed", TextEmbedder, encoder, batches=batches)]
    else:
        read = stages.Read(read_pictures, item="image_id", output_item="item_id", excluded=excluded)
        decode = stages.Stage("decode", PictureDecoder, {"settings": cfg.embedder})
        chain = [decode, stages.Stage("embed", Embedder, encoder, batches=batches)]
    stages.stream(run, name="embed", read=read, stages=chain, resources=cfg.resources)


JOB = cli.Job("embed", EmbedConfig, execute, pools=("decode", "embed"))

if __name__ == "__main__":
    sys.exit(cli.main("embed"))
