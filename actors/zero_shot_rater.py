"""An image encoder as a rater: the nearest of a few sentences that put a label at levels of relevance (CAIRE, 5.1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from actors import schemas
from actors.embedder import Embedder
from actors.encoders.facts import encoder_facts
from actors.status import Status
from actors.vlm.ratings import rating_table
from actors.vlm.rubric import TARGET_WORD, environment, words

METHOD = "encoder"
LEVEL_WORD = "level"


@dataclass(frozen=True)
class Level:
    """One level: the value stored, its number, and the words that say it."""

    value: str
    score: float
    phrase: str


@dataclass(frozen=True)
class ZeroShotTemplate:
    """A checked probe; build it with `ZeroShotTemplate.from_dict`.

    Its YAML file reads {name, version, source, question, sentence, levels: [{value, score, phrase}, …]}, the sentence
    a sandboxed Jinja2 template of `level` and `target`.
    """

    name: str
    question: str
    sentence: str
    levels: tuple[Level, ...]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ZeroShotTemplate":
        """Check a probe as YAML or Hydra gives it.

        Raises:
            ValueError: naming the probe, the place, and what is allowed there.
        """
        where = f"probe {data.get('name')!r}" if isinstance(data, Mapping) else "a probe"
        keys = ("name", "version", "source", "question", "sentence", "levels")
        if not isinstance(data, Mapping) or set(data) != set(keys):
            raise ValueError(f"{where} must be a mapping with exactly {', '.join(keys)}")
        levels = []
        for entry in data["levels"]:
            if not isinstance(entry, Mapping) or set(entry) != {"value", "score", "phrase"}:
                raise ValueError(f"{where} has level {entry!r}; a level has value, score and phrase")
            score = entry["score"]
            if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) < float("inf"):
                raise ValueError(f"{where}, level {entry['value']!r} has score {score!r}; a finite number is needed")
            levels.append(Level(str(entry["value"]), float(score), str(entry["phrase"]).strip()))
        if len(levels) < 2 or any(
            len({getattr(level, name) for level in levels}) < len(levels) for name in vars(levels[0])
        ):
            raise ValueError(f"{where} needs two levels or more, no value, score or phrase twice")
        try:
            used = words(data["sentence"])
        except Exception as error:
            raise ValueError(f"{where}, sentence is not a template: {error}") from error
        if used != {LEVEL_WORD, TARGET_WORD}:
            raise ValueError(
                f"{where}, sentence must use level and target, and uses {', '.join(sorted(used)) or 'none'}"
            )
        return cls(str(data["name"]), str(data["question"]), str(data["sentence"]), tuple(levels))

    def sentences(self, targets: Sequence[str]) -> list[str]:
        """Targets outside, levels inside."""
        template = environment().from_string(self.sentence)
        return [template.render(level=level.phrase, target=target) for target in targets for level in self.levels]


class ZeroShotRater:
    """Rates pictures, or their vectors, against every target.

    Args:
        model, pretrained, device, dtype, batch_size, threads: as `Embedder` takes them.
        probe: as its YAML file reads.
        targets: labels.

    Raises:
        ValueError: a probe, target or encoder that cannot be used.
    """

    INPUTS = schemas.RATED_ITEMS  # and `embedding`, or `pixels` as of DECODED_PICTURES
    OUTPUTS = schemas.RATINGS

    def __init__(
        self,
        *,
        model: str,
        pretrained: str | None,
        probe: Mapping[str, Any],
        targets: Sequence[str],
        device: str = "auto",
        dtype: str = "auto",
        batch_size: int = 64,
        threads: int | None = None,
    ) -> None:
        self.probe = ZeroShotTemplate.from_dict(probe)
        self.targets = tuple(targets)
        self._embedder = Embedder(
            model=model, pretrained=pretrained, device=device, dtype=dtype, batch_size=batch_size, threads=threads
        )
        self.rater = encoder_facts(model, pretrained=pretrained).encoder
        texts = self._embedder.embed_texts(self.probe.sentences(self.targets))
        self._texts = texts.reshape(len(self.targets), len(self.probe.levels), -1)  # [targets, levels, dim]
        self._scale = self._embedder.logit_scale

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Rate a batch.

        Args:
            batch: of table `embeddings`, or what `PictureDecoder` returns; what is no picture is skipped.

        Returns:
            Table `ratings`: items in the batch's order, one row a target. The likeliest level is the nearest; its
            probabilities are the softmax of cosine times the encoder's own logit scale, null where it has none.
        """
        if "pixels" in batch.column_names:
            batch = self._embedder(batch)
        rows = []
        ends = zip(
            *(batch[name].to_pylist() for name in ("item_id", "status", "error_kind", "error_message")), strict=True
        )
        for place, (item, status, kind, message) in enumerate(ends):
            keys = [self._key(item, target) for target in self.targets]
            if status != Status.OK or not batch["embedding"][place].is_valid:
                end = {"status": status, "error_kind": kind, "error_message": message}
                if status == Status.OK:
                    end = {"status": Status.MISSING_INPUT.value, "error_kind": "no_vector"}
                    end["error_message"] = "the row is ok but has no vector"
                rows += [key | end for key in keys]
                continue
            vector = np.asarray(batch["embedding"][place].values.to_numpy(zero_copy_only=False), np.float32)
            rows += [key | self._rated(cosines) for key, cosines in zip(keys, self._texts @ vector, strict=True)]
        return rating_table(rows)

    def _rated(self, cosines: np.ndarray) -> dict[str, Any]:
        levels = self.probe.levels
        nearest = levels[int(cosines.argmax())]
        row: dict[str, Any] = {
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

    def _key(self, item: str, target: str) -> dict[str, Any]:
        return {
            "item_id": item,
            "target": target,
            "rubric": self.probe.name,
            "question": self.probe.question,
            "rater": self.rater,
            "condition": "",
            "method": METHOD,
            "order": "",
            "sample": 0,
        }


def check_targets(targets: Sequence[str]) -> None:
    """Refuse no targets, an empty one, or one twice.

    Raises:
        ValueError: naming it.
    """
    if not targets:
        raise ValueError("no targets; give labels as targets=[Japan,Brazil]")
    if any(not target.strip() for target in targets):
        raise ValueError("a target is empty")
    if twice := [target for target in targets if list(targets).count(target) > 1]:
        raise ValueError(f"target {twice[0]!r} stands twice")
