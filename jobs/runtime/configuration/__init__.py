"""Configuration: keys with their types and explanations, files of `conf/`, overrides, and errors that name the key."""
