"""Library of `actors.span_marker`: prompts, quotations and the two ways in which a model marks spans of text."""
