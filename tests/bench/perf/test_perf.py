#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`weft perf` as scripts see it: options, table, JSON, CSV, exit codes.  usage: test_perf.py COMMAND FAULT"""
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import tap

command, fault = sys.argv[1], sys.argv[2]
SLOW = os.environ.get("WEFT_TEST_SLOWDOWN", "1") != "1"  # everything takes many times as long: try a part
OPERATIONS = ("all_reduce all_gather reduce_scatter broadcast reduce alltoall alltoallv gather scatter sendrecv "
              "hypercube").split()
NEVER_IN_PLACE = ("alltoallv", "sendrecv")
KEYS = ("op bytes count dtype redop root inplace backend ranks us_median us_p99 us_min us_max algbw busbw wrong ratio "
        "samples calls probe_ns us_limit limit_share us_contended slower_contended product_left").split()
QUICK = ("-n", "3", "--rotate-bytes", "64K")
SMALL = ("-b", "64", "-e", "64", *QUICK)
# What scripts that read nccl-tests look for: 13 fields, the first five of the row, then four for each half.
NUMBER = r"\s+(\d+(?:\.\d+)?(?:e[+-]\d+)?)"
ROW = re.compile(rf"^\s+(\d+)\s+(\d+)\s+(\w+)\s+(\w+)\s+(-?\d+)" + (NUMBER * 3 + r"\s+(\d+|N/A)") * 2 + r"\s*$")


def run(*words, code=0, env=None, program=command):
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **(env or {})})
    assert done.returncode == code, f"{words}: code {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def perf(*words, **options):
    return run("perf", *words, **options)


def rows_of(text):
    rows = [line for line in text.splitlines() if line and not line.startswith("#")]
    matches = [ROW.match(row) for row in rows]
    assert all(matches), rows
    return [match.groups() for match in matches]


def the_table_is_that_of_nccl_tests():
    text = perf("all_reduce", "-t", "2", "-b", "8", "-e", "32K", "-f", "4", *QUICK).stdout
    rows = rows_of(text)
    assert [int(row[0]) for row in rows] == [8 * 4 ** k for k in range(7)], text
    for size, count, dtype, redop, root, time, algbw, busbw, wrong, *_ in rows:
        assert (dtype, redop, root, wrong) == ("float", "sum", "-1", "0") and int(size) == 4 * int(count), text
        assert float(time) > 0 and abs(float(algbw) - float(busbw)) < 0.02, text  # two ranks
    for line in (r"# Collective test starting: all_reduce_perf", r"# nThread 2 nGpus 1 minBytes 8 maxBytes 32768 "
                 r"step: 4\(factor\) warmup iters: 1 iters: 3 agg iters: 1 validation: 1 graph: 0 unalign: 0",
                 r"# Using devices", r"#  Rank  1 Group  0 Pid +\d+ on +\S+ device +\d+ \[0000:00:00\] .+",
                 r"# +out-of-place +in-place", r"# +size +count +type +redop +root( +time +algbw +busbw +#wrong){2}",
                 r"# +\(B\) +\(elements\)( +\(us\) +\(GB/s\) +\(GB/s\)){2} *", r"# Out of bounds values : 0 OK",
                 r"# Avg bus bandwidth    : \S+ ", r"# Collective test concluded: all_reduce_perf"):
        assert re.search(rf"^{line}$", text, re.M), f"{line}\n{text}"


def columns_stand_under_their_names():
    lines = perf("all_gather", "-t", "2", "-b", "1M", "-e", "1M", *QUICK).stdout.splitlines()
    names = next(line for line in lines if " size " in line)
    row = next(line for line in lines if line and not line.startswith("#"))
    ends = [match.end() for match in re.finditer(r"\S+", names)][1:]
    assert ends == [match.end() for match in re.finditer(r"\S+", row)], f"{names}\n{row}"


def every_operation_is_right_on_threads_and_processes():
    types = "half" if SLOW else "all"
    words = ("all", "-d", types, "-r", "all", "-b", "0", "-e", "3K", "-i", "3000", "-c", "2", *QUICK)
    for ranks in (2, 3) if SLOW else (1, 2, 3, 4):
        text = perf(*words, "-t", str(ranks), "-o", "all" if ranks == 2 else "sum").stdout
        assert "# Out of bounds values : 0 OK" in text, text
        seen = re.findall(r"^# (\w+)$", text, re.M)
        assert [name for name in seen if name in OPERATIONS] == OPERATIONS, seen
        assert ("left out" in text) == (ranks == 3), text
        assert len({row[2] for row in rows_of(text)}) == (1 if SLOW else 7), "types"
    text = run("run", "-n", "2", "--prefix", "none", "--", command, "perf", *words).stdout
    assert "# Out of bounds values : 0 OK" in text and len(rows_of(text)) > 20, text


