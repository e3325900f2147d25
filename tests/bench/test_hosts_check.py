#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`bench/hosts_check`: its words, its codes and its arithmetic, on what a program that passes for weft says of links,
and one group on real hosts, where the machine permits them.

usage: test_hosts_check.py TOP WEFT"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(sys.argv[1]) / "tests" / "package"))
import tap  # noqa: E402

CHECK, WEFT = pathlib.Path(sys.argv[1]) / "bench" / "hosts_check", sys.argv[2]
folder = tempfile.TemporaryDirectory(prefix="weft-hosts-check-")
scratch = pathlib.Path(folder.name)
FAKE = scratch / "weft"
MIB = 1 << 20

# Operations use a link to `share` of what a plain stream does, 956 Mbit/s of each Gbit/s, and send `excess` times the
# bytes that they must: of two hosts each has half, a reduce-scatter and an all-gather make an all-reduce, and sums of
# 16-bit types travel as 32. A counter tells 1.0457 bytes for each, and 1000 that nobody asked for.
FAKE_TEXT = """#!%s -IS
import json, pathlib, sys
here = pathlib.Path(__file__).parent
is_ = json.loads((here / "is.json").read_text())
words = sys.argv[1:]
with open(here / "heard", "a") as heard:
    print(*words, file=heard)
after = lambda name: words[words.index(name) + 1]
hosts, stream = int(after("--hosts")), 119.5e6 * int(after("--rate").removesuffix("gbit"))
if "perf" not in words:
    sent, size = 64 << 20, 0
    print(stream)
else:
    size, wide = int(after("-b")), 2 if "-d" in words and after("-d") == "bfloat16" else 1
    half = size * (hosts - 1) / hosts
    each_way = {"reduce_scatter": half * wide, "all_gather": half, "all_reduce": half * wide + half, "sendrecv": size}
    sent = 1000
    for op in [word for word in words[words.index("perf"):] if word in each_way]:
        for inplace in 0, 1:
            us = each_way[op] * is_["excess"] / stream / is_["share"] * 1e6 if is_["measures"] else None
            print(json.dumps({"op": op, "bytes": size, "inplace": inplace, "us_median": us}))
            sent += each_way[op] * is_["excess"] * (1 + int(after("-n")))
print(f"weft: hostA sent {round(sent * 1.0457)} bytes", file=sys.stderr)
print(is_["complaint"], end="", file=sys.stderr)
sys.exit(is_["code"])
""" % sys.executable
FAKE.write_text(FAKE_TEXT)
FAKE.chmod(0o755)


def check(*words, weft=FAKE, **is_):
    """What it comes to where links are so, and what weft was asked."""
    (scratch / "heard").unlink(missing_ok=True)
    (scratch / "is.json").write_text(json.dumps({"share": 1, "excess": 1, "measures": True, "complaint": "", "code": 0,
                                                 **is_}))
    done = subprocess.run([sys.executable, str(CHECK), "--weft", str(weft), *words], capture_output=True, text=True,
                          timeout=120)
    heard = scratch / "heard"
    told = heard.read_text().splitlines() if heard.exists() else []
    done.heard = [line for line in told if line.startswith("hosts ")]  # programs have lines, too
    assert "Traceback" not in done.stderr, done.stderr
    return done


def rows(done):
    """The cells of each row; those of a table's head are no row."""
    return [line.split() for line in done.stdout.splitlines() if re.search(r"pass|MISS", line)]


def help_and_wrong_words():
    done = check("--help")
    assert done.returncode == 0 and "bytes, four, link, delay" in done.stdout and not done.stderr, done
    for words, complaint in ((["fuor"], "no group 'fuor', but bytes, four, link, delay"),
                             (["--samples", "3"], "--samples is 3, not 4 or more"),
                             (["--samples", "x"], "invalid int value: 'x'"), (["--no-such"], "--no-such")):
        done = check(*words)
        assert done.returncode == 2 and complaint in done.stderr and not done.stdout and not done.heard, done


def what_cannot_be_run_is_told_in_a_line():
    done = check("four", weft=scratch / "nowhere")
    assert (done.returncode, done.stderr) == (
        1, f"hosts_check: cannot run '{scratch / 'nowhere'}': No such file or directory\n"), done
    done = check("four", code=77, complaint="weft: no namespaces here\n")
    assert done.returncode == 77 and done.stderr.endswith("weft: no namespaces here\n"), done
    done = check("four", code=7, complaint="weft: 3 values were wrong\n")
    assert done.returncode == 1 and done.stderr.endswith("weft: 3 values were wrong\n"), done
    done = check("four", measures=False)  # a table without rows proves nothing
    assert done.returncode == 1 and re.fullmatch(r"hosts_check: weft perf all_reduce .* measured nothing\n",
                                                 done.stderr), done


