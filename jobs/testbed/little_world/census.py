"""The census: the true answers to each rubric's questions, computed from the scene."""

from jobs.testbed.little_world.scene_texts import Commentary
from jobs.testbed.little_world.scenes import CONTENT, COUNTRIES, EVENTS, IMAGE_TYPES, MODERN, Scene, relevance

# Questions of `century_labels` that only the picture answers, and questions that only the article answers.
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


def cultural_relevance(scene: Scene, *, guests: str = "") -> dict[str, str]:
    """Return the true value of `cultural_relevance` for each country.

    Args:
        guests: the guests' country according to the feast's article, if the article is known.
    """
    grades = {country.name: str(relevance(scene.country_name, country.name)) for country in COUNTRIES}
    return grades | ({guests: "4"} if guests else {})


def image_rating(wrong: int) -> str:
    """Return the true value of `image_rating` for a picture with `wrong` wrong facts of its text."""
    return str(max(1, 5 - wrong))


def century_contextualisation(commentary: Commentary) -> dict[str, str]:
    """Return the true value of each question of the rubric `century_contextualisation`."""
    named = len({"shape", "country_name"} & {*commentary.wrong, *commentary.omitted})
    grades = {
        "beginner_friendly": 5 if commentary.has_background else 1,
        "appropriate_summary": 5 - 2 * len(commentary.omitted),
        "due_weight": 5 - 2 * commentary.is_loaded - 2 * commentary.has_opinion,
        "no_loaded_language": 1 if commentary.is_loaded else 5,
        "opinions_not_stated_as_facts": 1 if commentary.has_opinion else 5,
        "identification": 5 - 2 * named,
        "factual_errors": 1 + 2 * min(2, len(commentary.wrong)),
    }
    return {name: str(grade) for name, grade in grades.items()}


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
