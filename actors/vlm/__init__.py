"""Judging and generation with vision-language models: rubrics, prompts, engines, loading, and parsing of answers."""
