#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples in public headers, each behind its header, and the README's programs compile as C17, C++17 and C++20
without a warning.  usage: test_examples.py TOP"""
import pathlib
import re
import shutil
import sys

import tap

# Optimized: only then it is seen that a variable may be unset.
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-O2", "-c", "-o", "/dev/null", "-"]
EXAMPLE = re.compile(r"^ \* +@code\n(.*?)^ \* +@endcode\n", re.M | re.S)
# Only code ends like this, in an indented line of a comment.
CODE_LINE = re.compile(r"^ \* {5,}.*(?:\);|[{}]|=.*;)$", re.M)

top = pathlib.Path(sys.argv[1])
headers = sorted(top.glob("*/include/weft/*.h"))
includes = [f"-I{folder}" for folder in sorted(top.glob("*/include"))]


def examples():
    """Where each one stands, and its text."""
    for header in headers:
        for code in EXAMPLE.findall(header.read_text()):
            lines = [re.sub(r"^ \* {0,6}", "", line) for line in code.splitlines()]
            yield f"weft/{header.name}", "\n".join([f"#include <weft/{header.name}>", *lines, ""])
    for code in re.findall(r"^```c\n(.*?)^```", (top / "README.md").read_text(), re.M | re.S):
        yield "README.md", code


def compile_each(compiler, *flags):
    if not shutil.which(compiler):
        raise tap.Skip(f"there is no {compiler}")
    for place, text in examples():
        try:
            tap.run(compiler, *flags, *STRICT, *includes, input=text)
        except AssertionError as failure:
            raise AssertionError(f"an example in {place}: {failure}") from None


def examples_are_c17():
    compile_each("cc", "-x", "c", "-std=c17")


def examples_are_cxx17():
    compile_each("c++", "-x", "c++", "-std=c++17")


def examples_are_cxx20():
    compile_each("c++", "-x", "c++", "-std=c++20")


def every_example_is_found():
    marks = sum(header.read_text().count("@code") for header in headers)
    found = [place for place, _ in examples()]
    assert marks > 0 and found.count("README.md") > 0
    assert len(found) - found.count("README.md") == marks, f"{marks} marks, but {found}"


def code_in_comments_is_marked_as_an_example():
    for header in headers:
        line = CODE_LINE.search(EXAMPLE.sub("", header.read_text()))
        assert not line, f"{header.name} has code outside of @code: {line and line.group()}"


tap.main(examples_are_c17, examples_are_cxx17, examples_are_cxx20, every_example_is_found,
         code_in_comments_is_marked_as_an_example)
