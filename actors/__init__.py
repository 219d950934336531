"""Code that runs on the workers: one plain class per stage. Imports neither Ray nor Hydra nor `jobs`."""
