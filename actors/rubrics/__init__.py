"""Rubrics: questions with allowed answers, the prompts made from them, and parsing of answers written as text."""
