"""Packages that only some jobs need: which extra of `pip install` has them."""

# extra of pyproject.toml -> the modules that its packages bring
MODULES = {
    "mining": ("ahocorasick_rs", "aiohttp", "imagehash", "ray"),
    "models": ("accelerate", "open_clip", "ray", "sentencepiece", "torch", "torchvision", "transformers"),
    "ann": ("faiss",),
}


def hint(error: ModuleNotFoundError) -> str | None:
    """One sentence on the extra to install for a module that is missing; None if no extra has it."""
    module = (error.name or "").partition(".")[0]
    extras = [extra for extra, modules in MODULES.items() if module in modules]
    if not extras:
        return None
    commands = " or ".join(f"pip install -c constraints.txt -e '.[{extra}]'" for extra in extras)
    return f"the package {module} is not installed; install it with {commands}"
