#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README is true: its programs and commands work, its lists are complete.  usage: test_readme.py TOP BUILD"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import installed
import tap

top, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
text = (top / "README.md").read_text()
scratch = pathlib.Path(tempfile.mkdtemp(prefix="weft-readme-"))
# Commands that CI runs by themselves, since they take long.
RUN_ELSEWHERE = ("./bench/demo", "./tests/run")
LAUNCHERS = ("torchrun", "mpirun", "srun")
LEFT_OUT = re.compile(r": built without (a CBLAS|hwloc)")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def section(title):
    return text[text.index(f"\n## {title}"):].split("\n## ")[1]


def shell(command):
    """Run a command as a user does who has installed weft, in a folder with the README's programs."""
    library = installed.install(build, scratch)
    env = installed.environment(library, scratch)
    env["PATH"] = f"{installed.command(library, scratch)}:{env['PATH']}"
    # Here Open MPI may be root's, and cores may be few.
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
               PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")
    (scratch / "first.c").write_text(blocks("c")[0])
    for trainer in "plain.c", "parallel.c":
        shutil.copy(top / "bench/minimal" / trainer, scratch)
    return tap.run("bash", "-c", command, cwd=scratch, env=env)


def gpt(*words):
    """`weft gpt`, on a model that takes no time."""
    try:
        return shell(" ".join(["weft run -n 2 --prefix none -- weft gpt --num-layers 1 --train-iters 1", *words]))
    except AssertionError as failure:
        if LEFT_OUT.search(str(failure)):
            raise tap.Skip("built without a CBLAS") from None
        raise


def can_run(command):
    words = command.split()
    if words[0] in RUN_ELSEWHERE:
        assert os.access(top / words[0], os.X_OK), words[0]
        return False
    if not shutil.which(words[0]) and words[0] in LAUNCHERS:
        return False
    try:  # some packages of torchrun start nothing at all
        return words[0] not in LAUNCHERS or shell(command.replace("./first", "true")) is not None
    except AssertionError:
        return False


