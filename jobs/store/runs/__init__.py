"""Runs that write a table: the claim of its place, the lock on it, units that are left, and the manifest."""
