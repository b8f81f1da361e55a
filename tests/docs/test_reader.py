"""The reader of the pages notices what a page gets wrong: an example that it passed over would be tried by nobody."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import Block
from tests.docs.reader import ExampleError, Reader, same


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with Reader("page.md", tmp_path, dict(os.environ)) as one:
        yield one


def bash(code: str, prints: str | None = None) -> Block:
    return Block("bash", code, 1, prints=prints)


def test_a_page_has_one_shell_and_one_python(reader: Reader):
    reader.do(bash("name=math; export WHERE=here\n"))
    assert reader.do(bash('printf "$name $WHERE"\n')).strip() == "math here"
    reader.do(Block("python", "rows = [1, 2]\n", 4))
    assert reader.do(Block("python", "print(len(rows))\n", 8)) == "2\n"


def test_python_is_the_one_of_the_shell(reader: Reader, tmp_path: Path):
    other = tmp_path / "bin" / "python"
    other.parent.mkdir()
    other.write_text("#!/bin/bash\necho started >&2; exit 3\n")
    other.chmod(0o755)
    reader.do(bash(f'PATH="{other.parent}:$PATH"\n'))
    with pytest.raises(ExampleError, match="started"):
        reader.do(Block("python", "print(1)\n", 4))


@pytest.mark.parametrize(
    "block",
    [
        bash("false\n"),
        bash("true | false\n"),
        bash('echo "$unset_name"\n'),
        Block("python", "1 / 0\n", 3),
        bash("echo 2\n", prints="1\n"),
    ],
)
def test_a_block_that_fails_or_prints_something_else_is_noticed(reader: Reader, block: Block):
    with pytest.raises(ExampleError, match=rf"page\.md:{block.line}"):
        reader.do(block)


def test_a_block_that_never_ends_is_ended(tmp_path: Path):
    with Reader("page.md", tmp_path, dict(os.environ), block_s=0.2) as reader, pytest.raises(ExampleError):
        reader.do(Block("python", "import time; time.sleep(1000)\n", 3))


def test_a_saved_block_is_a_file_with_the_services_address(tmp_path: Path):
    with Reader("page.md", tmp_path, dict(os.environ), url="http://127.0.0.1:9") as reader:
        reader.do(Block("python", 'print("http://127.0.0.1:8000/x")\n', 3, saved_as="one.py"))
        assert reader.do(bash("python3 one.py\n", prints="http://127.0.0.1:8000/x\n")) == "http://127.0.0.1:9/x\n\n"


def test_a_command_that_ends_before_it_is_ready_is_noticed(reader: Reader):
    with pytest.raises(ExampleError, match="no such port"):
        reader.do(Block("bash", "echo no such port; exit 1\n", 2, ready_at="http://127.0.0.1:1/"))


def test_dots_stand_for_what_differs():
    assert same("a ... c\n", "a b c\n")
    assert same("a   b\n", "a b\n")
    assert not same("a ... c\n", "a b d\n")
