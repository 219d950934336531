"""An image encoder as a rater: it picks the nearest of several sentences, one per level of relevance (CAIRE, 5.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from actors import schemas
from actors.embedder import Embedder
from actors.encoders.encoder_sources import EncoderSettings, encoder_facts
from actors.items import TARGETS
from actors.rubrics import checks
from actors.rubrics.checks import REQUIRED_TEXT, Key
from actors.rubrics.templates import TARGET_WORD, environment, words
from actors.schemas import RatingRow
from actors.status import Status
from actors.vlm.ratings import rating_key, rating_table

NO_VECTOR: RatingRow = {
    "status": Status.MISSING_INPUT.value,
    "error_kind": "no_vector",
    "error_message": "the row is ok but has no vector",
}
METHOD = "encoder"
LEVEL_WORD = "level"


@dataclass(frozen=True)
class Level:
    """One level of relevance: its stored value, its score, and its words in the sentence."""

    value: str
    score: float
    phrase: str


@dataclass(frozen=True)
class ZeroShotTemplate:
    """Template of sentences that say how relevant a picture is to a target; build one with `from_dict`.

    Its YAML file has the keys {name, version, source, question, sentence, levels: [{value, score, phrase}, …]};
    `sentence` is a Jinja2 template of `level` and `target`, rendered in a sandbox.
    """

    name: str
    question: str
    sentence: str
    levels: tuple[Level, ...]

    @classmethod
    @checks.of_file("template")
    def from_dict(cls, data: Mapping[str, Any]) -> "ZeroShotTemplate":
        """Return the template in `data`, as read from YAML.

        Raises:
            ValueError: a key is missing or wrong; the message says where, and what is allowed.
        """
        where = checks.named("template", data)
        keys = checks.read_keys(data, _KEYS, where)
        levels = keys["levels"]
        if len(levels) < 2:
            raise ValueError(f"{where}, levels: only {len(levels)}; at least two are required")
        for name in ("value", "score", "phrase"):
            if len({getattr(level, name) for level in levels}) < len(levels):
                raise ValueError(f"{where}: two levels have the same {name}; each must differ")
        try:
            names = words(keys["sentence"])
        except Exception as error:
            raise ValueError(f"{where}, sentence: not a valid template: {error}") from error
        if names != {LEVEL_WORD, TARGET_WORD}:
            raise ValueError(
                f"{where}, sentence: must use level and target; it uses {', '.join(sorted(names)) or 'no name'}"
            )
        return cls(keys["name"], keys["question"], keys["sentence"], levels)

    def sentences(self, targets: Sequence[str]) -> list[str]:
        """Return one sentence per target and level: all levels of the first target, then of the second, and so on."""
        template = environment().from_string(self.sentence)
        return [template.render(level=level.phrase, target=target) for target in targets for level in self.levels]


def _score(data: Any, where: str) -> float:
    if isinstance(data, bool) or not isinstance(data, int | float) or not abs(data) < float("inf"):
        raise ValueError(f"{where}: {data!r} must be a finite number")
    return float(data)


_STRING = Key(checks.as_string, required=True)
_LEVEL = {"value": _STRING, "score": Key(_score, required=True), "phrase": REQUIRED_TEXT}
_KEYS = {
    **dict.fromkeys(("name", "version", "source", "question", "sentence"), _STRING),
    "levels": Key(checks.list_of(checks.instance_of(Level, _LEVEL)), required=True),
}


class ZeroShotRater:
    """Actor that rates pictures, or their vectors, against every target."""

    INPUTS = schemas.RATED_ITEMS  # and `embedding`, or `pixels` as of DECODED_PICTURES
    OUTPUTS = schemas.RATINGS

    def __init__(
        self,
        settings: EncoderSettings,
        *,
        template: Mapping[str, Any],
        targets: Sequence[str],
        condition: str = "",
        batch_size: int = 64,
        threads: int | None = None,
    ) -> None:
        """Load the encoder and embed the sentences of all targets.

        Args:
            settings, batch_size, threads: as for `Embedder`.
            template: the content of a template's YAML file (see `ZeroShotTemplate`).
            targets: labels for items without their own.
            condition: experimental condition of the ratings.

        Raises:
            ValueError: the template or encoder cannot be used.
        """
        self.template = ZeroShotTemplate.from_dict(template)
        self.targets, self.condition = tuple(targets), condition
        self._embedder = Embedder(settings, batch_size=batch_size, threads=threads)
        self.rater = encoder_facts(
            settings.checkpoint, pretrained=settings.pretrained, instruction=settings.instruction
        ).encoder
        self._texts: dict[str, np.ndarray] = {}  # vectors of each label's sentences, [levels, dim]
        self._embed(self.targets)
        self._scale = self._embedder.logit_scale

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Rate a batch.

        Args:
            batch: rows of table `embeddings` (column `embedding`), or a table that `PictureDecoder` returned (column
                `pixels`). An item's own labels (column `targets`) take precedence over those of all items.

        Returns:
            Table `ratings`: the items in the batch's order, one row per target. The value is the level whose sentence
            is nearest; probabilities are the softmax of the cosines times the encoder's logit scale, null if it has
            none. Rows that are not ok keep their status and have no score; ok without a vector becomes `missing_input`.
        """
        labels = batch[TARGETS].to_pylist() if TARGETS in batch.column_names else [None] * batch.num_rows
        if "pixels" in batch.column_names:
            batch = self._embedder(batch)
        self._embed([target for of_item in labels for target in of_item or ()])
        rows: list[RatingRow] = []
        outcomes = (batch[name].to_pylist() for name in ("item_id", "status", "error_kind", "error_message"))
        for number, (item, status, kind, message) in enumerate(zip(*outcomes, strict=True)):
            targets = labels[number] or self.targets
            keys = [self._key(item, target) for target in targets]
            if status != Status.OK:
                failure: RatingRow = {"status": status, "error_kind": kind, "error_message": message}
                rows += [{**key, **failure} for key in keys]
            elif not batch["embedding"][number].is_valid:
                rows += [{**key, **NO_VECTOR} for key in keys]
            else:
                vector = np.asarray(batch["embedding"][number].values.to_numpy(zero_copy_only=False), np.float32)
                cosines = (self._texts[target] @ vector for target in targets)
                rows += [{**key, **self._rated(levels)} for key, levels in zip(keys, cosines, strict=True)]
        return rating_table(rows)

    def _embed(self, targets: Sequence[str]) -> None:
        """Embed the sentences of labels that have not been embedded yet."""
        if new := [target for target in dict.fromkeys(targets) if target not in self._texts]:
            texts = self._embedder.embed_texts(self.template.sentences(new))
            self._texts.update(zip(new, texts.reshape(len(new), len(self.template.levels), -1), strict=True))

    def _rated(self, cosines: np.ndarray) -> RatingRow:
        """Return the columns of a rating, from the cosines [levels] of a picture with one target's sentences."""
        levels = self.template.levels
        nearest = levels[int(cosines.argmax())]
        row: RatingRow = {
            "value": nearest.value,
            "score": nearest.score,
            "answers": [level.value for level in levels],
            "status": Status.OK.value,
        }
        if self._scale is not None:
            logits = self._scale * cosines.astype(np.float64)
            shares = np.exp(logits - logits.max())
            shares /= shares.sum()
            row["probabilities"] = shares.tolist()
            row["expected"] = float(shares @ [level.score for level in levels])
        return row

    def _key(self, item: str, target: str) -> RatingRow:
        return rating_key(
            item_id=item,
            target=target,
            rubric=self.template.name,
            question=self.template.question,
            rater=self.rater,
            condition=self.condition,
            method=METHOD,
        )
