"""The tables and figure of a study after the DOCENT guidelines."""
