#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public header compiles alone, as C99, C17 and C++17, without a warning.  usage: test_headers.py TOP"""
import re
import shutil
import sys

import tap
from public_headers import PublicHeaders

headers = PublicHeaders(sys.argv[1])


def alone():
    for header in headers.all:
        include = f"#include <weft/{header.name}>\n"
        yield header.name, f"{include}{include}int use;\n"


def headers_are_c99():
    headers.compile_each(alone(), "cc", "-x", "c", "-std=c99")


def headers_are_c17():
    headers.compile_each(alone(), "cc", "-x", "c", "-std=c17")


def headers_are_cxx17():
    headers.compile_each(alone(), "c++", "-x", "c++", "-std=c++17")


def configs_start_from_their_macros_in_both_languages():
    body = "#include <weft/weft.h>\nint main(void) { weft_world_config w = WEFT_WORLD_CONFIG_INIT; (void)w;" \
           " weft_comm_config c = WEFT_COMM_CONFIG_INIT; (void)c; weft_collective k = WEFT_COLLECTIVE_INIT; (void)k;" \
           " weft_stream s = WEFT_STREAM_HOST; (void)s; weft_work n = WEFT_WORK_NONE; (void)n; return 0; }\n"
    for compiler, flags in ("cc", ["-x", "c", "-std=c99"]), ("c++", ["-x", "c++", "-std=c++17"]):
        if shutil.which(compiler):
            headers.compile_each([("configs", body)], compiler, *flags)


def the_header_of_all_names_every_other():
    text = (headers.top / "libcomm/include/weft/weft.h").read_text()
    for header in headers.all:
        interop = header.name in ("weft.h", "api.h", "cuda.h", "nccl.h", "backend.h")
        assert interop or f"<weft/{header.name}>" in text, f"weft.h does not include {header.name}"


CALL = re.compile(r"^(?:WEFT_\w+ )*(?:static inline )?[\w ]+[\w*] ?\*?(weft_\w+)\(", re.M)


def every_call_says_its_contract():
    """Threads and blocking of each, and the errors of those whose result must be looked at; or those of another."""
    seen = 0
    for header in headers.all:
        text = header.read_text()
        for found in CALL.finditer(text):
            if not found[0].startswith(("WEFT_API", "WEFT_NODISCARD", "static inline")):
                continue
            seen += 1
            before = text[:found.start()].rstrip()
            comment = before[before.rindex("/*"):] if before.endswith("*/") else ""
            words = ["Threads:", "Blocks:"] + ["Errors:"] * ("WEFT_NODISCARD" in found[0])
            missing = [word for word in words if word not in comment]
            other = re.search(r"Contract as (weft_\w+)\(\)", comment)
            assert not missing or other, f"{header.name}: {found[1]}() does not say {' '.join(missing)}"
    assert seen > 200, seen


tap.main(headers_are_c99, headers_are_c17, headers_are_cxx17, configs_start_from_their_macros_in_both_languages,
         the_header_of_all_names_every_other, every_call_says_its_contract)
