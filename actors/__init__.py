"""What runs on the workers: one plain class a stage. Imports neither Ray nor Hydra nor `jobs`."""
