"""Descriptions with historical background, like those by Century's writers, with planted merits and faults."""

import random
from typing import NamedTuple

from jobs.testbed.little_world import articles, descriptions
from jobs.testbed.little_world.scenes import Scene

LOADED = ("What a glorious day.", "What a shameful day.")
OPINIONS = ("It was right.", "It was wrong.")


class Commentary(NamedTuple):
    """A description, the facts that it gets wrong or omits, and what it says about the event."""

    text: str
    wrong: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()
    has_background: bool = False
    is_loaded: bool = False
    has_opinion: bool = False


def background(scene: Scene) -> str:
    """Return the article's sentence on what happened where and when."""
    return articles.article(scene).partition(". ")[0] + "."


def commentary(scene: Scene, draw: random.Random) -> Commentary:
    """Return a description of a scene with up to two wrong facts, up to two omissions, and additional sentences."""
    wrong = tuple(draw.sample(descriptions.STATED, draw.choice((0, 0, 1, 1, 2))))
    others = [fact for fact in descriptions.OPTIONAL if fact not in wrong]
    omitted = tuple(draw.sample(others, min(len(others), draw.choice((0, 0, 1, 2)))))
    described = descriptions.changed(scene, wrong, draw)
    has_background, is_loaded, has_opinion = (draw.random() < share for share in (0.5, 0.35, 0.35))
    sentences = [
        descriptions.description(described, omitted=omitted) + ".",
        background(scene) if has_background else "",
        draw.choice(LOADED) if is_loaded else "",
        draw.choice(OPINIONS) if has_opinion else "",
    ]
    text = " ".join(sentence for sentence in sentences if sentence)
    return Commentary(text, wrong, omitted, has_background, is_loaded, has_opinion)
