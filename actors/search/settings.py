"""Settings of a search: the neighbours that it looks for, and its device."""

from dataclasses import dataclass

from actors.settings import Settings

INNER_PRODUCT, COSINE = "inner_product", "cosine"
SCORES = (INNER_PRODUCT, COSINE)


@dataclass
class SearchSettings(Settings):
    """Settings of a search for nearest neighbours.

    Raises:
        ValueError: k below 1, or an unknown score.
    """

    k: int = 10  # neighbours of each query
    score: str = INNER_PRODUCT  # inner_product, or cosine: the vectors' lengths divided out
    device: str = "auto"  # rarely: cuda if there is one, else cpu

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k < 1:
            raise ValueError(f"k={self.k}: must be at least 1")
        if self.score not in SCORES:
            raise ValueError(f"score={self.score}: must be one of {', '.join(SCORES)}")
