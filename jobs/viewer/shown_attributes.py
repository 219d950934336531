"""Attributes of items, such as columns of a user's file: all are searched, and those with few values have a filter."""

from typing import TYPE_CHECKING

from jobs.html.regions import REGIONS

if TYPE_CHECKING:
    import duckdb

MOST_FILTERS, MOST_VALUES = 8, 50  # attributes with a filter, and values of each
_REGIONS = ", ".join(f"('{name}', {place})" for place, name in enumerate(REGIONS))

# `picture_attributes` has each value of a picture once; `alone` means that the item shows no other picture, so that its
# title can be the picture's. `filters` has the attributes with at least two values, but fewer than half as many as
# items, in the order of the columns. The attribute for the region is left out: it has the filter of regions.
SHOWN_ATTRIBUTES = f"""
CREATE TEMP TABLE item_attributes AS
    SELECT item_id, len(image_ids) = 1 AS alone, unnest(map_keys(attributes)) AS name,
           unnest(map_values(attributes)) AS value, generate_subscripts(map_keys(attributes), 1) AS place
    FROM items;
DELETE FROM item_attributes WHERE value IS NULL OR value = '';
CREATE TABLE region_attributes AS
    SELECT n.name FROM (VALUES {_REGIONS}) n(name, place) SEMI JOIN item_attributes a ON a.name = n.name
    ORDER BY n.place;
CREATE TABLE filters AS
    SELECT name, min(place) AS place FROM item_attributes
    WHERE name NOT IN (SELECT name FROM region_attributes LIMIT 1)
    GROUP BY name
    HAVING count(DISTINCT value) BETWEEN 2 AND {MOST_VALUES} AND 2 * count(DISTINCT value) < count(DISTINCT item_id)
    ORDER BY place, name LIMIT {MOST_FILTERS};
CREATE TABLE picture_attributes AS
    SELECT s.image_id, a.name, a.value, bool_or(a.alone) AS alone
    FROM item_attributes a JOIN subjects s USING (item_id) GROUP BY ALL;
DROP TABLE item_attributes;
"""


def region_label(cursor: "duckdb.DuckDBPyConnection") -> str:
    """Return the name of the filter of regions: the attribute that all regions come from, else `region`."""
    names = [name for (name,) in cursor.execute("SELECT name FROM region_attributes").fetchall()]
    answered = cursor.execute("SELECT count(*) FROM answered_regions").fetchall()[0][0]
    return names[0] if len(names) == 1 and not answered else REGIONS[0]