def every_way_of_using_buffers_is_checked():
    for more in (("--buffers", "same"), ("--buffers", "rewritten"), ("--memory", "malloc"), ("-u", "3"), ("-m", "5"),
                 ("-z", "1"), ("-z", "3"), ("--rotate-bytes", "1M"), ("--buffers", "same", "-m", "2"), ("-w", "0")):
        names = [name for name in OPERATIONS[::4 if SLOW else 1] if name != "hypercube"]
        text = perf(*names, "-t", "2", "-b", "8", "-e", "8K", "-f", "32", *QUICK, *more).stdout
        assert "# Out of bounds values : 0 OK" in text, text


def familiar_names_are_understood():
    with tempfile.TemporaryDirectory() as folder:
        for name in OPERATIONS:
            program = pathlib.Path(folder) / f"{name}_perf"
            program.symlink_to(command)
            text = run("-b8", "-e", "64", "-f2", "-g", "2", *QUICK, program=str(program)).stdout
            assert f"# Collective test concluded: {name}_perf" in text and len(rows_of(text)) >= 3, text
        assert "usage: weft perf" in run("-h", program=str(program)).stdout
    text = perf("all_reduce_perf", *SMALL).stdout
    assert "# One rank: nothing is exchanged, busbw is 0 by definition" in text, text
    assert rows_of(text)[0][7] == "0.00", text


def what_is_reported_has_these_keys():
    with tempfile.TemporaryDirectory() as folder:
        lines, table = f"{folder}/json", f"{folder}/csv"
        words = ("all_reduce", "sendrecv", "-t", "2", *SMALL, "--limits")
        perf(*words, "--json", lines, "--csv", table)
        rows = [json.loads(line) for line in open(lines)]
        assert [list(row) for row in rows] == [KEYS] * 3, rows
        assert [(row["op"], row["inplace"]) for row in rows] == [("all_reduce", False), ("all_reduce", True),
                                                                ("sendrecv", False)], rows
        for row in rows:
            assert row["us_min"] <= row["us_median"] <= row["us_p99"] <= row["us_max"], row
            assert (row["bytes"], row["dtype"], row["ranks"], row["wrong"]) == (64, "fp32", 2, 0), row
            assert row["ratio"] is None and row["us_limit"] > 0 and row["samples"] == 3, row
            assert (row["redop"], row["root"]) == ("sum" if row["op"] == "all_reduce" else "none", -1), row
        with open(table) as file:
            again = list(csv.DictReader(file))
        assert [list(row) for row in again] == [KEYS] * 3 and again[1]["op"] == "all_reduce", again
    done = perf(*words, "--json", "-")
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 3 and "# Using devices" in done.stderr
    unchecked = perf("all_reduce", "-t", "2", "-b", "64", "-c", "0", *QUICK)
    assert rows_of(unchecked.stdout)[0][8] == "N/A" and "values : 0 unchecked" in unchecked.stdout, unchecked.stdout


def several_backends_are_measured_in_turn():
    text = perf("all_gather", "-t", "2", "-b", "64", "-e", "4K", "-f", "64", *QUICK, "--rounds", "3",
                "--backend", "local", "--backend", "local").stdout
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert len(rows) == 4 and all(len(row) == 16 and row[13] == "local" for row in rows), text
    assert all(row[14:] == ["1.00", "1.00"] for row in rows[::2]) and all(float(row[14]) > 0 for row in rows), text
    assert "no such" in perf("all_gather", "--backend", "no-such", code=1).stderr.replace("-", " ")


