#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README.md and the pages in docs/ against the tree: links, names, lists of variables.  usage: test_docs.py TOP"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import tap
from pages import Pages

top = pathlib.Path(sys.argv[1]).resolve()
pages = Pages(top)
# Names of others in the environment: in C, text of capitals with a line below.
READ = re.compile(r'(?:getenv|weft__job_variable|read_number|read_slurm_host)\((?:environment, )?"([A-Z0-9_]+)"')


def links_lead_somewhere():
    for page in pages.all:
        for target, anchor in page.links():
            there = (page.path.parent / target).resolve() if target else page.path
            assert there.exists(), f"{page.path.name}: {target}"
            if anchor:
                linked, = (other for other in pages.all if other.path == there)
                assert anchor in linked.anchors(), f"{page.path.name}: {target}#{anchor}"


def every_page_is_in_the_table_of_the_readme():
    table = set(re.findall(r"^\| \[docs/(\w+)\.md\]\(docs/\1\.md\) \|", pages.readme.section("Pages"), re.M))
    assert table == {page.stem for page in (top / "docs").iterdir()}, table


def pages_are_short():
    for page in pages.all:
        lines = page.text.splitlines()
        assert len(lines) <= 350, f"{page.path.name} has {len(lines)} lines"
        long = [line for line in re.sub(r"^```.*?^```", "", page.text, flags=re.M | re.S).splitlines()
                if len(line) > 120 and not line.startswith("|")]
        assert not long, f"{page.path.name}: {long}"


def names_of_the_library_exist():
    headers = "".join(header.read_text() for header in top.glob("*/include/weft/*.h"))
    variables = (top / "libcomm/base/env.c").read_text()
    internal = "".join(path.read_text() for path in (top / "libcomm").rglob("*.[ch]"))
    for name in set(re.findall(r"\b(?:weft|WEFT)_\w+", pages.text)):
        known = internal if "__" in name else headers + variables
        assert re.search(rf"\b{name}\b", known), name


def variables_listed(title):
    rows = [line.split("|")[1] for line in pages["environment"].section(title).splitlines() if line.startswith("| `")]
    names = re.findall(r"`(\w+)`", "".join(rows))
    return set(names)


def every_variable_of_weft_is_listed_and_no_other():
    known = set(re.findall(r'\{\{"(WEFT_\w+)"', (top / "libcomm/base/env.c").read_text()))
    assert known == variables_listed("weft's own"), known ^ variables_listed("weft's own")


def every_variable_of_others_that_is_read_is_listed_and_no_other():
    found = set()
    for folder in "libcomm", "topology", "buckets", "p2p", "bench":
        for path in (top / folder).rglob("*.c"):
            text = path.read_text()
            found |= set(READ.findall(text))
            if path.name in ("launch.c", "module.c"):  # of tables
                found |= set(re.findall(r'"([A-Z]+(?:_[A-Za-z]+)+|RANK)"', text))
            if path.name == "job.c":
                found |= set(re.findall(r'"([A-Z]+(?:_[A-Za-z]+)+)"', text))
    found = {name for name in found if not name.startswith("WEFT_")}
    listed = variables_listed("Those of others")
    assert found == listed, f"read, not listed: {sorted(found - listed)}; listed, not read: {sorted(listed - found)}"


def the_tree_names_files():
    rows = re.findall(r"^\| \[(\w+)\]\(\w+\) \| (.*→.*) \|$", pages.readme.section("The tree"), re.M)
    assert len(rows) == 3, rows
    for folder, chain in rows:
        for name in chain.split(";")[0].split(" → "):
            assert (top / folder / f"{name}.c").exists(), f"{folder}/{name}.c"


def files_named_in_pages_exist():
    """`buckets/step.c`, also as `libcomm/*.c`."""
    for page in pages.all:
        for name in set(re.findall(r"`((?:libcomm|buckets|p2p|topology|bench|tests|docs)/[\w/.*-]+)`", page.text)):
            built = name.startswith("bench/") and "." not in name
            assert built or list(top.glob(name.rstrip("/"))), f"{page.path.name}: {name}"


# Heading of a list -> the header that says how many there are, the last of them, and the macro.
COUNTED = {
    "A new collective": ("libcomm/include/weft/collective.h", "WEFT_BARRIER", "WEFT_COLLECTIVE_KINDS"),
    "A new dtype": ("libcomm/include/weft/dtype.h", "WEFT_UINT8", "WEFT_DTYPES"),
    "A new schedule": ("p2p/include/weft/schedule.h", "WEFT_POLICY_INTERLEAVED", "WEFT_POLICIES"),
}


def stops(path, *first):
    """The files of this tree in which a compiler stops; None: something else keeps it from compiling."""
    folders = [top / folder for folder in ("libcomm", "topology", "buckets", "p2p", "bench", "tests")]
    includes = [f"-I{folder}" for each in folders for folder in (each, each / "include") if folder.exists()]
    done = subprocess.run(["cc", "-std=c17", "-D_GNU_SOURCE", "-DWEFT__SET=baseline", "-fsyntax-only",
                           "-fmax-errors=0", "-Werror=switch", *first, *includes, "-idirafter",
                           top / "tests/standin/include", path], capture_output=True, text=True)
    if "fatal error" in done.stderr:
        return None
    found = {pathlib.Path(name).resolve() for name in re.findall(r"^([^:\n]+):\d+:\d+: error", done.stderr, re.M)}
    return {str(name.relative_to(top)) for name in found}


def lists_of_what_to_change_are_those_that_the_compiler_gives():
    if not shutil.which("cc"):
        raise tap.Skip("there is no cc")
    for title, (header, last, many) in COUNTED.items():
        text = (top / header).read_text()
        count = int(re.search(rf"#define {many} (\d+)", text)[1])
        text = re.sub(rf"\b{last} = \d+", rf"\g<0>, WEFT_NEW = {count}", text)
        text = text.replace(f"#define {many} {count}", f"#define {many} {count + 1}")
        used = [path for folder in ("libcomm", "topology", "buckets", "p2p", "bench", "tests")
                for path in (top / folder).rglob("*.c") if re.search(rf"\b(?:{last}|{many})\b", path.read_text())]
        with tempfile.TemporaryDirectory(prefix="weft-docs-") as scratch:
            (pathlib.Path(scratch) / "weft").mkdir()
            (pathlib.Path(scratch) / "weft" / pathlib.Path(header).name).write_text(text)
            found = [stops(path, f"-I{scratch}") for path in used]
        marked = set(re.findall(r"`([\w/]+\.[ch])` \*", pages["contributing"].section(title)))
        # A library below is not here:
        unseen = {str(path.relative_to(top)) for path, files in zip(used, found) if files is None}
        assert set().union(*filter(None, found)) == marked - unseen, f"{title}: {found}"


def every_backend_is_listed():
    folders = {path.name for path in (top / "libcomm/backend").iterdir() if path.is_dir()} - {"net"}
    listed = set(re.findall(r"^\| `(\w+)` \|", pages["backends"].text, re.M))
    assert listed == folders | {"self"}, listed


tap.main(links_lead_somewhere, every_page_is_in_the_table_of_the_readme, pages_are_short, names_of_the_library_exist,
         every_variable_of_weft_is_listed_and_no_other, every_variable_of_others_that_is_read_is_listed_and_no_other,
         the_tree_names_files, files_named_in_pages_exist, every_backend_is_listed,
         lists_of_what_to_change_are_those_that_the_compiler_gives)
