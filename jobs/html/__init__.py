"""Shared parts of all pages: formats of numbers and links, small copies of pictures, style."""
