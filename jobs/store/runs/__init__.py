"""Runs that write a table: the claim of its place, locks and leases, units that are left, and the manifest."""
