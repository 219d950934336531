"""Labels of rows and columns."""

PEOPLES = "People"
ALL_MODELS = "All models"


def titled(name: str) -> str:
    """Return the name of a question or answer as a label: `no_loaded_language` as No loaded language."""
    text = name.replace("_", " ")
    return text[:1].upper() + text[1:]
