"""Readers of what there is to mine: WIT, embedding sets, pictures, knowledge bases, and a corpus of our own."""
