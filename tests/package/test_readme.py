#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs and commands of README.md and of the pages in docs/ work.  usage: test_readme.py TOP BUILD"""
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
from pages import Pages

top, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
pages = Pages(top)
scratch = pathlib.Path(tempfile.mkdtemp(prefix="weft-readme-"))
# Commands that CI runs by themselves, since they take long.
RUN_ELSEWHERE = ("./bench/demo", "./tests/run", ".ci/run")
LAUNCHERS = ("torchrun", "mpirun", "srun")
LEFT_OUT = re.compile(r": built without (a CBLAS|hwloc)")


def shell(command):
    """Run a command as a user does who has installed weft, in a folder with the programs that the pages tell of."""
    library = installed.install(build, scratch)
    env = installed.environment(library, scratch)
    env["PATH"] = f"{installed.command(library, scratch)}:{env['PATH']}"
    # Here Open MPI may be root's, and cores may be few.
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
               PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")
    for trainer in "first.c", "plain.c", "parallel.c", "pipeline.c":
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


def commands_work(page):
    for command in (line.split("  #")[0].strip() for block in page.blocks("sh") for line in block.splitlines()):
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
        elif command.endswith(" ./first"):
            got = sorted(re.findall(r"rank \d of (\d: .*)", output))
            assert len(got) == int(got[0][0]) and set(got) == {f"{len(got)}: y = 3.0 x -1.0"}, f"{command}\n{output}"


def the_commands_of_the_readme_work():
    assert len(pages.readme.blocks("sh")) >= 3
    commands_work(pages.readme)


def the_commands_of_the_pages_work():
    assert sum(len(page.blocks("sh")) for page in pages.by_name.values()) >= 6
    commands_work(pages["trainer"])  # others run its programs
    for page in pages.by_name.values():
        if page is not pages["trainer"]:
            commands_work(page)


def a_trace_is_read():
    reader, = (code for code in pages["prof"].blocks("c") if "print_collectives" in code)
    first, = pages.readme.blocks("c")
    place = "    weft_adam_destroy(adam);\n"
    assert first.count(place) == 1
    (scratch / "reader.c").write_text(reader + first.replace(place, f"    (void)print_collectives(world, 0);\n{place}"))
    shell("cc -std=c17 -O2 reader.c $(pkg-config --cflags --libs weft) -o reader")
    output = shell("weft run -n 2 -- ./reader")
    times = re.findall(r": taken up after (\S+) us, under way (\S+) us, waited for (\S+) us$", output, re.M)
    assert len(times) > 100 and all(0 <= float(time) < 1e8 for each in times for time in each), output


def what_is_shown_of_trainers_is_what_they_are():
    folder = top / "bench/minimal"
    first, = pages.readme.blocks("c")
    assert (folder / "first.c").read_text().splitlines()[2:] == first.splitlines(), "copy it: bench/minimal/first.c"
    shown = re.fullmatch(r"--- plain\.c\n\+\+\+ parallel\.c\n(.*)", "".join(pages["trainer"].blocks("diff")), re.S)
    found = subprocess.run(["diff", "-U1", folder / "plain.c", folder / "parallel.c"], capture_output=True, text=True)
    assert shown and shown[1].splitlines() == found.stdout.splitlines()[2:], "copy it: diff -U1 plain.c parallel.c"


def keys_listed(what):
    row = re.search(rf"^\| {re.escape(what)} \| (.*) \|$", pages["command"].section("JSON"), re.M)
    assert row, what
    return re.findall(r"`(\w+)`", row[1].split(": lists of")[0])


def every_key_of_json_is_listed():
    shell("weft run -n 2 -- weft prof cost --pairs 2 --compute 1 --trace keys")
    for command, what in (
            ("perf api --rounds 1 --repeats 10", "`weft perf api`, a call"),
            ("perf behind -t 2 --large-bytes 1M --rounds 1", "`weft perf behind`, one object"),
            ("perf pipeline -t 2 -m 1 --forward 0.1 --message-bytes 4 --rounds 1", "`weft perf pipeline`, a way"),
            ("perf all_reduce -b 8 -e 8 -n 1 --rotate-bytes 1K", "`weft perf`, half a row"),
            ("perf overlap -t 2 --bytes 4K --rounds 1 --compute timed:1", "`weft perf overlap`, a phase"),
            ("prof cost --pairs 2 --compute 1", "`weft prof cost`, one object"),
            ("prof report keys", "`weft prof report`, one object"),
            ("topo --synthetic core:2", "`weft topo`, one object")):
        try:
            first, *_ = shell(f"weft {command} --json").splitlines()
        except AssertionError as failure:
            if LEFT_OUT.search(str(failure)):
                continue
            raise
        assert list(json.loads(first)) == keys_listed(what), first
    info = json.loads(shell("weft info --json"))
    assert [key for key in keys_listed("`weft info`, one object") if key in info] == list(info), info
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
    assert "`DIR/trace.<rank>.weft`" in pages["prof"].text
    for folder, bucket, many in ("whole", "", False), ("cut", "--ddp-bucket-size 50000", True):
        gpt(bucket, "--trace", folder)
        assert sorted(file.name for file in (scratch / folder).iterdir()) == ["trace.0.weft", "trace.1.weft"]
        labels = labels_of(scratch / folder / "trace.1.weft")
        reductions = [label for label in labels if re.fullmatch(r"set0 reduce \d+", label)]
        assert (len(reductions) > 1) == many and "set0 reduce 0" in reductions, labels


def every_subcommand_is_listed():
    table = pages.readme.section("The command")
    for listed, built in (
            (re.findall(r"^\| `weft (\w+)(?: \w+)?(?: -[^`]*)?` \|", table, re.M), "weft"),
            (re.findall(r"^\| `weft prof (\w+)` \|", table, re.M), "weft prof"),
            (re.findall(r"^\| `weft perf (\w+)` \|", pages["perf"].text, re.M), "weft perf")):
        row = r"^  weft perf (\w+) " if built == "weft perf" else r"^  (\w+) "
        there = set(re.findall(row, shell(f"{built} --help"), re.M))
        assert set(listed) - {"gpt"} == there - {"gpt"}, f"the table has {sorted(set(listed))}, {built} {sorted(there)}"


def every_flag_of_the_gpt_exists():
    try:
        known = shell("weft gpt --help")
    except AssertionError as failure:
        if LEFT_OUT.search(str(failure)):
            raise tap.Skip("built without a CBLAS") from None
        raise
    for flag in set(re.findall(r"--(?:ddp|overlap|distributed|html|json|trace)[\w-]*", pages.text)):
        assert re.search(rf"{flag}\b", known), flag


try:
    tap.main(the_commands_of_the_readme_work, the_commands_of_the_pages_work,
             what_is_shown_of_trainers_is_what_they_are, a_trace_is_read, every_key_of_json_is_listed,
             traces_are_where_it_says_and_the_default_bucket_holds_a_small_model, every_subcommand_is_listed,
             every_flag_of_the_gpt_exists)
finally:
    shutil.rmtree(scratch)
