#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every call that returns a weft_result answers NULL as weft/api.h says.  usage: test_null.py TOP LIBRARY"""
import ctypes
import os
import re
import signal
import sys

import tap
from public_headers import PublicHeaders

headers = PublicHeaders(sys.argv[1])
CALL = re.compile(r"WEFT_API (?:WEFT_NODISCARD )?weft_result (weft_\w+)\(([^;]*)\);")
E_INVALID = -1


class Stream(ctypes.Structure):
    _fields_ = [("handle", ctypes.c_void_p), ("kind", ctypes.c_uint64)]


class Work(ctypes.Structure):
    _fields_ = [("value", ctypes.c_uint64)]


def calls():
    for header in headers.all:
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        if header.name != "backend.h":  # for backends, which have what they were given
            yield from CALL.findall(text)


def value(declared, number):
    """NULL for all that is pointed to; nothing, or @number, for what is not."""
    by_value = {"weft_stream": Stream(), "weft_work": Work(), "float": ctypes.c_float(number),
                "double": ctypes.c_double(number)}
    kind = declared.split()[0]
    if "*" in declared or kind == "weft_rank_function":
        return ctypes.c_void_p()
    return by_value.get(kind, ctypes.c_uint64(number))


def answer(library, name, arguments):
    """What the call returned; or the signal of which it died, in a process of its own."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(20)
        os._exit(getattr(library, name)(*arguments) & 0xff)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    code = os.WEXITSTATUS(status)
    return code - 256 if code > 127 else code


def null_is_answered_by_every_call_with_a_result():
    tap.not_sanitized()
    library = ctypes.CDLL(sys.argv[2])
    seen, wrong = 0, []
    for name, arguments in calls():
        seen += 1
        for number in 0, 1:
            got = answer(library, name, [value(a, number) for a in arguments.split(",")])
            if got != E_INVALID:
                wrong.append(f"{name}(NULL, {number}): {got}")
    assert seen > 80, seen
    assert not wrong, "\n".join(wrong)


tap.main(null_is_answered_by_every_call_with_a_result)
