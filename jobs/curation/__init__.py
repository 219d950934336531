"""Selection among records: pure functions on arrays, and the readers that fill these arrays. Job: `jobs.curate`."""
