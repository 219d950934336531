"""Library of `actors.span_marker`: prompts, quotations and the two methods of marking spans of text with a model."""
