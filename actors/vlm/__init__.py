"""Judging and generation with vision-language models: engines, loading, chat formats, and scoring of answers."""
