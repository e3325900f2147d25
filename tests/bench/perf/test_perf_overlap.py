#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weft perf overlap` as its user sees it: options, text, JSON, picture. Times decide nothing.
usage: test_perf_overlap.py COMMAND"""
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

import tap

command = sys.argv[1]
scratch = pathlib.Path(tempfile.mkdtemp(prefix="weft-perf-overlap-"))
SVG = "{http://www.w3.org/2000/svg}"
QUICK = ("--compute", "timed:2", "--rounds", "2")
TIMES = ("compute_ms comm_ms largest_ms both_ms serial_ms exposed_clock_ms exposed_error_ms exposed_trace_ms skew_ms "
         "transfer_ms longer_ms calls_ms idle_ms others_ms closed_ms closed_even_ms hidden_trace hidden_transfer "
         "hidden_clock eta cpu_alone_ms cpu_both_ms system_alone_ms "
         "system_both_ms engine_both_ms softirq_both_ms").split()
MAY_BE_NULL = "exposed_error_ms", "hidden_trace", "hidden_clock", "eta", "engine_both_ms"
KEYS = "phase op backend compute ranks hosts bytes buckets rounds".split() + TIMES + ["why"]


def run(*words, code=0):
    done = subprocess.run([command, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, f"{words}: code {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def overlap(*words, **options):
    return run("perf", "overlap", *words, **options)


def lines_of(*words):
    return [json.loads(line) for line in overlap(*words, "--json", "-").stdout.splitlines()]


def check(line):
    assert list(line) == KEYS, line
    assert all(isinstance(line[key], (int, float)) or key in MAY_BE_NULL for key in TIMES)
    parts = sum(line[key] for key in ("exposed_trace_ms", "longer_ms", "calls_ms", "idle_ms", "others_ms"))
    assert math.isclose(parts, line["exposed_clock_ms"], abs_tol=1e-5), line
    assert math.isclose(line["both_ms"] - line["compute_ms"], line["exposed_clock_ms"], abs_tol=1e-5), line
    assert 0 <= line["skew_ms"] <= line["exposed_trace_ms"] + 1e-6 and 0 <= line["hidden_transfer"] <= 1, line
    assert (line["exposed_error_ms"] is None) == (line["rounds"] < 6), line
    assert line["hidden_trace"] is None or 0 <= line["hidden_trace"] <= 1, line
    assert line["comm_ms"] > 0 and line["serial_ms"] > 0 and 0 <= line["largest_ms"] <= 1e5, line
    apart = abs(line["exposed_clock_ms"] - line["exposed_trace_ms"])
    assert (line["why"] is not None) == (apart > 0.05 * line["comm_ms"]), line


def both_phases_of_even_buckets_are_told():
    lines = lines_of("-t", "2", "--bytes", "64K", "--buckets", "4", *QUICK)
    phases = [("backward", "reduce_scatter"), ("forward", "all_gather")]
    assert [(line["phase"], line["op"]) for line in lines] == phases, lines
    for line in lines:
        check(line)
        assert (line["bytes"], line["buckets"], line["ranks"], line["rounds"]) == (65536, 4, 2, 2), line
        assert (line["backend"], line["compute"], line["hosts"]) == ("local", "timed", 1), line
        assert line["compute_ms"] >= 2, line  # a sleep is never shorter


def uneven_buckets_and_every_way_of_computing_are_measured():
    for compute in ("product", "fma", "timed"):
        lines = lines_of("-t", "2", "--bytes", "32K,4K,8K", "--compute", compute, "--compute-ms", "1", "--forward", "2",
                         "--rounds", "1")
        assert [line["buckets"] for line in lines] == [3, 3] and lines[0]["bytes"] == 45056, lines
        for line in lines:
            check(line)
        assert compute != "timed" or lines[1]["compute_ms"] >= 2, lines  # the forward is twice as long


def a_ratio_sets_the_computing_by_the_communication():
    line, _ = lines_of("-t", "2", "--bytes", "64K", "--compute", "timed", "--ratio", "0.01", "--rounds", "1")
    check(line)
    assert line["compute_ms"] > line["closed_ms"], line  # a hundred times the communication


def one_operation_is_measured():
    for operation in ("reduce_scatter", "all_gather", "all_reduce"):
        line, = lines_of("-t", "2", "--bytes", "16K", "--one", operation, *QUICK)
        check(line)
        assert (line["op"], line["phase"], line["buckets"], line["bytes"]) == (operation, "computing", 1, 16384), line
        assert line["closed_ms"] <= line["largest_ms"], line


def measuring_ends_when_enough_is_known():
    line, _ = lines_of("-t", "2", "--bytes", "16K", "--compute", "timed:1", "--within", "1000", "--row-s", "60")
    check(line)
    assert line["rounds"] == 9 and line["exposed_error_ms"] <= 1000, line


def ranks_are_processes_too():
    words = (command, "perf", "overlap", "--bytes", "30000", *QUICK)
    text = run("run", "-n", "3", "--prefix", "none", "--", *words).stdout
    assert re.match(r"# weft perf overlap: 3 ranks on 1 host by local, .* computing: timed\n# 8 operations a phase, 2 ",
                    text), text
    for name in ("computing alone", "communication alone, T_c", "both together", "exposed, stop-watch",
                 "exposed, trace", "exposed, at least", "exposed, at least, if even", "hidden, trace",
                 "hidden, stop-watch", "eta"):
        assert re.search(rf"^{re.escape(name)} +(ms)?( +(-?\d+\.\d+|n/a)( %)?){{2}}$", text, re.M), f"{name}\n{text}"


def a_sweep_is_a_table_and_a_picture():
    picture, rows = scratch / "sweep.svg", scratch / "sweep.jsonl"
    text = overlap("-t", "2", "--sweep", "--bytes", "64K", "-b", "8K", *QUICK, "--svg", str(picture), "--json",
                   str(rows)).stdout
    sizes = [tuple(map(int, line.split()[:2])) for line in text.splitlines() if re.match(r" +\d", line)]
    assert sizes == [(8192, 8), (16384, 4), (32768, 2), (65536, 1)], text
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [(line["buckets"], line["phase"]) for line in lines] == [
        (buckets, phase) for _, buckets in sizes for phase in ("backward", "forward")], lines
    assert re.search(r"^ +bucket +buckets" + r" +T +T_c +exposed +least +hidden +hidden" * 2 + "$", text, re.M), text
    assert re.search(r"^ +bytes" + r" +ms +ms +ms clock +ms +% trace +% clock" * 2 + "$", text, re.M), text
    shown = [line.split()[2:] for line in text.splitlines() if re.match(r" +\d", line)]
    for numbers, pair in zip(shown, zip(lines[::2], lines[1::2])):
        for phase, line in enumerate(pair):
            for at, key in ((2, "exposed_clock_ms"), (3, "closed_ms"), (4, "hidden_trace"), (5, "hidden_clock")):
                value = line[key] if line[key] is None or key.endswith("ms") else 100 * line[key]
                cell = numbers[6 * phase + at]
                assert cell == "n/a" if value is None else math.isclose(float(cell), value, abs_tol=0.06), (cell, line)
    svg = ElementTree.parse(picture).getroot()
    curves = [group for group in svg.iter(SVG + "g") if group.get("class") == "curve"]
    width, height = float(svg.get("width")), float(svg.get("height"))
    assert len(curves) == 4 and all(len(list(curve.iter(SVG + "path"))) == 3 for curve in curves)
    dots = [rect for curve in curves for rect in curve.iter(SVG + "rect")]
    assert len(dots) == 8, len(dots)
    for dot in dots:
        assert 0 < float(dot.get("x")) < width and 0 < float(dot.get("y")) < height, dot.attrib
    tips = [dot.find(SVG + "title").text for dot in dots[:4]]
    assert [int(re.match(r"(\d+) buckets of", tip)[1]) for tip in tips] == [8, 4, 2, 1], tips


def nonsense_is_refused_by_name():
    for words, said in (
            (("--bytes", "4X"), "--bytes is '4X'"), (("--bytes", "8,,8"), "--bytes is ''"),
            (("--bytes", "6"), "6 is no multiple of 4"), (("--bytes", "8", "--buckets", "3"), "--bytes 8 is less than"),
            (("--bytes", "8,8", "--buckets", "3"), "--buckets does not go with the bytes of each bucket"),
            (("--bytes", "8,8", "--one", "all_gather"), "--one does not go with the bytes of each bucket"),
            (("--buckets", "0"), "--buckets is '0'"), (("--compute", "fast"), "--compute is 'fast'"),
            (("--compute", "fma:3"), "--compute is 'fma:3'"), (("--compute", "timed:x"), "--compute is 'timed:x'"),
            (("--compute", "timed:-1"), "--compute is 'timed:-1'"),
            (("--compute", "timed:5", "--compute-ms", "5"), "both say how long"),
            (("--ratio", "1", "--compute-ms", "5"), "--ratio and --compute-ms both say how long"),
            (("--ratio", "0"), "--ratio is '0'"), (("--one", "barrier"), "--one is 'barrier'"),
            (("--one", "all_gather", "--buckets", "2"), "--one is a single operation"),
            (("--svg", "x"), "--svg is a picture of a sweep"), (("-b", "4K"), "-b, -e and -f are for a sweep"),
            (("--sweep", "--buckets", "2"), "--sweep does not go with --buckets"),
            (("--sweep", "--one", "all_gather"), "--sweep does not go with --one"),
            (("--sweep", "--bytes", "1M", "-e", "2M"), "does not fit into --bytes 1M"),
            (("--sweep", "--bytes", "1M", "-b", "64"), "-b 64 makes 16384 buckets"),
            (("--sweep", "--json", "-", "--svg", "-"), "--json and --svg cannot both"),
            (("more",), "'more' is one word too many"), (("--nonsense",), "unknown option '--nonsense'"),
            ((), "one rank exchanges nothing")):
        done = overlap(*words, code=2)
        assert said in done.stderr and len(done.stderr.splitlines()) == 1 and not done.stdout, (words, done.stderr)
    done = overlap("-t", "2", *QUICK, "--json", "/no/such/file", code=1)
    assert "cannot write '/no/such/file'" in done.stderr, done.stderr
    done = overlap("-t", "2", "--sweep", *QUICK, "--svg", "/no/such/file", code=1)
    assert done.stderr.startswith("weft: cannot write '/no/such/file': ") and not done.stdout, done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    done = overlap("-t", "2", *QUICK, "--bytes", "900000G", code=1)
    assert done.stderr.startswith("weft: --bytes 900000G: ") and len(done.stderr.splitlines()) == 1, done.stderr
    done = overlap("-t", "2", *QUICK, "--backend", "none", code=1)
    assert "none" in done.stderr, done.stderr


tap.main(both_phases_of_even_buckets_are_told, uneven_buckets_and_every_way_of_computing_are_measured,
         a_ratio_sets_the_computing_by_the_communication, one_operation_is_measured,
         measuring_ends_when_enough_is_known, ranks_are_processes_too,
         a_sweep_is_a_table_and_a_picture, nonsense_is_refused_by_name)
