"""Readers of corpora (WIT, sets of embeddings, knowledge bases, TRIC) and of the files that people hand in."""
