"""A run in which a model answers about items: its plan, its stages, and what every such run stores.

The plan estimates the tokens of pictures; the run counts them and other facts about prompts and answers.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from actors.quantities import quantity
from actors.status import Status
from actors.vlm.picture_size import PixelBounds
from jobs.checkpoints import vlm
from jobs.checkpoints.placement import BYTES, GB, dtype_of
from jobs.checkpoints.vlm import ModelConfig
from jobs.judging import rating_tables, vllm_engine
from jobs.judging.model_config import ModelRunConfig
from jobs.judging.prompt_trial import PromptCounts
from jobs.runtime.job_tables import plan_table
from jobs.runtime.lifecycle import JobRun
from jobs.runtime.outcomes import Manifest, WarningLine
from jobs.runtime.planning.expected_pace import Passes
from jobs.runtime.selection.exclusions import Exclusions
from jobs.runtime.stage_contract import Stage
from jobs.store.object_rows import read_unit
from jobs.store.reading import TableSource
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitTask

OBJECTS_READ = 8  # data objects of the table that an estimate reads
SIZES_TRIED = 16  # number of sizes, evenly spaced in the order of their areas
LEAST_BITS = 4  # per parameter of quantised weights
PIXELS_PER_TOKEN = 28 * 28  # of Qwen2.5-VL; used if the model's own processor is not available


class SharedPass(NamedTuple):
    """The plan's words on what passes once.

    Attributes:
        parts: what shares a pass.
        can: what the parts do, after "can" or "cannot".
        lacks: what an architecture does otherwise.
        place: where it is slow.
    """

    parts: str
    can: str
    lacks: str
    place: str


_PASSES = {
    "judge": SharedPass("prompts", "share their beginning", "shares no prefixes", "engine=naive"),
    "loglik": SharedPass("labels", "follow one pass of their prompt", "passes it with each label", "labels"),
    "generate": SharedPass("texts", "follow one pass of their prompt", "passes it with each token", "texts"),
}


def model_plan(
    cfg: ModelRunConfig,
    table: str,
    entries: Mapping[str, Any],
    *,
    instead_of: Collection[str] = (),
    excluded: Exclusions,
    units: Sequence[Unit],
    metadata: Mapping[str, str],
    files: Mapping[str, bytes] | None = None,
) -> TablePlan:
    """Return the plan of the table at `out=`, whose rows a model writes.

    Args:
        entries, instead_of: what the identity has besides the keys and the model (`jobs.store.identity.identity_of`).
        excluded: the list of exclusions.
        units, metadata, files: as in `jobs.store.table_plan.TablePlan`.
    """
    return plan_table(
        cfg,
        table,
        units,
        {"model": cfg.model.identity, **entries},
        instead_of=instead_of,
        excluded=excluded,
        metadata=metadata,
        models={cfg.model.name: cfg.model.rater},
        files=files or {},
    )


def stream_items(
    run: JobRun,
    cfg: ModelRunConfig,
    *,
    reader: Callable[[UnitTask], pa.Table],
    stages: Sequence[Stage],
) -> Manifest:
    """Pass the items of the remaining units through the stages, close the run, and store facts about the model.

    Returns the manifest.

    Raises:
        RunError: a unit was not written, or the counts do not balance.
    """
    from jobs.runtime import stages as ray_stages

    read = ray_stages.Read(reader, item="item_id", output_item="item_id", excluded=run.excluded)
    ray_stages.stream(run.table, name=run.name, read=read, stages=stages, resources=cfg.resources)
    manifest = run.end()
    tallies = manifest["counts"]["tallies"]
    manifest.lines += counted_lines(cfg.model, tallies)
    rating_tables.keep_raters(run.table, rating_tables.raters_of_model(cfg.model, tallies))
    return manifest


def expected_tokens(model: ModelConfig, images: TableSource | None) -> str:
    """Estimate the tokens per picture, as a phrase for the plan; empty if the model sees no pictures.

    Args:
        images: table of the pictures; the sizes in a few of its objects are read. None: the job shows no pictures.
    """
    if images is None:
        return ""
    if not (sizes := sample_sizes(images)):
        return f"; pictures with {_bounds_text(model)}"
    from actors.vlm.chat import tokens_of_sizes

    bounds = PixelBounds(**model.pixels)
    tokens = tokens_of_sizes(model.checkpoint, sizes, bounds=bounds, revision=model.revision)
    method = ""
    if tokens == []:  # a text model
        return ""
    if tokens is None:
        shown = [bounds.size(*size) for size in sizes]
        tokens = [max(1, -(-width * height // PIXELS_PER_TOKEN)) for width, height in shown]
        method = ", assuming 28 x 28 pixels per token because the model's processor is not on this machine"
    mean = sum(tokens) / len(tokens)
    return f"; pictures with {_bounds_text(model)}: about {mean:,.0f} tokens each, up to {max(tokens):,}{method}"


def expected_passes(
    cfg: ModelRunConfig, counted: PromptCounts, *, times: int = 1, appended: int = 0, written: int = 0
) -> Passes | None:
    """Return the passes per item at most, from the prompts about the first items; None if they are unknown.

    Nothing is estimated for float32, of which conf/gpus.yaml has no rates, and for weights outside the GPUs.

    Args:
        counted: counts these prompts.
        times: how often each prompt is continued; it is passed once.
        appended: tokens that follow the prompt each time; written: tokens that the model then writes at most.
    """
    model, sized = cfg.model, _parameters(cfg)
    if sized is None or model.offload or dtype_of(model, cfg.resources.judge) == "float32":
        return None
    counts, remark = counted()
    if not counts:
        return None
    parameters, gb, source = sized
    engine = getattr(cfg, "engine", None)
    prompts, whole, shared = (sum(numbers) / len(counts) for numbers in zip(*counts, strict=True))
    tokens = whole if engine == "naive" else shared
    reads, writes = tokens + times * prompts * appended, times * prompts * written
    texts = f" and {writes:,.0f} written" if written else ""
    naive = f"; engine=naive passes {whole / shared:.1f} times as many" if whole > tokens else ""
    basis = (
        f"{parameters / 1e9:,.3g} billion parameters ({source}), {reads:,.0f} tokens{texts} per item (the prompts of "
        f"the first {quantity(len(counts), 'item')}{remark}{naive})"
    )
    is_parallel = engine == vllm_engine.NAME
    return Passes(parameters, gb, reads, writes, is_parallel, basis)


def engine_lines(
    cfg: ModelRunConfig,
    counted: PromptCounts,
    *,
    job: str = "judge",
    times: int = 1,
    appended: int = 0,
    written: int = 0,
) -> list[str]:
    """Return what passing whole prompts costs, where the model needs it or might; empty unless plan=true.

    What passes once is known of architectures that were compared with transformers (`jobs.checkpoints.vlm`); the
    first prompts of a run show it of the others.

    Args:
        counted: counts the prompts about the first items.
        job: whose prompts share a beginning (`judge`), or are continued by labels (`loglik`) or texts (`generate`).
        times, appended, written: as for `expected_passes`.
    """
    engine = getattr(cfg, "engine", None)
    if not cfg.plan or engine == vllm_engine.NAME:
        return []
    from actors.vlm.model_checks import model_type

    counts, remark = counted()
    if not counts:
        return []
    prompts, whole, shared = (sum(numbers) / len(counts) for numbers in zip(*counts, strict=True))
    once = shared + times * prompts * (appended + written)
    # With each token of a text the prompt and the text so far pass.
    again = times * (written * whole + prompts * written**2 / 2 if written else whole + prompts * appended)
    model = cfg.model
    kind = model_type(model.checkpoint, revision=model.revision, local_only=True) or model.architecture
    words = _PASSES[job]
    shares = vlm.shares_prefixes(kind) if job == "judge" else vlm.continues_prompts(kind, job)
    shares = False if engine == "naive" else shares
    text = (
        f"{again / once:.1f} times the tokens of a shared prefix ({times * prompts:,.0f} {words.parts} per item, "
        f"{again:,.0f} tokens against {once:,.0f}{remark})"
    )
    if shares:
        return [f"engine {words.parts} about an item {words.can}; whole prompts would be {text}"]
    if shares is None:
        return [f"engine if {words.parts} cannot {words.can}, which the first ones show: {text}"]
    why = "as asked for" if engine == "naive" else f"as {kind} {words.lacks}"
    return [f"slow   {words.place}, {why}: {text}"]


def _parameters(cfg: ModelRunConfig) -> tuple[float, float, str] | None:
    """Return the number of parameters at most, the GB of the weights, and their source; None if unknown."""
    from actors.vlm.model_checks import weight_bytes, weights_form

    model, dtype = cfg.model, dtype_of(cfg.model, cfg.resources.judge)
    size = weight_bytes(model.checkpoint, dtype=dtype, revision=model.revision, local_only=True)
    if size is None and model.memory_gb is None:
        return None
    source = "its files" if size is not None else "model.memory_gb"
    # model.memory_gb is of 16-bit numbers, with what the passes need.
    size = size if size is not None else (model.memory_gb or 0.0) * GB * BYTES[dtype] / 2
    is_quantised = weights_form(model.checkpoint, revision=model.revision)
    return size / (LEAST_BITS / 8 if is_quantised else BYTES[dtype]), size / GB, source


def sample_sizes(images: TableSource) -> list[tuple[int, int]]:
    """Return (width, height) of some pictures of a table, evenly spaced in the order of their areas, largest last."""
    places = sorted({round(i * (len(images.footers) - 1) / max(1, OBJECTS_READ - 1)) for i in range(OBJECTS_READ)})
    tables = [read_unit(images.footers[i].object.uri, columns=["width", "height", "status"]) for i in places]
    rows = pa.concat_tables(tables)
    rows = rows.filter(pc.and_(pc.equal(rows["status"], Status.OK.value), pc.greater(rows["width"], 0)))
    sizes = list(zip(rows["width"].to_pylist(), rows["height"].to_pylist(), strict=True))
    sizes = sorted((size for size in sizes if size[1]), key=lambda size: (size[0] * size[1], size))
    if len(sizes) <= SIZES_TRIED:
        return sizes
    spaced = [sizes[(2 * i + 1) * len(sizes) // (2 * SIZES_TRIED)] for i in range(SIZES_TRIED - 1)]
    return spaced + sizes[-1:]


def counted_lines(model: ModelConfig, tallies: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield how many pictures a run showed its model, and their mean tokens."""
    counts = tallies.get("pictures", {})
    if pictures := counts.get("shown"):
        average = f"{counts['tokens'] / pictures:,.0f} tokens each"
        yield f"  {quantity(pictures, 'picture')} shown, {average} ({_bounds_text(model)})"


