# SPDX-License-Identifier: GPL-2.0
"""Sphinx configuration of these documents: `make doc` runs Sphinx with it.

The theme and its options are those of the kernel's own documentation.
"""

from pathlib import Path

from docutils import nodes

project = "NFS over RDMA in Rust"
project_copyright = "The rpcrdma-rust developers"
version = release = (Path(__file__).parents[1] / "VERSION").read_text().strip()

needs_sphinx = "5.3"
exclude_patterns = ["output"]
highlight_language = "none"
smartquotes_action = "q"

html_theme = "alabaster"
html_theme_options = {
    "description": f"rpcrdma {release}",
    "page_width": "65em",
    "sidebar_width": "15em",
    "fixed_sidebar": "true",
    "font_size": "inherit",
    "font_family": "serif",
}
html_sidebars = {
    "**": ["about.html", "searchbox.html", "navigation.html", "sourcelink.html"]
}
html_copy_source = True
html_show_copyright = False


def _link_sources(_app, page, _name):
    """Corrects links to files of the tree: the pages are one folder below these documents."""
    for link in page.findall(nodes.reference):
        if link.get("refuri", "").startswith("../"):
            link["refuri"] = "../" + link["refuri"]


def setup(app):
    """Has Sphinx call what this file adds to it."""
    app.connect("doctree-resolved", _link_sources)
