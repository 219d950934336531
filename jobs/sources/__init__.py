"""The sources of pictures for `fetch`: one function each returns the units and how they are fetched."""
