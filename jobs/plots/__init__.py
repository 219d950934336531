"""Plots as inline SVG: pure functions from numbers to text, drawn by matplotlib."""
