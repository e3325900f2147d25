#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What holds for `weft prof trace` and `weft prof html` alike.  usage: test_views.py TOP WEFT"""
import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "tests" / "package"))
import tap  # noqa: E402
import traces  # noqa: E402
from views import prof, scratch, steps  # noqa: E402


def wrong_use_is_told_and_leaves_files_alone():
    folder = steps()
    out = scratch / "kept.html"
    out.write_text("kept")
    for words, code, why in (
            (("html",), 2, "weft: of which folder? (see weft prof html --help)\n"),
            (("trace", folder, folder), 2, f"weft: '{folder}' is one word too many (see weft prof trace --help)\n"),
            (("html", folder, "--step", "7", "--out", out), 2, f"weft: --step 7: '{folder}' has no such step\n"),
            (("html", folder, "--step", "1x", "--out", out), 2, "weft: --step is '1x', not a number\n"),
            (("html", folder, "--step", "1-2", "--out", out), 2, "weft: --step is '1-2', not a number\n"),
            (("html", scratch / "nowhere", "--out", out), 1, "nowhere"),
            (("trace", folder, "--out", "/dev/full"), 1, "weft: cannot write '/dev/full': No space left on device\n"),
            (("html", folder, "--out", "/dev/full"), 1, "weft: cannot write '/dev/full': No space left on device\n")):
        said = prof(*words, code=code).stderr
        assert why in said and said.count("\n") == 1, (words, said)
    assert out.read_text() == "kept"


def a_file_that_was_cut_off_is_told_of_in_every_view():
    whole = steps()
    folder = scratch / "cut"
    shutil.copytree(whole, folder)
    path = folder / "trace.0.weft"
    data = path.read_bytes()
    path.write_bytes(data[:-traces.COMMS * traces.COMM.size])
    note = f"trace.0.weft is cut off: {path.stat().st_size} of {len(data)} bytes; its comms are missing"
    before, after = (json.loads(prof("report", of, "--json").stdout) for of in (whole, folder))
    assert before["budget"]["hidden_ms"] == after["budget"]["hidden_ms"], (before, after)
    for report, known in (before, True), (after, False):
        assert [r["late_of"] > 0 for r in report["by_rank"]] == [known] * 2, report
        assert (report["order_differs"] is not None) == known, report
        assert [o["busbw"] is not None for o in report["operations"] if o["kind"] != "p2p"] == [known] * 2, report
    texts = [prof("report", folder).stdout, json.dumps(after["notes"]), prof("html", folder, "--out", "-").stdout,
             prof("trace", folder, "--out", "-").stdout]
    assert all(note in text for text in texts), texts
    assert "is cut off" not in prof("report", whole).stdout


tap.main(wrong_use_is_told_and_leaves_files_alone, a_file_that_was_cut_off_is_told_of_in_every_view)
