"""Wrong flags and values end in one line that says what is right, and exit code 2."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from tidelog.cli.flags import VerbParser, one_of, pair, whole_number


def parser() -> VerbParser:
    """A parser with a flag of each kind."""
    made = VerbParser("topics", "Does things.", "  tidelog topics --list\n")
    made.add_connection("--admin.config")
    made.add_argument("--topic")
    made.add_argument("--list", action="store_true")
    made.add_argument("--partitions", type=whole_number(1, 10))
    made.add_argument("--config", type=pair, action="append")
    return made


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What parsing these words ends in."""
    with pytest.raises(SystemExit) as end:
        parser().parse(words)
    assert end.value.code == 2
    return capsys.readouterr().err


def test_old_and_new_spellings_mean_the_same() -> None:
    assert parser().parse(["--command-config", "a"]).command_config == "a"
    assert parser().parse(["--admin.config", "a"]).command_config == "a"


def test_an_unknown_flag_has_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert complaint(capsys, "--topci", "orders") == (
        "tidelog topics: there is no flag --topci. Did you mean '--topic'?"
        " `tidelog topics --help` lists the flags.\n"
    )
    assert "there is no flag --zzz." in complaint(capsys, "--zzz=1")


def test_a_stray_word_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is nothing to do with 'orders'" in complaint(capsys, "orders")


def test_flags_are_not_completed(capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no flag --part" in complaint(capsys, "--part", "3")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--partitions", "three"), "argument --partitions: 'three' is no whole number"),
        (("--partitions", "1_0"), "'1_0' is no whole number"),
        (("--partitions", "\u0663"), "is no whole number"),
        (("--partitions", "9" * 5000), "is no whole number"),
        (("--partitions", "9" * 23), "is too large, it must be at most 10"),
        (("--partitions", "0"), "0 is too small, it must be at least 1"),
        (("--partitions", "11"), "11 is too large, it must be at most 10"),
        (("--config", "retention.ms"), "'retention.ms' is not written as KEY=VALUE"),
        (("--config", "=1"), "'=1' is not written as KEY=VALUE"),
        (("--topic",), "argument --topic: expected one argument"),
    ],
)
def test_a_wrong_value_is_named(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], part: str
) -> None:
    said = complaint(capsys, *words)
    assert part in said
    assert said.count("\n") == 1


def test_a_value_may_begin_with_a_dash() -> None:
    assert parser().parse(["--topic", "-abc", "--list"]).topic == "-abc"
    assert parser().parse(["--config", "a=-"]).config == [("a", "-")]


def test_a_flag_is_never_taken_for_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert "argument --topic: expected one argument" in complaint(capsys, "--topic", "--list")
    assert "argument --topic: expected one argument" in complaint(capsys, "--topic", "-h")


def test_a_missing_flag_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().require(parser().parse([]), "--topic", "--partitions")
    assert "--topic or --partitions is missing" in capsys.readouterr().err
    parser().require(parser().parse(["--topic", "orders"]), "--topic", "--partitions")


def test_what_cannot_go_together_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    options = parser().parse(["--list", "--topic", "orders"])
    with pytest.raises(SystemExit):
        parser().refuse_together(options, "--list", "--partitions", "--topic")
    assert "--list and --topic cannot be used together" in capsys.readouterr().err
    parser().refuse_together(options, "--list", "--partitions")


def test_a_pair_is_split_at_its_first_sign() -> None:
    assert pair("key.separator==") == ("key.separator", "=")


def test_one_of_some_words() -> None:
    assert one_of("gzip", "zstd")("zstd") == "zstd"
    with pytest.raises(ArgumentTypeError, match="'zst' is not possible; did you mean zstd"):
        one_of("gzip", "zstd")("zst")
    with pytest.raises(ArgumentTypeError, match="it is one of gzip, zstd"):
        one_of("gzip", "zstd")("brotli")


def test_help_shows_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parser().parse(["--help"])
    assert end.value.code == 0
    assert "examples:\n  tidelog topics --list\n" in capsys.readouterr().out
