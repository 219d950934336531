"""The demo's encoder on pictures that it was not trained on, and what breaks if the way to it is wrong.

Thresholds lie between what `python -m tests.models.train_encoder` reaches (the model card has it) and chance.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

from actors import linking
from actors.encoders.encoder_sources import encoder_facts
from actors.encoders.towers import find_geometry, load_tower
from jobs.testbed.little_world import census, drawing, scene_texts
from jobs.testbed.little_world.scenes import distinct_scenes, random_scene
from tests.models.pool import HELD_OUT, SEEN

pytestmark = pytest.mark.long

MODEL = "transformers:local:demo-encoder"
SCENES = distinct_scenes(100, seed=HELD_OUT)
PICTURES = [drawing.paint(one, seed=HELD_OUT) for one in SCENES]
LEAST_RECALL, LEAST_LINKED, LEAST_PROBABILITY = 0.85, 0.9, 0.58  # chance: 0.01, 1/72, about 0

Change = Callable[[np.ndarray], np.ndarray]


class Encoder(NamedTuple):
    """The loaded encoder and its geometry."""

    tower: Any
    resize: Callable[[Image.Image], np.ndarray]

    def pictures(self, pictures: list[Image.Image], change: Change = lambda pixels: pixels) -> torch.Tensor:
        """Return unit vectors of pictures, whose resized pixels go through `change`."""
        pixels = np.stack([change(self.resize(picture)) for picture in pictures])
        channels_first = torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))
        with torch.no_grad():
            return torch.nn.functional.normalize(self.tower.pictures(channels_first).float(), dim=-1)

    def texts(self, texts: list[str]) -> torch.Tensor:
        """Return unit vectors of texts."""
        with torch.no_grad():
            return torch.nn.functional.normalize(self.tower.texts(texts).float(), dim=-1)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    tower = load_tower(MODEL, None, device=torch.device("cpu"), dtype="float32")
    return Encoder(tower, find_geometry(MODEL, None).prepare)


@pytest.fixture(scope="module")
def vectors(encoder: Encoder) -> torch.Tensor:
    return encoder.pictures(PICTURES)


@pytest.fixture(scope="module")
def english(encoder: Encoder) -> torch.Tensor:
    return encoder.texts([scene_texts.caption(one, "en") for one in SCENES])


def recall(queries: torch.Tensor, corpus: torch.Tensor) -> float:
    """Return the share of queries whose nearest row of the corpus is their own."""
    return float(((queries @ corpus.T).argmax(1) == torch.arange(len(queries))).float().mean())


def probability(encoder: Encoder, vectors: torch.Tensor, texts: torch.Tensor) -> float:
    """Return the mean probability that the encoder gives to pictures and their own captions."""
    cosines = (vectors * texts).sum(1)
    bias = float(encoder.tower._model.logit_bias.detach())
    return float(torch.sigmoid(cosines * encoder.tower.logit_scale + bias).mean())


def test_it_is_identified_by_its_weights_and_has_both_towers() -> None:
    facts = encoder_facts(MODEL, pretrained=None)
    assert facts.encoder.startswith("transformers:demo-encoder@")
    assert facts.texts


@pytest.mark.parametrize("language", scene_texts.LANGUAGES)
def test_captions_of_each_language_find_their_pictures(encoder: Encoder, vectors: torch.Tensor, language: str) -> None:
    texts = encoder.texts([scene_texts.caption(one, language) for one in SCENES])
    assert recall(texts, vectors) > LEAST_RECALL
    assert recall(vectors, texts) > LEAST_RECALL


def test_pictures_find_their_entities_by_each_kind_of_text(encoder: Encoder, vectors: torch.Tensor) -> None:
    listed = list(census.entities())
    right = torch.tensor([listed.index(census.entity_of(one)) for one in SCENES])
    for texts in ([e.title for e in listed], [e.lemma("ja") for e in listed], [e.gloss for e in listed]):
        linked = (vectors @ encoder.texts(texts).T).argmax(1)
        assert float((linked == right).float().mean()) > LEAST_LINKED


def test_probabilities_of_own_captions_are_high(encoder: Encoder, vectors: torch.Tensor, english: torch.Tensor) -> None:
    assert probability(encoder, vectors, english) > LEAST_PROBABILITY
    assert probability(encoder, vectors, english.roll(1, 0)) < 0.05


class KnowledgeBase(NamedTuple):
    """Pictures of the feasts, three each, with the nodes that have them, and vectors of the nodes' texts."""

    vectors: torch.Tensor
    nodes: list[tuple[str, ...]]
    texts: dict[str, torch.Tensor]  # node -> its vector


