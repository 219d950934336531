"""The census: the true answer of each rubric's questions, computed from the scene."""

from jobs.testbed.little_world.facts import CONTENT, COUNTRIES, EVENTS, IMAGE_TYPES, relevance
from jobs.testbed.little_world.scenes import MODERN, Scene

# Questions of `century_labels` that only the picture answers, and those that only the article answers.
SEEN = ("image_type", "content_type", "sub_region", "sensitive")
READ = ("concept", "time_period", "controversial", "commemorative")


def century_labels(scene: Scene) -> dict[str, str]:
    """Return the true value of each question of the rubric `century_labels`."""
    return {
        "image_type": IMAGE_TYPES[scene.style],
        "content_type": CONTENT[scene.shape],
        "concept": EVENTS[scene.event],
        "sub_region": scene.country.sub_region,
        "time_period": "yes" if scene.year in MODERN else "no",
        "sensitive": str(scene.count),
        "controversial": str(scene.opinion),
        "commemorative": str(scene.memory),
    }


def cultural_relevance(scene: Scene) -> dict[str, str]:
    """Return the true value of `cultural_relevance` for each country."""
    return {country.name: str(relevance(scene.country_name, country.name)) for country in COUNTRIES}


def little_world(scene: Scene) -> dict[str, str]:
    """Return the true value of each question of the rubric `little_world`."""
    return {
        "shape": scene.shape,
        "colour": scene.colour,
        "count": str(scene.count),
        "side": scene.side,
        "ground": scene.style,
        "country": scene.country_name,
    }
