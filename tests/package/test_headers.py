#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public header compiles alone, as C99, C17 and C++17, without a warning.  usage: test_headers.py TOP"""
import pathlib
import shutil
import subprocess
import sys

import tap

STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]

top = pathlib.Path(sys.argv[1])
headers = sorted(top.glob("*/include/weft/*.h"))
includes = [f"-I{folder}" for folder in sorted(top.glob("*/include"))]


def compile_each(compiler, *flags):
    if not shutil.which(compiler):
        raise tap.Skip(f"there is no {compiler}")
    assert headers, "no public headers"
    for header in headers:
        done = subprocess.run([compiler, *flags, *STRICT, *includes, "-"],
                              input=f"#include <weft/{header.name}>\n#include <weft/{header.name}>\nint use;\n",
                              capture_output=True, text=True)
        assert done.returncode == 0, f"{header.name}: {done.stderr}"


def headers_are_c99():
    compile_each("cc", "-x", "c", "-std=c99")


def headers_are_c17():
    compile_each("cc", "-x", "c", "-std=c17")


def headers_are_cxx17():
    compile_each("c++", "-x", "c++", "-std=c++17")


def configs_start_from_their_macros_in_both_languages():
    body = "#include <weft/weft.h>\nint main(void) { weft_world_config w = WEFT_WORLD_CONFIG_INIT; (void)w;" \
           " weft_comm_config c = WEFT_COMM_CONFIG_INIT; (void)c; weft_collective k = WEFT_COLLECTIVE_INIT; (void)k;" \
           " weft_stream s = WEFT_STREAM_HOST; (void)s; weft_work n = WEFT_WORK_NONE; (void)n; return 0; }\n"
    for compiler, flags in ("cc", ["-x", "c", "-std=c99"]), ("c++", ["-x", "c++", "-std=c++17"]):
        if shutil.which(compiler):
            command = [compiler, *flags, *STRICT, *includes, "-"]
            done = subprocess.run(command, input=body, capture_output=True, text=True)
            assert done.returncode == 0, f"{compiler}: {done.stderr}"


def the_header_of_all_names_every_other():
    text = (top / "libcomm/include/weft/weft.h").read_text()
    for header in headers:
        interop = header.name in ("weft.h", "api.h", "cuda.h", "nccl.h", "backend.h")
        assert interop or f"<weft/{header.name}>" in text, f"weft.h does not include {header.name}"


tap.main(headers_are_c99, headers_are_c17, headers_are_cxx17, configs_start_from_their_macros_in_both_languages,
         the_header_of_all_names_every_other)
