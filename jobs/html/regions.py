"""The attributes of items, and the questions, that indicate the region of a picture."""

REGIONS = ("region", "sub_region", "country", "target", "category")  # the first one with a value is used
