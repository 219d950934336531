"""Conversion of a user's file, responses or links to the tables of the job `items`."""
