#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folders see only what is below them, and foreign headers stay where they belong.  usage: test_layers.py TOP"""
import pathlib
import re
import sys

import tap

top = pathlib.Path(sys.argv[1])
SIBLINGS = ("buckets", "p2p", "topology")
# Foreign header -> the only places that may include it.
FOREIGN = {
    r"hwloc\.h|hwloc/": ["topology/machine_hwloc.c"],
    r"cblas\.h|openblas": ["bench/gpt/host/gemm_cblas.c"],
    r"mpi\.h": ["libcomm/backend/mpi/"],
    r"ucp/|ucs/|uct/": ["libcomm/backend/ucx/"],
    r"nccl\.h": ["libcomm/backend/nccl/", "libcomm/include/weft/nccl.h"],
    r"cuda|cublas": ["libcomm/device/cuda/", "libcomm/backend/nccl/", "libcomm/include/weft/cuda.h",
                     "bench/gpt/cuda/"],
}


def sources(*folders):
    for folder in folders:
        yield from (path for path in sorted((top / folder).rglob("*.[ch]")))


def includes(path):
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.M)


def owner(name):
    """The folder whose public or internal header this is, or None."""
    for folder in ("libcomm",) + SIBLINGS:
        if (top / folder / "include" / name).exists() or (top / folder / name).exists():
            return folder
    return None


def libcomm_knows_nothing_of_the_folders_above():
    for path in sources("libcomm"):
        for name in includes(path):
            assert path.name == "weft.h" or owner(name) not in SIBLINGS, f"{path.relative_to(top)} includes {name}"


def siblings_do_not_see_each_other():
    for folder in SIBLINGS:
        for path in sources(folder):
            for name in includes(path):
                assert owner(name) in (None, folder, "libcomm"), f"{path.relative_to(top)} includes {name}"


def siblings_use_only_the_public_calls_and_the_base_of_libcomm():
    for path in sources(*SIBLINGS):
        for name in includes(path):
            below = owner(name) == "libcomm" and not (path.parent / name).exists()
            allowed = name.startswith(("weft/", "base/", "device/"))
            assert allowed or not below, f"{path.relative_to(top)} includes {name}"


def the_command_uses_public_headers_only():
    for path in sources("bench"):
        for name in includes(path):
            internal = owner(name) and not name.startswith("weft/") and not (path.parent / name).exists()
            if name == "device/cuda/kernel.h":  # how kernels are written, here and there
                continue
            assert not internal or (top / "bench" / name).exists(), f"{path.relative_to(top)} includes {name}"


def foreign_headers_stay_where_they_belong():
    for path in sources("libcomm", "bench", *SIBLINGS):
        place = str(path.relative_to(top))
        for name in includes(path):
            for pattern, homes in FOREIGN.items():
                if re.match(pattern, name):
                    assert any(place.startswith(home) for home in homes), f"{place} includes {name}"


def every_file_says_its_licence_and_what_it_is_for():
    for path in sources("libcomm", "bench", "tests", *SIBLINGS):
        lines = path.read_text().splitlines()
        assert lines and lines[0] == "/* SPDX-License-Identifier: Apache-2.0 */", f"{path.relative_to(top)}: first line"
        says = len(lines) > 1 and lines[1].startswith(("/* ", "/** @file"))
        assert says, f"{path.relative_to(top)}: no first comment"


tap.main(libcomm_knows_nothing_of_the_folders_above, siblings_do_not_see_each_other,
         siblings_use_only_the_public_calls_and_the_base_of_libcomm,
         the_command_uses_public_headers_only, foreign_headers_stay_where_they_belong,
         every_file_says_its_licence_and_what_it_is_for)
