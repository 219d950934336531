"""Code that runs on the workers: one plain class per stage. Imports neither Ray nor `jobs`."""

from pathlib import Path

# The folder with `actors`, `jobs` and `conf`, in a checkout and when installed. Every path is built from it, since a
# path that counts the folders above its own file is wrong, without an error, once the file moves.
ROOT = Path(__file__).resolve().parent.parent
