"""What `tidelog up` says of flags it can't take: the flag that was typed, and what to type."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.errors import InvalidConfig
from tidelog_node.up import main
from tidelog_runtime.polling import VARIABLE


@pytest.fixture(autouse=True)
def _environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """`main` chooses a poller for its process, which here is that of all tests."""
    monkeypatch.setenv(VARIABLE, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config", "foo=1"], "Unknown key 'foo' in flag --config"),
        (["--config", "flush.ms=-1"], "Invalid value '-1' for 'flush.ms' in flag --config"),
        (["--config", "nonsense"], "Invalid value 'nonsense' for flag --config.*KEY=VALUE"),
        (["--port", "99999"], "Invalid value '99999' for flag --port.*from 0 to 65535"),
        (["--port", "-1"], "Invalid value '-1' for flag --port"),
        (["--metrics-port", "99999"], "Invalid value '99999' .* in flag --metrics-port"),
        (["--internal-port", "99999"], "Invalid value '99999' .* in flag --internal-port"),
        (["--host", "[a]"], r"Invalid value '\[a\]:9094' .* in flag --host.*in brackets"),
        (["--host", "a,b"], "Invalid value 'a,b:9094' .* in flag --host"),
        (
            ["--internal-port", "1", "--config", "internal.port=2"],
            "'internal.port' is set twice: .* in flag --config and .* in flag --internal-port",
        ),
    ],
)
def test_a_refusal_names_the_flag(tmp_path: Path, arguments: list[str], words: str) -> None:
    data_dir = tmp_path / "data"
    with pytest.raises(InvalidConfig, match=words):
        main(["--data-dir", str(data_dir), *arguments])
    assert not data_dir.exists()
