"""Names, ids and tags, as requests give them."""

from typing import Annotated

from msgspec import Meta

NAME = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"
NO_NAME = 'a name has up to 128 letters, digits, ".", "_" and "-", and begins with a letter or digit'

# Fields of requests. "\Z", for Python's "$" lets a last line feed pass.
Name = Annotated[str, Meta(pattern=NAME.removesuffix("$") + r"\Z")]
TaskId = Annotated[str, Meta(min_length=1, max_length=256)]
Tag = Annotated[str, Meta(min_length=1, max_length=64)]
MAX_IDS = 100_000  # in a list of them
