"""If these fail, traces are made from other prompts than the user gave, or evaluation sees what training saw."""

from collections import Counter
from pathlib import Path

import pytest

from memspec_actors.errors import TraceError
from memspec_actors.predictor.prompts import Prompt, read_prompts, zoo_prompts


def test_json_lines_and_text_lines(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "a\\nb", "kind": "law"}\n\n{"prompt": "c", "extra": 1}\n')
    assert read_prompts(tmp_path / "p.jsonl") == [Prompt("a\nb", "law"), Prompt("c")]
    (tmp_path / "p.txt").write_text('one\n\n{"prompt": "two"}\n', encoding="utf-8")
    assert read_prompts(tmp_path / "p.txt") == [Prompt("one"), Prompt('{"prompt": "two"}')]
    assert read_prompts(tmp_path / "p.txt", limit=1) == [Prompt("one")]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("p.jsonl", b'{"prompt": "a"}\n{"text": "b"}\n', "line 2"),
        ("p.jsonl", b'{"prompt": 3}\n', "line 1"),
        ("p.txt", b"\n\n", "no prompts"),
        ("p.txt", b"\xff\xfe", "p.txt"),
    ],
)
def test_bad_files_are_reported(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TraceError, match=said):
        read_prompts(tmp_path / name)


@pytest.mark.parametrize("name", ["p.jsonl", "p.txt"])
def test_only_line_ends_end_a_prompt(tmp_path: Path, name: str) -> None:
    """JSON may hold U+2028 as it is: the prompt would be cut in two, or its line called damaged."""
    text = "one\u2028two\x85three\x0cfour"
    line = text if name == "p.txt" else f'{{"prompt": "{text}"}}'.replace("\x0c", "\\f")
    (tmp_path / name).write_text(
        f"{line}\r\nnext\n" if name == "p.txt" else f"{line}\r\n", encoding="utf-8", newline=""
    )
    assert read_prompts(tmp_path / name)[0] == Prompt(text)


@pytest.mark.parametrize("name", ["p.jsonl", "p.txt"])
def test_a_byte_order_mark_is_no_part_of_the_first_prompt(tmp_path: Path, name: str) -> None:
    """Lines of JSON would be called damaged, and a text begin with a character that nobody sees."""
    line = "one" if name == "p.txt" else '{"prompt": "one"}'
    (tmp_path / name).write_text(f"{line}\n", encoding="utf-8-sig")
    assert read_prompts(tmp_path / name) == [Prompt("one")]


@pytest.mark.parametrize(
    "source", ["zoo:train:0", "zoo:test", "zoo:train:many", "zoo:train:\u00b2", f"zoo:train:{10**9}", "nowhere.txt"]
)
def test_unknown_sources_are_reported(source: str) -> None:
    with pytest.raises(TraceError):
        read_prompts(source)


def test_splits_share_no_prompt_and_repeat_exactly() -> None:
    training, evaluation = zoo_prompts("train", 200), zoo_prompts("eval", 100)
    assert not {p.prompt for p in training} & {p.prompt for p in evaluation}
    assert read_prompts("zoo:eval:100") == evaluation
    kinds = Counter(prompt.kind for prompt in training)
    assert kinds["mixed"] == 120
    assert {kinds[domain] for domain in ("general", "code", "math", "law", "medical")} == {16}


def test_a_file_that_cannot_be_read_is_named_once() -> None:
    """The line would say the name twice, around the number of an error."""
    with pytest.raises(TraceError, match=r"^nowhere\.txt: No such file or directory; give a file of prompts"):
        read_prompts("nowhere.txt")