FEASTS = list(census.entities())


def knowledge_base(encoder: Encoder, texts: dict[str, str], *, general: bool) -> KnowledgeBase:
    """Return the knowledge base with a text per node; with `general`, the feasts of a union share a node."""
    shown: list[Image.Image] = []
    nodes: list[tuple[str, ...]] = []
    for number, entity in enumerate(FEASTS * 3):
        scenes = replace(
            random_scene(5000 + number, seed=HELD_OUT), shape=entity.shape, country_name=entity.country_name
        )
        shown.append(drawing.paint(scenes, seed=HELD_OUT))
        nodes.append((entity.node, entity.general_name) if general else (entity.node,))
    embedded = encoder.texts(list(texts.values()))
    return KnowledgeBase(encoder.pictures(shown), nodes, dict(zip(texts, embedded, strict=True)))


def linked(method: str, vectors: torch.Tensor, kb: KnowledgeBase) -> float:
    """Return the share of pictures whose first link is their entity."""
    right = 0
    for vector, one in zip(vectors, SCENES, strict=True):
        if method in linking.TEXT_METHODS:
            hits = [linking.LinkedText(node, node, float(text @ vector)) for node, text in kb.texts.items()]
            links = linking.by_text(hits, 1)
        else:
            scores = kb.vectors @ vector
            near = [linking.NearPicture(kb.nodes[i], float(scores[i])) for i in scores.topk(5).indices.tolist()]
            if method == "frequency_vision":
                links = linking.by_frequency(near, 1)
            else:
                nodes = linking.candidates(near)
                links = linking.by_similarity(vector.numpy(), {n: [(n, kb.texts[n].numpy())] for n in nodes}, 1)
        right += links[0].node_id == census.entity_of(one).node
    return right / len(SCENES)


def test_all_methods_link_where_names_and_articles_are_informative(encoder: Encoder, vectors: torch.Tensor) -> None:
    names = {e.node: e.title for e in FEASTS}
    glosses, articles = {e.node: e.gloss for e in FEASTS}, {e.node: e.article for e in FEASTS}
    for texts, methods in (
        (names, ("lemma", "lemma_vision", "frequency_vision")),
        (glosses, ("gloss", "gloss_vision")),
        (articles, ("article",)),
    ):
        kb = knowledge_base(encoder, texts, general=False)
        for method in methods:
            assert linked(method, vectors, kb) > LEAST_LINKED - 0.15, method


def test_names_help_among_general_entities_and_frequency_where_names_are_uninformative(
    encoder: Encoder, vectors: torch.Tensor
) -> None:
    telling = {e.node: e.title for e in FEASTS} | {e.general_name: e.general_name for e in FEASTS}
    kb = knowledge_base(encoder, telling, general=True)
    assert linked("lemma_vision", vectors, kb) > linked("frequency_vision", vectors, kb) + 0.2
    mute = {e.node: e.catalogue_name for e in FEASTS}
    kb = knowledge_base(encoder, mute, general=False)
    assert linked("frequency_vision", vectors, kb) > linked("lemma_vision", vectors, kb) + 0.2


def test_swapped_channels_are_noticed(encoder: Encoder, english: torch.Tensor) -> None:
    assert recall(encoder.pictures(PICTURES, lambda pixels: pixels[..., ::-1]), english) < 0.5


def test_a_shifted_row_is_noticed(vectors: torch.Tensor, english: torch.Tensor) -> None:
    assert recall(vectors.roll(1, 0), english) < 0.1


def test_a_wrong_resampling_is_noticed(encoder: Encoder, english: torch.Tensor) -> None:
    picked = [picture.resize((SEEN, SEEN), Image.Resampling.NEAREST) for picture in PICTURES]
    assert probability(encoder, encoder.pictures(picked), english) < LEAST_PROBABILITY


def test_a_missing_normalisation_is_noticed(
    encoder: Encoder, english: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder.tower._encoder.processor, "do_normalize", False)
    assert recall(encoder.pictures(PICTURES), english) < LEAST_RECALL
