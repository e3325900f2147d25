#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples in public headers, each behind its header, and the programs of README.md and of the pages in docs/
compile as C17, C++17 and C++20 without a warning.  usage: test_examples.py TOP"""
import re
import sys

import tap
from pages import Pages
from public_headers import PublicHeaders

EXAMPLE = re.compile(r"^ \* +@code\n(.*?)^ \* +@endcode\n", re.M | re.S)
# Only code ends like this, in an indented line of a comment.
CODE_LINE = re.compile(r"^ \* {5,}.*(?:\);|[{}]|=.*;)$", re.M)

headers = PublicHeaders(sys.argv[1])
pages = Pages(sys.argv[1])


def examples():
    """Where each one stands, and its text."""
    for header in headers.all:
        for code in EXAMPLE.findall(header.read_text()):
            lines = [re.sub(r"^ \* {0,6}", "", line) for line in code.splitlines()]
            yield f"an example in weft/{header.name}", "\n".join([f"#include <weft/{header.name}>", *lines, ""])
    for page in pages.all:
        for code in page.blocks("c"):
            yield f"an example in {page.path.name}", code


def examples_are_c17():
    headers.compile_each(examples(), "cc", "-x", "c", "-std=c17")


def examples_are_cxx17():
    headers.compile_each(examples(), "c++", "-x", "c++", "-std=c++17")


def examples_are_cxx20():
    headers.compile_each(examples(), "c++", "-x", "c++", "-std=c++20")


def every_example_is_found():
    marks = sum(header.read_text().count("@code") for header in headers.all)
    found = [place for place, _ in examples()]
    of_headers = [place for place in found if place.startswith("an example in weft/")]
    assert marks > 0 and "an example in README.md" in found
    assert len(of_headers) == marks, f"{marks} marks, but {of_headers}"


def code_in_comments_is_marked_as_an_example():
    for header in headers.all:
        line = CODE_LINE.search(EXAMPLE.sub("", header.read_text()))
        assert not line, f"{header.name} has code outside of @code: {line and line.group()}"


tap.main(examples_are_c17, examples_are_cxx17, examples_are_cxx20, every_example_is_found,
         code_in_comments_is_marked_as_an_example)
