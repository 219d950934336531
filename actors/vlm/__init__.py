"""Judging engines: a rubric is data, its prompts share what they can, closed answers are scored and not generated."""
