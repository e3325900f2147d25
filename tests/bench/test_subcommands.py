#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One rule for every subcommand: help, wrong words, JSON, and options in any order.

usage: test_subcommands.py TOP WEFT"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "tests" / "package"))
import tap  # noqa: E402

weft = sys.argv[2]
scratch = pathlib.Path(tempfile.mkdtemp(prefix="weft-subcommands-"))
TRACES = str(scratch / "traces")

# Every subcommand: options with which it takes no time, what it takes besides them (None: a program, which is not tried
# here), and whether it writes JSON.
QUICK = {
    "gpt": (["--plan", "--world-size", "2"], [], True),
    "hosts": (None, None, False),
    "info": (["-t", "2"], [], True),
    "perf": (["-b", "8", "-e", "8", "-n", "1", "--rotate-bytes", "1K"], ["all_reduce"], True),
    "perf api": (["--rounds", "1", "--repeats", "10"], [], True),
    "perf behind": (["-t", "2", "--large-bytes", "1M", "--rounds", "1"], [], True),
    "perf conform": (["--in", "threads", "--only", "no such case"], [], False),
    "perf limits": (["-b", "8", "-e", "8", "-n", "1", "--rotate-bytes", "1K"], ["all_gather"], True),
    "perf overlap": (["-t", "2", "--bytes", "4K", "--rounds", "1", "--compute", "timed:1"], [], True),
    "perf pipeline": (["-t", "2", "-m", "1", "--forward", "0.1", "--message-bytes", "4", "--rounds", "1"], [], True),
    "prof cost": (["--pairs", "2", "--compute", "1"], [], True),
    "prof html": ([], [TRACES], False),
    "prof report": ([], [TRACES], True),
    "prof trace": ([], [TRACES], False),
    "run": (None, None, False),
    "schedule": (["--policy", "1f1b", "-p", "2", "-m", "2"], [], False),
    "topo": (["--synthetic", "core:2"], [], True),
}
WITH_JSON = [name for name, (_, _, has_json) in QUICK.items() if has_json]


def run(*words):
    """What `weft` with these words comes to; None: it is not in this build."""
    done = subprocess.run([weft, *words], capture_output=True, text=True, cwd=scratch, timeout=60)
    done.words = " ".join(words)
    return None if "built without" in done.stderr else done


def every_subcommand_is_in_the_table():
    there = set()
    for above, row in ("", r"^  (\w+) "), ("prof ", r"^  (\w+) "), ("perf ", r"^  weft perf (\w+) "):
        there |= {above + name for name in re.findall(row, run(*above.split(), "--help").stdout, re.M)}
    assert there - {"prof"} == set(QUICK), there


def help_is_a_result_wherever_it_stands():
    for name, (words, operands, _) in QUICK.items():
        for line in [["--help"], [*(words or []), "--help"], [*(operands or []), "--help"]]:
            done = run(*name.split(), *line)
            if done is None:
                continue
            assert done.returncode == 0 and not done.stderr, f"{done.words}: {done.returncode} {done.stderr}"
            assert re.search(r"^usage: weft ", done.stdout, re.M) and re.search(r"^  --help  ", done.stdout, re.M), done


def wrong_words_are_one_line_on_stderr_and_code_2():
    assert run().returncode == run("prof").returncode == 2 and run().stdout == run("prof").stdout == ""
    for name, (words, operands, _) in QUICK.items():
        lines = [["--no-such-option"], [*(words or []), *(operands or []), "--no-such-option"]]
        if words is not None:
            lines += [[*words, *operands, "no-such-word"]]
        for line in lines:
            done = run(*name.split(), *line)
            if done is None:
                continue
            assert done.returncode == 2 and not done.stdout, f"{done.words}: {done.returncode} {done.stdout}"
            complaint = re.fullmatch(r"weft: .*no-such-\w+.*\n", done.stderr)
            assert complaint, f"{done.words}: {done.stderr}"


def keys(text):
    return [list(json.loads(line)) for line in text.splitlines()]


def json_alone_is_standard_output_wherever_it_stands():
    for name in WITH_JSON:
        words, operands, _ = QUICK[name]
        found = []
        for line in ([*operands, *words, "--json"], ["--json", *operands, *words], [*words, "--json", *operands],
                     [*operands, "--json", *words], [*words, *operands, "--json", "-"],
                     ["--json=-", *words, *operands]):
            done = run(*name.split(), *line)
            if done is None:
                break
            assert done.returncode == 0, f"{done.words}: {done.returncode} {done.stderr}"
            found.append(keys(done.stdout))
        assert all(each == found[0] and each for each in found), f"{name}: {found}"


def json_into_a_file_leaves_the_text_where_it_was():
    for name in WITH_JSON:
        words, operands, _ = QUICK[name]
        alone = run(*name.split(), *words, *operands, "--json")
        for line in [*words, *operands, "--json", "FILE"], ["--json", "FILE", *words, *operands], \
                ["--json=FILE", *operands, *words]:
            (scratch / "FILE").unlink(missing_ok=True)
            done = run(*name.split(), *line)
            if done is None:
                break
            assert done.returncode == 0, f"{done.words}: {done.returncode} {done.stderr}"
            assert keys((scratch / "FILE").read_text()) == keys(alone.stdout), done.words
            assert done.stdout and not done.stdout.startswith("{"), f"{done.words}: {done.stdout}"


def json_that_cannot_be_written_is_code_1_and_says_where():
    for name in WITH_JSON:
        words, operands, _ = QUICK[name]
        for path, why in ("/no/such/folder", "No such file or directory"), ("/dev/full", ""):
            done = run(*name.split(), *words, *operands, "--json", path)
            if done is None:
                break
            assert done.returncode == 1, f"{done.words}: {done.returncode} {done.stderr}"
            assert f"weft: cannot write '{path}': {why}" in done.stderr, f"{done.words}: {done.stderr}"


def what_is_written_instead_of_the_text_is_the_same_in_a_file():
    for words, option in ((["schedule", "--policy", "1f1b", "-p", "2", "-m", "2"], "--csv"),
                          (["schedule", "--policy", "1f1b", "-p", "2", "-m", "2"], "--text"),
                          (["topo", "--synthetic", "core:2"], "--svg"), (["prof", "trace", TRACES], "--out")):
        alone, into = run(*words, option), run(*words, option, "FILE")
        if alone is not None:
            assert alone.stdout == (scratch / "FILE").read_text() and not into.stdout, f"{into.words}: {into.stdout}"


def two_results_do_not_share_a_file():
    for line in (["topo", "--synthetic", "core:2", "--json", "--svg"], ["perf", "all_reduce", "--json", "--csv"],
                 ["perf", "overlap", "--sweep", "--json", "x", "--svg", "x"],
                 ["gpt", "--mock-data", "--json", "--html"]):
        done = run(*line)
        if done is not None:
            where = "x" if "x" in line else "standard output"
            told = done.stderr.endswith(f" cannot both be {where}\n")
            assert done.returncode == 2 and told, f"{done.words}: {done.stderr}"


try:
    run("prof", "cost", "--pairs", "2", "--compute", "1", "--trace", TRACES)
    tap.main(every_subcommand_is_in_the_table, help_is_a_result_wherever_it_stands,
             wrong_words_are_one_line_on_stderr_and_code_2, json_alone_is_standard_output_wherever_it_stands,
             json_into_a_file_leaves_the_text_where_it_was, json_that_cannot_be_written_is_code_1_and_says_where,
             what_is_written_instead_of_the_text_is_the_same_in_a_file, two_results_do_not_share_a_file)
finally:
    shutil.rmtree(scratch)
