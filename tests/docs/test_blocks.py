"""The parser of the pages' blocks: a block that it overlooked would be an example that nobody runs."""

import pytest

from tests.docs.blocks import Block, PageError, blocks_of

PAGE = """\
# Title

Text with `code`, and ```inline``` too.

```python
print(1)
```

1. In a list:

   ```bash
   if true; then
     echo two
   fi
   ```

~~~json
{"three": "```python"}
~~~

<!-- not run: it never ends -->

```bash
make serve
```

````text
```python
shown, not run
```
````
"""


def test_every_block_is_found_with_its_language_its_line_and_its_reason_and_only_some_are_run():
    found = blocks_of(PAGE, "page.md")
    assert found == [
        Block("python", "print(1)\n", 6),
        Block("bash", "if true; then\n  echo two\nfi\n", 12),
        Block("json", '{"three": "```python"}\n', 18),
        Block("bash", "make serve\n", 24, not_run="it never ends"),
        Block("text", "```python\nshown, not run\n```\n", 28),
    ]
    assert [block.runs for block in found] == [True, True, False, False, False]


@pytest.mark.parametrize("language", ["", "py", "Sh"])
def test_a_block_that_would_escape_being_run_is_refused(language):
    with pytest.raises(PageError, match=r"page\.md:1: write ```"):
        blocks_of(f"```{language}\necho\n```\n", "page.md")


@pytest.mark.parametrize(
    "page",
    [
        "```bash\necho\n",
        "````bash\necho\n```\n",
        "```bash\necho\n~~~\n",
        "<!-- not run: gone -->\ntext\n```bash\necho\n```\n",
        "<!-- not run: gone -->\n",
        "<!-- not run: pointless -->\n```json\n1\n```\n",
    ],
)
def test_a_page_whose_blocks_are_unclear_is_refused(page):
    with pytest.raises(PageError):
        blocks_of(page, "page.md")