def limits_and_contention_are_columns():
    text = perf("limits", "all_reduce", "all_gather", "-t", "2", *SMALL).stdout
    assert len([line for line in text.splitlines() if line and not line.startswith("#")]) == 2, text
    text = perf("limits", "all_gather", "all_reduce", *SMALL).stdout  # in place nothing is moved
    for row in (line.split() for line in text.splitlines() if line and not line.startswith("#")):
        assert float(row[5]) > 0 and row[9:13] == ["N/A"] * 4 and row[15:] == ["N/A"] * 2, text
    assert re.search(r"^# Avg in place +: N/A$", text, re.M), text
    assert "These options have a meaning here" in perf("limits", "--help").stdout
    for words, said in ((("-d", "half"), "-d half: the limits of reductions"), (("-o", "max"), "-o max: the limits of"),
                        (("--buffers", "rewritten"), "--buffers rewritten does not go with limits"),
                        (("--contend",), "--contend does not go with limits"),
                        (("--backend", "local"), "--backend does not go with limits"),
                        (("-b", "x"), "-b is 'x', not a number from 0 to 1e+15")):
        done = perf("limits", "-t", "2", *words, code=2)
        assert said in done.stderr and not done.stdout, (words, done.stderr)
    perf("limits", "all_gather", "-t", "2", "-d", "half", *SMALL)
    text = perf("all_reduce", "-t", "2", *SMALL, "--contend", "--row-ms", "5").stdout
    row = next(line.split() for line in text.splitlines() if line and not line.startswith("#"))
    assert len(row) == 17 and float(row[13]) >= 0 and float(row[14]) >= 0, text  # how much is a matter of time
    assert "# Beside: a matrix product by" in text, text


def small_operations_are_timed_behind_a_large_one():
    quick = ("-t", "2", "--large-bytes", "4M", "--rounds", "3")
    keys = ("small ranks small_bytes large_bytes rounds probe_ns small_alone_us small_alone_p99_us small_us "
            "small_p99_us small_max_us samples large_alone_ms large_ms slower").split()
    for small in ("ping_pong", "all_reduce"):
        row, = map(json.loads, perf("behind", *quick, "--small", small, "--json", "-").stdout.splitlines())
        assert list(row) == keys, row
        assert [row[key] for key in keys[:5]] == [small, 2, 4096, 4 << 20, 3], row
        if row["samples"] > 0:  # or the large one is always the first to end
            assert 0 < row["small_us"] <= row["small_p99_us"] <= row["small_max_us"], row
        assert row["small_alone_us"] <= row["small_alone_p99_us"] and 0 < row["large_alone_ms"], row
        assert row["large_ms"] > 0 and row["slower"] > 0, row
    text = run("run", "-n", "3", "--prefix", "none", "--", command, "perf", "behind", *quick[2:]).stdout
    assert re.match(r"# ping_pong of 4096 bytes behind a reduce_scatter of 4194304 bytes; 3 ranks, 3 rounds; probe \S+ "
                    r"ns: (near|far)\n +alone +behind +p99 +max\nsmall \(us\)( +(?:[\d.]+|nan)){4}   \d+ samples\n"
                    r"large \(ms\)( +[\d.]+){2}   slower: [\d.]+\n$", text), text
    assert "one rank waits for nobody" in perf("behind", code=2).stderr
    assert "--small is 'send'" in perf("behind", "--small", "send", code=2).stderr
    assert "too many" in perf("behind", "7", code=2).stderr
    assert "cannot write '/no/such/file'" in perf("behind", *quick, "--json", "/no/such/file", code=1).stderr


def pipelines_are_held_against_their_schedule():
    quick = ("-t", "2", "-m", "4", "--forward", "0.5", "--backward", "1", "--message-bytes", "64", "--rounds", "1")
    rows = [json.loads(line) for line in perf("pipeline", *quick, "--json", "-").stdout.splitlines()]
    assert [row["way"] for row in rows][:2] == ["1f1b", "1f1b, no look-ahead"] and len(rows) == 10, rows
    assert len({(row["run_ahead"], row["lookahead"], row["waits_sends"]) for row in rows}) == 8, rows
    for row in rows:
        assert (row["stages"], row["microbatches"], row["message_bytes"]) == (2, 4, 64), row
        assert row["ideal_ms"] == 1.5 * (4 + 2 - 1) and row["activations"] == (3 if row["run_ahead"] else 2), row
        assert row["step_ms"] >= row["ideal_ms"] and row["ideal_messages_ms"] >= row["ideal_ms"], row  # it sleeps
    text = perf("pipeline", *quick).stdout
    assert re.match(r"stages p = 2, microbatches m = 4, forward 0.5 ms, backward 1 ms, message \S+ ms \(64 bytes\); ",
                    text), text
    done = run("run", "-n", "2", "--", command, "perf", "pipeline", *quick[2:], "--json", "/no/such/file", code=1)
    assert done.stderr.count("cannot write '/no/such/file'") == 1 and "ideal" not in done.stdout, done
    done = run("run", "-n", "2", "--", command, "perf", "pipeline", "-t", "2", code=2)
    assert "2 threads, but the launcher has started 2 ranks" in done.stderr, done.stderr
    assert "one rank is no pipeline" in perf("pipeline", code=2).stderr
    assert "--message and --message-bytes" in perf("pipeline", "--message", "5", "--message-bytes", "4", code=2).stderr
    assert "too many" in perf("pipeline", "7", code=2).stderr
    assert "--forward" in perf("pipeline", "--forward", "0", code=2).stderr


