"""Tables as sharded Parquet: locations, work units, one object per unit, manifest, resume.

A table is in one folder or `s3://` prefix:

    <unit>.parquet               the rows of a unit, written in one step; its record is in the footer
    _rejects/<unit>.<g>.parquet  input that generation g of the unit rejected, with file, position and reason
    _run/identity.json           everything that the rows depend on (model, rules, …); written once
    _run/inputs.jsonl            the frozen list of units
    _run/manifest.json           the summary, derived from the footers when a run ends
    _run/units.jsonl             the index: the footers of all units (`jobs.store.unit_index`)

Readers that skip names with a leading underscore see only the rows.
"""
