#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`bench/gpu/check` makes its table, and tells what fails.  usage: test_gpu_check.py CHECK BUILD [all]

all: nothing but every part from start to end, which takes a minute."""
import os
import re
import runpy
import subprocess
import sys

import tap

check, build = sys.argv[1:3]
modules = os.environ["WEFT_MODULE_PATH"]


def run(*options, **env):
    done = subprocess.run([check, "--build", build, *options], capture_output=True, text=True, timeout=240,
                          env={**os.environ, **env})
    return done.returncode, done.stdout + done.stderr


def a_shape_is_trained_on_the_stand_in():
    code, text = run("--part", "speed", "--shape", "tiny", "--steps", "2", "--modules", modules)
    assert code == 0 and re.search(r"speed +tiny +\d+ tokens/s +0.0% of the bf16 peak", text), text


def operations_are_timed_and_messages_run_beside_a_backward():
    code, text = run("--part", "kernels", "--shape", "tiny", "--modules", modules, "--ms", "1", "--message", "64k")
    assert code == 0, text
    rows = re.findall(r"kernels +(\S.*?) {2,}(\d+) x ([\d.]+) ms = ([\d.]+) ms +([\d.]+)% of a microbatch", text)
    assert len(rows) == 27 and abs(sum(float(row[4]) for row in rows) - 100) < 2, text
    times = {name: int(times) for name, times, *_ in rows}
    assert times["qkv"] == 2 and times["norm"] == 5 and times["logits"] == 1, times  # of two layers
    assert re.search(r"NCCL with one rank +8192 values +right", text), text
    beside = r"messages, backward +[\d.]+ ms, [\d.]+ ms, both [\d.]+ ms +-?\d+% of the shorter hidden"
    assert re.search(beside, text), text


def the_end_is_a_table():
    code, text = run("--part", "speed", "--part", "kernels", "--shape", "tiny", "--steps", "1", "--modules", modules,
                     "--ms", "1", "--message", "64k")
    assert code == 0, text
    head, _, lines = text.rpartition("\n\n")
    assert re.search(r"\d{4}-\d\d-\d\d: a stand-in for a GPU, weft \S+$", head), text
    rows = [line.split(" | ") for line in lines.splitlines()[2:]]
    assert [row[0] for row in rows] == ["| speed"] + 3 * ["| kernels"], lines
    assert [row[1] for row in rows] == ["tiny", "all of them", "NCCL with one rank", "messages, backward"], lines


def every_part_runs_from_start_to_end():
    parts = ["values", "speed", "kernels"]
    sources = subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], capture_output=True, text=True).stdout
    if ".cu.o:" in sources:
        parts.append("facts")
    words = [word for part in parts for word in ("--part", part)]
    code, text = run(*words, "--shape", "tiny", "--steps", "2", "--modules", modules, "--ms", "1", "--message", "64k")
    assert code == 0 and "FAILED" not in text, text
    told = [line.split()[2] for line in text.splitlines() if re.match(r" *\d+ s  ", line)]
    assert list(dict.fromkeys(told)) == parts and told.count("values") == 10, text
    seconds = int(re.findall(r"^ *(\d+) s  ", text, re.M)[-1])
    print(f"# {len(told)} rows, {seconds} s")
    assert "facts" not in parts or told.count("facts") >= 20, text


def a_part_ends_when_its_time_is_over():
    names = runpy.run_path(check)
    names["Clock"].give(-1)
    try:
        names["output_of"](["true"], 60)
    except names["Failed"] as failure:
        assert "its time is over" in str(failure)
        names["Clock"].give(0.2)
        try:
            names["output_of"](["sleep", "60"], 60)
        except names["Failed"] as late:
            assert "sleep did not end in 0 s" in str(late)
            return
    assert False, "it went on"


def all_parts_but_torch_fit_eight_minutes():
    seconds = runpy.run_path(check)["SECONDS"]
    assert sum(seconds.values()) - seconds["torch"] <= 480 and seconds["values"] <= 180, seconds
    assert seconds["speed"] + seconds["kernels"] <= 240, seconds


def a_part_that_fails_is_told():
    code, text = run("--part", "speed", "--shape", "tiny", "--modules", modules, STANDIN_DEVICES="0")
    says = "speed    FAILED: code 1: weft: --device cuda: no CUDA device: no CUDA-capable device"
    assert code == 1 and says in text, text


def wrong_options_are_named():
    for options, says in ((["--steps", "0"], "--steps 0"), (["--build", "nowhere"], "nowhere/bench/weft is not there")):
        code, text = run(*options)
        assert code == 2 and says in text, text


def operations_of_a_token_are_those_of_the_published_figure():
    """37 000 tokens a second of Llama-3.2-1B at 8192 tokens are 40 % of 989.5 TFLOP/s."""
    names = runpy.run_path(check)
    part = 37000 * names["operations_a_token"](names["SHAPES"]["llama-1b"]) / names["PEAK"]
    assert abs(part - 0.4) < 0.003, part


if sys.argv[3:]:
    tap.main(every_part_runs_from_start_to_end)
    sys.exit()
tap.main(the_end_is_a_table, a_shape_is_trained_on_the_stand_in,
         operations_are_timed_and_messages_run_beside_a_backward,
         a_part_ends_when_its_time_is_over, all_parts_but_torch_fit_eight_minutes, a_part_that_fails_is_told,
         wrong_options_are_named, operations_of_a_token_are_those_of_the_published_figure)
