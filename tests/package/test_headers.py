#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public header compiles alone, as C99, C17 and C++17, without a warning.  usage: test_headers.py TOP"""
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


tap.main(headers_are_c99, headers_are_c17, headers_are_cxx17, configs_start_from_their_macros_in_both_languages,
         the_header_of_all_names_every_other)
