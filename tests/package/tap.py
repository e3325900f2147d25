# SPDX-License-Identifier: Apache-2.0
"""The little of TAP that the package tests need: each function whose name is a sentence is a test."""
import os
import subprocess
import sys


class Skip(Exception):
    """Raised with the reason."""


def not_sanitized():
    """For tests that build programs as users do."""
    if os.environ.get("WEFT_TEST_SANITIZED"):
        raise Skip("built with a sanitizer")


def run(*command, **options):
    """Run a command that must succeed; its output is the message if not. Code 77: the machine does not permit it."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode == 77:
        raise Skip(done.stderr.strip())
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def main(*tests):
    print(f"1..{len(tests)}")
    failed = 0
    for number, test in enumerate(tests, 1):
        try:
            test()
            print(f"ok {number} - {test.__name__}", flush=True)
        except Skip as reason:
            print(f"ok {number} - {test.__name__} # SKIP {reason}", flush=True)
        except AssertionError as failure:
            failed += 1
            for line in str(failure).splitlines():
                print(f"# {line}")
            print(f"not ok {number} - {test.__name__}", flush=True)
    sys.exit(failed > 0)
