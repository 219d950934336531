"""Names of devices and dtypes: what is none is refused before anything is loaded."""

import pytest
import torch

from actors.devices import check_device, check_dtype, find_device, find_dtype


def test_names() -> None:
    for name in ("auto", "cpu", "cuda", "cuda:1", "mps"):
        check_device(name)
    for name in ("auto", "float32", "bfloat16", "float16"):
        check_dtype(name)
    assert find_dtype("auto", torch.device("cpu")) == "float32"
    for name in ("zzz", "cuda:x", ""):
        with pytest.raises(ValueError, match=f"device={name}"):
            check_device(name)
    with pytest.raises(ValueError, match="dtype=int3"):
        check_dtype("int3")


def test_what_this_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == torch.device("cpu")
    with pytest.raises(ValueError, match="device=cuda"):
        find_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert find_device("auto") == find_device("cuda")
    with pytest.raises(ValueError, match=r"device=cuda:7: .* 1 cuda"):
        find_device("cuda:7")
