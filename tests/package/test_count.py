#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tests/count makes of a log of meson: numbers on its last line, and causes before it.

usage: test_count.py TOP"""
import json
import pathlib
import subprocess
import sys
import tempfile

import tap

count = pathlib.Path(sys.argv[1]) / "tests/count"
PASSES = {"name": "weft:a / well", "stdout": "1..2\nok 1 - one\n# 0.10 s\nok 2 - two # SKIP why\n", "result": "OK"}


def counted(*tests):
    """Numbers and causes of a log of these."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
        for test in tests:
            print(json.dumps({"returncode": 1, "duration": 2.5, "command": ["./test", "x"], **test}), file=log)
        log.flush()
        done = subprocess.run([count, log.name], capture_output=True, text=True)
    numbers = done.stdout.strip()
    assert done.returncode == (" 0 failed" not in numbers), done
    return numbers, done.stderr.splitlines()


def subtests_are_counted_and_whole_tests_without_them():
    whole = {"name": "whole", "stdout": "no tap\n", "result": "OK"}
    assert counted(PASSES, whole) == ("2 passed, 0 failed, 1 skipped", [])
    ended_early = {"name": "early", "stdout": "1..2\nok 1 - one\n", "result": "ERROR"}
    assert counted(PASSES, ended_early)[0] == "2 passed, 1 failed, 1 skipped"


def a_failed_subtest_is_told_with_what_it_said_and_nothing_of_the_others():
    out = "1..3\n# of one\nok 1 - one\n# 0.10 s\n# a.c:7: no\nnot ok 2 - two\n# 0.20 s\n# of three\nok 3 - three\n"
    test = {"name": "weft:a / b", "stdout": out, "stderr": "weft error: so\n\n", "result": "ERROR"}
    numbers, causes = counted(PASSES, test)
    assert numbers == "3 passed, 1 failed, 1 skipped", numbers
    assert causes == ["== weft:a / b: error, code 1, 2.5 s: ./test x", "# a.c:7: no", "not ok 2 - two",
                      "weft error: so"], causes


def long_output_is_cut_to_its_end_but_a_sanitizers_to_its_beginning():
    noise = "".join(f"line {i}\n" for i in range(100))
    plain = {"name": "plain", "stdout": noise, "result": "TIMEOUT"}
    _, causes = counted(plain)
    assert len(causes) <= 25 and causes[-1] == "line 99" and causes[1] == "...", causes
    sanitized = {"name": "asan", "stdout": "", "stderr": noise + "==1==ERROR: AddressSanitizer: so\n" + noise,
                 "result": "ERROR"}
    _, causes = counted(sanitized)
    assert len(causes) <= 25 and causes[1] == "==1==ERROR: AddressSanitizer: so" and causes[2] == "line 0", causes
    _, causes = counted(*[plain] * 30)
    assert sum(line.startswith("== plain") for line in causes) == 30 and len(causes) <= 120, len(causes)


tap.main(subtests_are_counted_and_whole_tests_without_them,
         a_failed_subtest_is_told_with_what_it_said_and_nothing_of_the_others,
         long_output_is_cut_to_its_end_but_a_sanitizers_to_its_beginning)