def the_commands_work():
    commands = [line.split("  #")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    assert len(commands) > 10
    for command in commands:
        try:
            output = shell(command) if can_run(command) else None
        except AssertionError as failure:
            if not LEFT_OUT.search(str(failure)):
                raise
            output = None
        except tap.Skip:
            output = None
        if output is None:
            print(f"# left out: {command}")
        elif command.endswith("./first"):
            got = sorted(re.findall(r"rank \d of 4: .*", output))
            assert got == [f"rank {rank} of 4: 6" for rank in range(4)], f"{command}\n{output}"


def a_trace_is_read():
    print_it = "    (void)print_collectives(world, 0);\n"
    first = blocks("c")[0].replace("    weft_comm_destroy", print_it + "    weft_comm_destroy")
    (scratch / "reader.c").write_text(blocks("c")[1] + first)
    shell("cc -std=c17 -O2 reader.c $(pkg-config --cflags --libs weft) -o reader")
    output = shell("weft run -n 2 -- ./reader")
    times = re.findall(r": taken up after (\S+) us, under way (\S+) us, waited for (\S+) us$", output, re.M)
    assert len(times) == 2 and all(0 <= float(time) < 1e8 for each in times for time in each), output


def the_difference_shown_is_that_of_the_two_trainers():
    folder = top / "bench/minimal"
    shown = re.fullmatch(r"--- plain\.c\n\+\+\+ parallel\.c\n(.*)", "".join(blocks("diff")), re.S)
    found = subprocess.run(["diff", "-U1", folder / "plain.c", folder / "parallel.c"], capture_output=True, text=True)
    assert shown and shown[1].splitlines() == found.stdout.splitlines()[2:], "copy it: diff -U1 plain.c parallel.c"


def every_subcommand_is_listed():
    listed = set(re.findall(r"^\| `weft (\w+)(?: \w+)?(?: -[^`]*)?` \|", section("The command"), re.M))
    built = set(re.findall(r"^  (\w+) ", shell("weft --help"), re.M))
    assert listed - {"gpt"} == built - {"gpt"}, f"README {sorted(listed)}, command {sorted(built)}"


def keys_listed(what):
    row = re.search(rf"^\| {re.escape(what)} \| (.*) \|$", section("Measuring"), re.M)
    assert row, what
    return re.findall(r"`(\w+)`", row[1])


def every_key_of_the_reports_is_listed():
    call, *_ = shell("weft perf api --rounds 1 --repeats 10 --json -").splitlines()
    assert list(json.loads(call)) == keys_listed("`weft perf api`, a call"), call
    row, *_ = shell("weft perf behind -t 2 --large-bytes 1M --rounds 1 --json -").splitlines()
    assert list(json.loads(row)) == keys_listed("`weft perf behind`, one object"), row
    way, *_ = shell("weft perf pipeline -t 2 -m 1 --forward 0.1 --message-bytes 4 --rounds 1 --json -").splitlines()
    assert list(json.loads(way)) == keys_listed("`weft perf pipeline`, a way"), way
    half, *_ = shell("weft perf all_reduce -b 8 -e 8 -n 1 --rotate-bytes 1K --json -").splitlines()
    assert list(json.loads(half)) == keys_listed("`weft perf`, half a row"), half
    shell("weft run -n 2 -- weft prof cost --pairs 2 --compute 1 --trace keys")
    report = json.loads(shell("weft prof report keys --json"))
    assert list(report) == keys_listed("`weft prof report`, one object"), report
    phase, *_ = shell("weft perf overlap -t 2 --bytes 4K --rounds 1 --compute timed:1 --json -").splitlines()
    assert list(json.loads(phase)) == keys_listed("`weft perf overlap`, a phase"), phase
    step, end = map(json.loads, gpt("--json", "-").splitlines())
    assert list(step) == keys_listed("`weft gpt`, a step"), step
    assert list(end["summary"]) == keys_listed("`weft gpt`, at the end, in `summary`"), end
    plan = json.loads(shell("weft gpt --plan --json"))
    assert list(plan) == keys_listed("`weft gpt --plan`"), plan


def labels_of(trace):
    """The texts of the label table, by the format in weft/trace.h."""
    data = trace.read_bytes()
    magic, version, header, record, capacity, labels, label = struct.unpack_from("<Q6I", data)
    assert (magic, version) == (0x3130656361725457, 2), f"{magic:x} {version}"
    assert len(data) > header + labels * label + capacity * record
    texts = [data[header + i * label:header + (i + 1) * label] for i in range(labels)]
    assert all(text.rstrip(b"\0").isascii() and b"\0" not in text.rstrip(b"\0") for text in texts)
    return [text.rstrip(b"\0").decode() for text in texts]


def traces_are_where_it_says_and_the_default_bucket_holds_a_small_model():
    assert "`DIR/trace.<rank>.weft`" in text
    for folder, bucket, many in ("whole", "", False), ("cut", "--ddp-bucket-size 50000", True):
        gpt(bucket, "--trace", folder)
        assert sorted(file.name for file in (scratch / folder).iterdir()) == ["trace.0.weft", "trace.1.weft"]
        labels = labels_of(scratch / folder / "trace.1.weft")
        reductions = [label for label in labels if re.fullmatch(r"set0 reduce \d+", label)]
        assert (len(reductions) > 1) == many and "set0 reduce 0" in reductions, labels


def every_variable_is_listed():
    known = set(re.findall(r'\{\{"(WEFT_\w+)"', (top / "libcomm/base/env.c").read_text()))
    rows = [line.split("|")[1] for line in section("Environment").splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(WEFT_\w+)`", "".join(rows))) == known, known


def the_names_of_the_library_exist():
    headers = "".join(header.read_text() for header in top.glob("*/include/weft/*.h"))
    variables = (top / "libcomm/base/env.c").read_text()
    for name in set(re.findall(r"\b(?:weft|WEFT)_\w+", text)):
        assert re.search(rf"\b{name}\b", headers + variables), name


def every_flag_of_the_gpt_exists():
    try:
        known = shell("weft gpt --help")
    except AssertionError as failure:
        if LEFT_OUT.search(str(failure)):
            raise tap.Skip("built without a CBLAS") from None
        raise
    for flag in set(re.findall(r"--(?:ddp|overlap|distributed|html|json|trace)[\w-]*", text)):
        assert re.search(rf"{flag}\b", known), flag


def the_tree_names_files():
    rows = re.findall(r"^\| \[(\w+)\]\(\w+\) \| (.*→.*) \|$", section("The tree"), re.M)
    assert len(rows) == 3, rows
    for folder, chain in rows:
        for name in chain.split(";")[0].split(" → "):
            assert (top / folder / f"{name}.c").exists(), f"{folder}/{name}.c"


def its_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (top / target).exists(), target


try:
    tap.main(the_commands_work, the_difference_shown_is_that_of_the_two_trainers, a_trace_is_read,
             every_subcommand_is_listed, every_key_of_the_reports_is_listed,
             traces_are_where_it_says_and_the_default_bucket_holds_a_small_model, every_variable_is_listed,
             the_names_of_the_library_exist, every_flag_of_the_gpt_exists, the_tree_names_files,
             its_links_lead_somewhere)
finally:
    shutil.rmtree(scratch)
