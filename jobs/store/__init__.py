"""Sharded Parquet out: locations, work units, one object a unit, manifest, resume.

A table lies in one directory or `s3://` prefix:

    <unit>.parquet               the unit's rows, written whole; counts in the footer
    _rejects/<unit>.<g>.parquet  what the unit's generation g refused, with file, position and reason
    _run/identity.json           what the rows depend on (model, rules, …); claimed once
    _run/inputs.json             the frozen list of work units
    _run/manifest.json           derived from the footers when a run ends

Readers that skip a leading underscore see the rows and nothing else.
"""
