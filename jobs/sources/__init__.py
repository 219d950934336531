"""The sources of pictures for `fetch`: each module's `plan` returns the units and how they are fetched."""
