#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the library exports is what its headers declare and its map lists.  usage: test_symbols.py TOP LIBRARY"""
import pathlib
import re
import sys

import tap

top, library = pathlib.Path(sys.argv[1]), sys.argv[2]


def declared():
    names = set()
    for header in top.glob("*/include/weft/*.h"):
        text = re.sub(r"/\*.*?\*/|^#.*?$", "", header.read_text(), flags=re.S | re.M)
        for declaration in re.findall(r"\bWEFT_API\b([^;]*);", text):
            names.add(re.findall(r"\b(weft_\w+)\s*\(", declaration)[0])
    return names


def mapped():
    text = re.sub(r"/\*.*?\*/", "", (top / "libcomm/weft.map").read_text(), flags=re.S)
    return set(re.findall(r"\b(weft_\w+);", text))


def exported():
    lines = tap.run("nm", "-D", "--defined-only", library).splitlines()
    return {line.split()[-1].split("@")[0] for line in lines if line.split()[-2] in "TDBRi"}


def same(what, got, want):
    assert got == want, f"{what}: too many: {sorted(got - want)}, missing: {sorted(want - got)}"


def the_map_lists_what_the_headers_declare():
    same("libcomm/weft.map", mapped(), declared())


def the_library_exports_what_the_map_lists():
    same("exports", exported(), mapped())


tap.main(the_map_lists_what_the_headers_declare, the_library_exports_what_the_map_lists)
