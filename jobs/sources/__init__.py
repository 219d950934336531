"""Where pictures come from: each module turns its part of `source.*` into units and the rows of `images`."""
