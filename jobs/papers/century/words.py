"""Questions, groups and labels of Century's tables."""

from jobs.html.formats import in_words

PEOPLES, ALL_MODELS = "People", "All models"
METHODS = {"people": "Human", "models": "Automated"}  # group -> method of table 3

SCALES = ("sensitive", "controversial", "commemorative")
CATEGORIES = ("image_type", "time_period", "concept", "content_type", "sub_region")  # in the order of table 9
DIVERSITY = ("image_type", "content_type", "concept", "sub_region")  # of tables 1 and 8

# The elements of historical contextualisation by dimension, in the order of table 3.
ELEMENTS = {
    "identification": "Accuracy",
    "factual_errors": "Accuracy",
    "beginner_friendly": "Thoroughness",
    "appropriate_summary": "Thoroughness",
    "due_weight": "Objectivity",
    "no_loaded_language": "Objectivity",
    "opinions_not_stated_as_facts": "Objectivity",
}
REGIONS = (  # in the order of figure 13
    "Northern Europe", "Eastern Europe", "Southern Europe", "Western Europe", "North America", "Central America",
    "Caribbean", "South America", "Central Asia", "Eastern Asia", "Southern Asia", "South-eastern Asia", "Western Asia",
    "Melanesia", "Micronesia", "Polynesia", "Australia and New Zealand", "Northern Africa", "Central Africa",
    "Eastern Africa", "Southern Africa", "Western Africa",
)  # fmt: skip
_LABELS = {
    "sub_region": "Sub-region",
    "identification": "Correct identification",
    "factual_errors": "Factuality errors (inverted)",
}


def titled(name: str) -> str:
    """Return the name of a question or answer as a label: `no_loaded_language` as No loaded language."""
    text = _LABELS.get(name, in_words(name))
    return text[:1].upper() + text[1:]


def short(name: str) -> str:
    """Return a rater or model without its revision; of a local model, only what follows the @ (`profile=debug`)."""
    checkpoint, _, revision = name.partition("@")
    return revision if checkpoint.startswith("local:") and revision else checkpoint
