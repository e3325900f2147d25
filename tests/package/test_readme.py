#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README is true: its program runs, its commands work, its tables are complete.  usage: test_readme.py TOP BUILD"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import tap

top, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
text = (top / "README.md").read_text()
weft = build / "bench" / "weft"
# Commands that CI runs by themselves, since they take long.
RUN_ELSEWHERE = ("./bench/demo", "./tests/run")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def command_exists():
    tap.not_sanitized()
    if not weft.exists():
        raise tap.Skip("this build has no command")


def the_first_program_runs_as_processes_and_as_threads():
    command_exists()
    with tempfile.TemporaryDirectory(prefix="weft-readme-") as scratch:
        source, program = pathlib.Path(scratch) / "first.c", pathlib.Path(scratch) / "first"
        source.write_text(blocks("c")[0])
        includes = [f"-I{folder}" for folder in top.glob("*/include")]
        strict = ["-std=c17", "-Wall", "-Wextra", "-pedantic", "-Werror"]
        tap.run("cc", *strict, *includes, source, f"-L{build}", "-lweft", "-o", program)
        env = {**os.environ, "LD_LIBRARY_PATH": str(build)}
        for how in [], ["--threads"]:
            lines = tap.run(weft, "run", "-n", "4", "--prefix", "none", *how, "--", program, env=env).split("\n")
            want = [f"rank {rank} of 4: 6" for rank in range(4)]
            assert sorted(line for line in lines if line) == want, lines


def the_commands_work():
    command_exists()
    commands = [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    assert len(commands) > 4
    for command in commands:
        words = shlex.split(command)
        if words[0] in RUN_ELSEWHERE:
            assert os.access(top / words[0], os.X_OK), words[0]
            continue
        try:
            tap.run(*[str(weft) if word == "./build/bench/weft" else word for word in words], cwd=top)
        except AssertionError as failure:
            if not re.search(r": built without (a CBLAS|hwloc)", str(failure)):
                raise
            print(f"# left out: {command}")


def every_subcommand_is_listed():
    command_exists()
    listed = set(re.findall(r"^\| `weft (\w+)", text, re.M))
    built = set(re.findall(r"^  (\w+) ", tap.run(weft, "--help"), re.M))
    assert listed - {"gpt"} == built - {"gpt"}, f"README {sorted(listed)}, command {sorted(built)}"


def every_variable_is_listed():
    known = set(re.findall(r'\{\{"(WEFT_\w+)"', (top / "libcomm/base/env.c").read_text()))
    table = text[text.index("## Environment"):text.index("## Building")]
    assert set(re.findall(r"`(WEFT_\w+)`", table)) == known, known


def its_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (top / target).exists(), target


tap.main(the_first_program_runs_as_processes_and_as_threads, the_commands_work, every_subcommand_is_listed,
         every_variable_is_listed, its_links_lead_somewhere)
