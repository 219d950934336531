"""The knowledge base of CAIRE's pipeline about the little world, in both regimes of the paper's table 3.

In one half of the unions, as for food and artifacts in the paper, names say what can be seen, and each picture also
belongs to a more general entity, all feasts of the union, to which most of the nearest pictures belong. In the other
half, as for plants and animals, names, glosses and articles are uninformative, and the right entity is found by the
number of nearest pictures that it has.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobs.testbed.little_world.census import Entity, entities
from jobs.testbed.little_world.scenes import BY_NAME, Scene, random_scene

NAMED, CATALOGUED = "named", "catalogued"  # the two data sets of table 3
UNIONS = {"Coast": NAMED, "Steppe": NAMED, "Isles": CATALOGUED, "Delta": CATALOGUED}
PICTURES = {NAMED: 3, CATALOGUED: 6}  # pictures of each entity
FIRST_PICTURE, STEP = 5000, 10  # number of the first picture's scene, and the distance from one entity's to the next


def dataset(entity: Entity) -> str:
    """Return the data set of an entity: NAMED or CATALOGUED."""
    return UNIONS[BY_NAME[entity.country_name].union]


def is_found(dataset_name: str, method: str) -> bool:
    """Return whether a linking method should find the entities of a data set: by frequency, or by a text."""
    return (method == "frequency_vision") == (dataset_name == CATALOGUED)


def pictures(entity: Entity, *, seed: int) -> dict[str, Scene]:
    """Return the scenes that an entity's pictures show, by file name."""
    first = FIRST_PICTURE + STEP * list(entities()).index(entity)
    shown = (random_scene(number, seed=seed) for number in range(first, first + PICTURES[dataset(entity)]))
    return {
        f"kb{scene.number}.png": replace(scene, shape=entity.shape, country_name=entity.country_name) for scene in shown
    }


def rows(images: Mapping[Entity, Sequence[str]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the knowledge base's file.

    The title is the article's, which no linking method reads.

    Args:
        images: file names of each entity's pictures.
    """
    general: dict[tuple[str, str], list[str]] = {}  # pictures by union and name of its feasts
    for entity, names in images.items():
        row = {"node": entity.node, "title": entity.title, "images": names}
        if dataset(entity) == CATALOGUED:
            yield row | {"lemmas": [entity.catalogue_name], "gloss": "An entry.", "article": "Nothing is known of it."}
            continue
        article = entity.article_with_guests(entity.guests)
        yield row | {"lemmas": [entity.title], "gloss": entity.gloss, "article": article}
        general.setdefault((BY_NAME[entity.country_name].union, entity.general_name), []).extend(names)
    for (union, name), names in general.items():
        row = {"node": union.lower(), "title": union, "images": names, "lemmas": [name]}
        yield row | {"gloss": "All feasts of a union.", "article": f"{name} are held each year."}
