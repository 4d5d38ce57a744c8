"""Sphinx configuration: Markdown pages, and the reference from docstrings."""

from importlib.metadata import version as installed

project = "alkstore"
author = "alkstore contributors"
project_copyright = author
version = release = installed("alkstore-core")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# Scripts and tests live beside the pages.
exclude_patterns = ["_build", "examples", "tests"]

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3
# Backticks in docstrings are code, as in the pages.
default_role = "code"

autodoc_class_signature = "separated"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_use_type_comments = False
napoleon_numpy_docstring = False

# Types of the standard library and of other projects are named in signatures and documented
# elsewhere; the build reads no foreign inventory, so it needs no network.
nitpick_ignore_regex = [(r"py:.*", r"(?!alkstore_).*")]

html_theme = "furo"
html_title = "alkstore"
