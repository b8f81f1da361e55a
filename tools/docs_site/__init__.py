"""What the site of the documentation has and docs/ does not; `make docs` builds it with mkdocs.

The pages stay as GitHub shows them: links lead to files. `hooks` adds the files outside docs/ to which pages link,
`links` turns the links into those of the site, and `reference` makes pages from docstrings and `--help`.
"""
