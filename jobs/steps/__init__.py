"""The steps of commands that have several: the module `tric_rank` is `remine tric rank`."""
