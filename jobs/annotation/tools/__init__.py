"""Annotation tools, one per module: the files from which people work, and the reader of what they export.

Each module has a `TOOL` (`jobs.annotation.tool.Tool`), found by the module's name; nothing else lists the tools.
"""
