#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""beside.py: figures that were worked out by hand, and a real run.  usage: test_beside.py COMMAND"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import tap

command = sys.argv[1]
beside = pathlib.Path(__file__).resolve().parents[3] / "bench/perf/beside.py"
scratch = pathlib.Path(tempfile.mkdtemp(prefix="weft-beside-"))
FIGURES = ("operation", "bytes", "place", "probe", "probe_ns", "rounds", "ours", "theirs", "times", "low", "high",
           "share", "peer")


def run(*words, code=0):
    done = subprocess.run([str(beside), *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, f"{words}: code {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def figures_of(text):
    rows = [re.sub(r"(\d)-(?= *\d)", r"\1 ", line).split() for line in text.splitlines()[1:]]
    return [dict(zip(FIGURES, row)) for row in rows]


def ours(round_number, us, op="allgather", in_place=False, probe_ns=100.0, share=None):
    return {"who": "weft", "round": f"0.{round_number}", "op": op, "bytes": 64, "in_place": in_place, "us": us,
            "probe_ns": probe_ns, "share": share}


def theirs(who, round_number, us, in_place=False):
    return {"who": who, "round": f"0.{round_number}", "op": "allgather", "bytes": 64, "in_place": in_place, "us": us}


def report(*rows):
    kept = scratch / "rows"
    kept.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return figures_of(run("--rows", kept).stdout)


def the_figure_is_the_median_over_rounds_against_the_best_peer():
    rows = [ours(i, us, share=0.5) for i, us in enumerate((1, 2, 4))]
    rows += [theirs("slow", i, 50) for i in range(3)] + [theirs("fast", i, us) for i, us in enumerate((3, 4, 40))]
    row, = report(*rows)
    assert row == dict(zip(FIGURES, ("allgather", "64", "out", "near", "100", "3", "2.00", "4.00", "3.00", "2.50",
                                     "6.50", "0.50", "fast"))), row


def near_and_far_are_told_apart():
    near, far = report(ours(0, 1), ours(1, 2, probe_ns=250.0), theirs("peer", 0, 3), theirs("peer", 1, 8))
    assert (near["probe"], near["times"], far["probe"], far["times"]) == ("near", "3.00", "far", "4.00"), (near, far)


def in_place_a_peer_may_as_well_not_be_in_place():
    out, placed = report(ours(0, 1), ours(0, 1, in_place=True), theirs("peer", 0, 2), theirs("peer", 0, 3, True))
    assert (out["place"], out["times"], placed["place"], placed["times"]) == ("out", "2.00", "in", "2.00"), placed


def a_table_of_another_program_is_read():
    table = scratch / "table"
    table.write_text("# some library ranks=2 op=all_gather float\n#  size(B) count time(us)\n     4096  512  1000.5\n"
                     "# some library ranks=2 op=allgather in-place\n     4096  512  2000.5\nthe end\n")
    kept = scratch / "kept"
    weft = f"{command} perf all_gather -t 2 -b 4K -e 4K -n 3 --rotate-bytes 64K --json -"
    for rounds in 2, 3:  # added up
        text = run("--ours", weft, "--peer", f"other=cat {table}", "--rounds", rounds, "--rows", kept).stdout
    by_place = {}
    for row in figures_of(text):
        assert (row["operation"], row["bytes"], row["theirs"], row["peer"]) == ("allgather", "4096", "1000.50", "other")
        by_place[row["place"]] = by_place.get(row["place"], 0) + int(row["rounds"])
    assert by_place == {"out": 5, "in": 5}, text


def what_cannot_be_run_is_told():
    assert "nothing to measure and nothing to read" in run(code=2).stderr
    assert "false ended with code 1" in run("--ours", "false", code=1).stderr
    told = run("--ours", "sleep 100 & wait", "--timeout", "0.2", code=1).stderr
    assert told == "sleep 100 & wait has not ended after 0.2 s\n", told


tap.main(the_figure_is_the_median_over_rounds_against_the_best_peer, near_and_far_are_told_apart,
         in_place_a_peer_may_as_well_not_be_in_place, a_table_of_another_program_is_read, what_cannot_be_run_is_told)