def without_a_group_all_have_their_turn_and_one_that_misses_is_enough():
    done = check(share=0.905)
    assert done.returncode == 3, done
    assert re.findall(r"^(\w+): ", done.stdout, re.M) == ["bytes", "four", "link", "link", "delay"], done.stdout
    found = rows(done)
    traffic, rest, delayed = found[:12], found[12:-8], found[-8:]
    assert len(rest) == 2 + 2 * 2 * 8 and all(row[-1] == "MISS" for row in rest), done.stdout
    assert all([row[8], row[12]] == ["pass", "MISS"] for row in traffic), done.stdout
    assert all(row[-1] == "pass" for row in delayed), done.stdout


def bytes_are_those_that_more_samples_take():
    """A reduce-scatter of 16 MiB sends 8.389 MB each way, of bfloat16 twice that, an all-reduce as much as both."""
    done = check("bytes", excess=1.02, share=1.0)
    assert done.returncode == 0, done
    assert [row[3:7] for row in rows(done)[:6]] == [["reduce_scatter", "float", "8.556", "8.389"],
                                                    ["all_gather", "float", "8.556", "8.389"],
                                                    ["all_reduce", "float", "17.113", "16.777"],
                                                    ["reduce_scatter", "bfloat16", "17.113", "16.777"],
                                                    ["all_gather", "bfloat16", "8.556", "8.389"],
                                                    ["all_reduce", "bfloat16", "25.669", "25.166"]], done.stdout
    assert all(row[7:9] == ["1.020", "pass"] and row[12] == "pass" for row in rows(done)), done.stdout
    few, many = done.heard[1:3]
    assert "--bind none" in few and " -n 4 " in few and " -n 16 " in many, (few, many)
    done = check("bytes", excess=1.04)
    assert done.returncode == 3 and all([row[8], row[12]] == ["MISS", "pass"] for row in rows(done)), done.stdout


def four_hosts_have_the_link_s_time():
    """16 MiB x 2 x 3/4 is 25.166 MB each way, and 1514/1448 of that at 125 MB/s takes 210.503 ms."""
    done = check("four", share=0.96)
    assert done.returncode == 0, done
    assert [[row[0], *row[2:]] for row in rows(done)] == [[place, "210.503", "1.042", "pass"] for place in ("out", "in")
                                                          ], done.stdout


def links_are_held_against_a_plain_stream():
    done = check("link", share=0.96)
    assert done.returncode == 0 and "carries 956 Mbit/s" in done.stdout and "carries 4780 Mbit/s" in done.stdout, done
    assert all(row[4:] == ["0.960", "pass"] for row in rows(done)), done.stdout
    assert ["sendrecv", "16777216", "out", f"{16 * MIB / 119.5e6 / 0.96 * 1e3:.3f}", "0.960", "pass"] in rows(done)
    done = check("link", share=0.94)
    assert done.returncode == 3 and all(row[5] == "MISS" for row in rows(done)), done.stdout


def a_delayed_link_may_lose_a_tenth():
    assert check("delay", share=0.89).returncode == 3


def weft_is_asked_as_one_asks():
    done = check("link", "--congestion", "cubic", "--backend", "ucx", "--samples", "5")
    plain, first = done.heard[:2]
    assert plain.startswith("hosts --hosts 2 --ranks-per-host 1 --rate 1gbit --congestion cubic --bind core"), plain
    assert re.search(r"perf reduce_scatter all_gather all_reduce sendrecv -b 4194304 -e 4194304 --backend ucx -n 5 ",
                     first), first
    assert "--delay 500us" in check("delay").heard[0]


def a_group_on_hosts_of_this_machine():
    """How long it takes is a matter of the machine, but nothing is faster than its link."""
    done = check("four", "--samples", "4", weft=WEFT)
    if done.returncode == 77:
        raise tap.Skip(done.stderr.strip())
    assert done.returncode in (0, 3), done
    found = rows(done)
    assert [row[0] for row in found] == ["out", "in"] and all(float(row[3]) > 0.95 for row in found), done.stdout
    assert (done.returncode == 3) == ("MISS" in done.stdout), done


tap.main(help_and_wrong_words, what_cannot_be_run_is_told_in_a_line,
         without_a_group_all_have_their_turn_and_one_that_misses_is_enough, bytes_are_those_that_more_samples_take,
         four_hosts_have_the_link_s_time, links_are_held_against_a_plain_stream, a_delayed_link_may_lose_a_tenth,
         weft_is_asked_as_one_asks, a_group_on_hosts_of_this_machine)