def _bounds_text(model: ModelConfig) -> str:
    bounds = [f"{name}={'null' if value is None else f'{value:,}'}" for name, value in model.pixels.items()]
    return ", ".join(bounds if model.min_pixels is not None else bounds[:1])


def prompt_lines(tallies: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield where prompts differ from their file; nothing if they do not.

    The lines have the number of items whose context was cut, in total and by field, and that of items without the text
    of their condition, by reason, and whether the model's chat template takes no system turn.
    """
    if items := tallies.get("truncated", {}).get("items"):
        fields = ", ".join(f"{field} {count:,}" for field, count in sorted(tallies["truncated field"].items()))
        yield f"  context truncated of {items:,} items ({fields}); their rows name the fields in `truncated`"
    if empty := tallies.get("empty context"):
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(empty.items()))
        yield f"  no text of the condition for {quantity(sum(empty.values()), 'item')} ({reasons}); see `empty_context`"
    if tallies.get("system text"):
        yield "  the model's chat template takes no system turn here: its text begins the user's turn"


def tally_lines(tallies: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield the tokens, the items cut, the device's share of the time, and the changes of rows that were rescored.

    Args:
        tallies: counts by group and key, from the run's manifest.
    """
    tokens = tallies.get("tokens", {})
    if tokens.get("passed"):
        whole = tokens["of whole prompts"]
        factor = whole / tokens["passed"]
        yield f"  prompts have {whole:,} tokens, {tokens['passed']:,} were computed ({factor:.1f} times fewer)"
    yield from prompt_lines(tallies)
    yield from improbable_lines(tallies)
    milliseconds = tallies.get("milliseconds", {})
    if milliseconds.get("all"):
        share = milliseconds.get("device", 0) / milliseconds["all"]
        yield f"  device busy {share:.0%} of {milliseconds['all'] / 1000:,.1f} s since the first batch"
    if rescored := tallies.get("rescored"):
        largest = max(map(float, tallies.get("rescored difference", {"0": 1})))
        failed = f", {rescored['failed']:,} failed" if rescored.get("failed") else ""
        yield (
            f"  rescored {quantity(rescored['rows'], 'row')} individually: {rescored.get('changed answers', 0):,} "
            f"answers changed, largest difference of a probability {largest:.1e}{failed}"
        )


def improbable_lines(tallies: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield a warning if most answers are ones that the model would hardly write; the manifest has the counts too."""
    answers = tallies.get("answers", {})
    if (improbable := answers.get("improbable", 0)) > answers.get("scored", 0) / 2:
        yield WarningLine(
            f"  warning: in {improbable:,} of {answers['scored']:,} rows, the answers have less than 1 % of the "
            "probability (outside_mass above 0.99): the model would write something else, such as a thought; look at "
            "its prompts with plan=true show_prompts=1"
        )


def mark_lines(tallies: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield how many prompts `mark_spans` wrote and scored, and how long that took.

    Args:
        tallies: counts by group and key, from the run's manifest.
    """
    prompts = tallies.get("prompts", {})
    seconds = tallies.get("milliseconds", {}).get("marking", 0) / 1000
    if prompts:
        counts = ", ".join(f"{count:,} {way}" for way, count in sorted(prompts.items()))
        yield f"  prompts  {counts}, in {seconds:,.1f} s of the model's processes"
