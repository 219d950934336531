"""Which attributes of items, and which questions, tell the region that a picture is about."""

REGIONS = ("region", "sub_region", "country", "target", "category")  # the first that is known counts
