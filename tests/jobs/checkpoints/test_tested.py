"""What the comparison of architectures says of one."""

from jobs.checkpoints import tested


def test_which_architectures_share_prefixes_and_what_is_equal() -> None:
    shares = {kind: tested.shares_prefixes(kind) for kind in ("qwen3_5", "gpt2", "deepseek_v32", "no_such", None)}
    assert shares == {"qwen3_5": True, "gpt2": True, "deepseek_v32": False, "no_such": None, None: None}
    words = {kind: tested.summary(kind) for kind in ("qwen3_5", "deepseek_v32", "no_such", None)}
    assert words == {"qwen3_5": "equal", "deepseek_v32": "equal, naive", "no_such": "", None: ""}