def a_difference_of_calls_is_told_or_why_not():
    text = perf("api", "--rounds", "1", "--repeats", "10").stdout
    assert len(re.findall(r"^the same less that .* n/a$\n# n/a: one round does not tell", text, re.M)) == 2, text
    lines = [json.loads(line) for line in
             perf("api", "--rounds", "3", "--repeats", "10", "--json", "-").stdout.splitlines()]
    gaps = [line["ns"] for line in lines if line["call"].startswith("the same less")]
    assert len(lines) == 14 and len(gaps) == 2 and all(gap is None or gap > 0 for gap in gaps), lines


def wrong_values_are_counted_in_checked_and_in_timed_calls():
    tap.not_sanitized()
    words = ("broadcast", *SMALL)
    env = {"LD_PRELOAD": fault}
    for call in 1, 3:  # the first is that of the checked call, which both ranks make
        done = perf(*words, "-t", "2", env={**env, "PERF_FAULT": str(call)}, code=7)
        assert int(rows_of(done.stdout)[0][8]) > 0 and " FAILED" in done.stdout, done.stdout
    perf(*words, "-t", "2", env={**env, "PERF_FAULT": "100000000"})
    run("run", "-n", "2", "--", command, "perf", *words, env={**env, "PERF_FAULT": "2"}, code=7)


def a_deadline_that_passes_has_a_code_of_its_own():
    tap.not_sanitized()
    done = perf("all_reduce", "-t", "2", "-T", "1", *SMALL, env={"LD_PRELOAD": fault, "PERF_HANG": "5"},
                code=4)
    assert "rank 1" in done.stderr, done.stderr


def nonsense_is_refused_by_name():
    for words, said in ((("all_reduc",), "there is no operation 'all_reduc'"), ((), "which operation?"),
                        (("all_reduce", "--iterz", "3"), "unknown option '--iterz'"),
                        (("all_reduce", "-d", "int8"), "-d is 'int8'"),
                        (("all_reduce", "-o", "mulsum"), "-o is 'mulsum'"),
                        (("all_reduce", "-o", "avg", "-d", "int32"), "there is no avg of int32"),
                        (("all_reduce", "-b", "2M", "-e", "1M"), "-b 2097152 is more than -e 1048576"),
                        (("all_reduce", "-b", "8X"), "-b is '8X'"), (("broadcast", "-r", "1"), "-r is 1"),
                        (("broadcast", "-r", "one"), "-r is 'one'"), (("all_reduce", "-G", "1"), "-G is '1'"),
                        (("hypercube", "-t", "3"), "hypercube wants a power of two, not 3 ranks"),
                        (("hypercube", "-m", "2"), "-m 2: hypercube"),
                        (("all_reduce", "-m", "2", "--buffers", "rewritten"), "-m 2 does not go with"),
                        (("all_reduce", "--buffers", "cold"), "--buffers is 'cold'")):
        done = perf(*words, code=2)
        assert said in done.stderr and len(done.stderr.splitlines()) == 1 and not done.stdout, (words, done.stderr)
    done = perf("all_reduce", *SMALL, "--json", "/no/such/file", code=1)
    assert "cannot write '/no/such/file'" in done.stderr, done.stderr
    done = run("run", "-n", "2", "--", command, "perf", "all_reduce", "-t", "2", code=2)
    assert "2 threads, but the launcher has started 2 ranks" in done.stderr, done.stderr


tap.main(the_table_is_that_of_nccl_tests, columns_stand_under_their_names,
         every_operation_is_right_on_threads_and_processes, every_way_of_using_buffers_is_checked,
         familiar_names_are_understood, what_is_reported_has_these_keys, several_backends_are_measured_in_turn,
         limits_and_contention_are_columns, small_operations_are_timed_behind_a_large_one,
         pipelines_are_held_against_their_schedule,
         a_difference_of_calls_is_told_or_why_not, wrong_values_are_counted_in_checked_and_in_timed_calls,
         a_deadline_that_passes_has_a_code_of_its_own, nonsense_is_refused_by_name)
