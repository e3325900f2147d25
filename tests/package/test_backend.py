#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Backends of others: the example is built against an installed weft, found, and keeps the contract; what cannot be
used is left out with one line, and disturbs nobody.  usage: test_backend.py TOP BUILD_FOLDER"""
import pathlib
import re
import shutil
import sys
import tempfile

import installed
import tap

top, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
scratch = pathlib.Path(tempfile.mkdtemp(prefix="weft-backend-"))

# Two thread ranks add up on the backend that is named.
PROGRAM = """\
#include <stdio.h>
#include <weft/weft.h>
static weft_result rank_main(weft_world *world, void *name)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    weft_comm *comm;
    float one = 1, sum = 0;
    config.backend = (const char *)name;
    weft_result result = weft_comm_create(world, "all", NULL, 0, &config, &comm);
    if (result != WEFT_OK)
        return result;
    result = weft_all_reduce_run(comm, &one, &sum, 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST);
    if (result == WEFT_OK && weft_world_rank(world) == 0)
        printf("%s: %g\\n", weft_comm_backend(comm), (double)sum);
    weft_comm_destroy(comm);
    return result;
}
int main(int argc, char **argv)
{
    weft_result result = weft_team_run(2, NULL, rank_main, argc > 1 ? argv[1] : NULL);
    if (result != WEFT_OK)
        printf("%s: %s\\n", weft_result_string(result), weft_last_error());
    return 0;
}
"""

# A module with nothing in it but what is asked for.
MODULE = """\
#include <weft/backend.h>
static weft_result query(const weft_backend_question *question, weft_backend_facts *facts)
{
    facts->caps = WEFT_CAP_COLLECTIVE;
    facts->score = question->count > 1 ? WEFT_SCORE_NONE + 1 : WEFT_SCORE_NONE;
    return WEFT_OK;
}
static weft_result open_world(weft_world *world, void **state_out)
{
    *state_out = world;
    return WEFT_OK;
}
static weft_result comm_create(void *state, const weft_backend_comm *comm, void **comm_out, unsigned char *card)
{
    (void)comm, (void)card;
    *comm_out = state;
    return WEFT_OK;
}
static weft_result comm_connect(void *comm, const unsigned char *cards)
{
    (void)comm, (void)cards;
    return WEFT_OK;
}
static weft_result start(void *comm, weft_op *op)
{
    (void)comm;
    weft_backend_done(op, WEFT_OK);
    return WEFT_OK;
}
static const weft_backend table = {
    .abi_major = ABI, .size = SIZE, .name = NAME, .query = query, .open = open_world, .comm_create = comm_create,
    .comm_connect = comm_connect, .start = start};
WEFT_API weft_backend_module_function ENTRY;
const weft_backend *ENTRY(void)
{
    return (ANSWER);
}
"""


def compile_module(folder, name, source, **defined):
    folder.mkdir(exist_ok=True)
    library = installed.install(build, scratch)
    flags = tap.run("pkg-config", "--cflags", "--libs", "weft", env=installed.environment(library, scratch)).split()
    tap.run("cc", "-std=c17", "-O2", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-fPIC", "-shared",
            "-fvisibility=hidden", "-o", folder / f"libweft-backend-{name}.so",
            *(f"-D{key}={value}" for key, value in defined.items()), "-x", "c", "-", *flags, input=source)


def small_module(folder, name, **changed):
    values = {"ABI": "WEFT_BACKEND_ABI", "SIZE": "sizeof(weft_backend)", "NAME": f'"{name}"',
              "ENTRY": "WEFT_BACKEND_MODULE", "ANSWER": "&table"}
    compile_module(folder, name, MODULE, **values | changed)


def example(folder, right="", wrong=""):
    """The example, or one with a mistake in it."""
    source = (top / "bench/minimal/backend_sockets.c").read_text()
    assert right in source, right
    compile_module(folder, "sockets", source.replace(right, wrong) if right else source)


def shell(folder, *command):
    """What a command says, and what it complains of, with modules in a folder."""
    library = installed.install(build, scratch)
    env = installed.environment(library, scratch) | {"WEFT_MODULE_PATH": f"/nowhere:{folder}"}
    env["PATH"] = f"{installed.command(library, scratch)}:{env['PATH']}"
    script = " ".join(command) + " 2> complaints"
    said = tap.run("bash", "-c", script, cwd=scratch, env=env)
    return said, (scratch / "complaints").read_text()


def add_up(folder, backend):
    if not (scratch / "program").exists():
        library = installed.install(build, scratch)
        flags = tap.run("pkg-config", "--cflags", "--libs", "weft", env=installed.environment(library, scratch))
        tap.run("cc", "-std=c17", "-x", "c", "-", "-o", scratch / "program", *flags.split(), input=PROGRAM)
    return shell(folder, "./program", backend)


def the_example_keeps_the_contract():
    example(scratch / "alone")
    said, _ = shell(scratch / "alone", "weft perf conform --backend sockets --ranks 4 --largest 4097")
    ends = re.findall(r"^backend sockets, (threads|processes): (\d+) cases, 0 failed$", said, re.M)
    assert [how for how, _ in ends] == ["threads", "processes"] and all(int(cases) > 100 for _, cases in ends), said
    assert "ordered sums" in said, said


def does_not_conform(folder, backend, code, case):
    """Threads are enough; so is the case that must fail: others may take until a deadline."""
    command = f"weft perf conform --backend {backend} --in threads --ranks 4 --largest 7 --only '{case}'"
    said, _ = shell(folder, f"{command}; echo code $?")
    assert said.endswith(f"code {code}\n"), said
    assert re.search(rf"^FAILED {case}.* ranks, threads, backend {backend}: rank \d: ", said, re.M), said


def a_sum_in_another_order_does_not_conform():
    example(scratch / "order", "sources[m] =", "sources[comm->count - 1 - m] =")
    does_not_conform(scratch / "order", "sockets", 7, "all_reduce of 7 fp32, sum")


def a_comparison_left_out_does_not_conform():
    example(scratch / "blind", "if (memcmp(&theirs, &m->head, sizeof theirs) == 0)", "if (!theirs.is_p2p)")
    does_not_conform(scratch / "blind", "sockets", 1, "mismatch: types")


def what_does_nothing_does_not_conform():
    small_module(scratch / "lazy", "lazy")
    does_not_conform(scratch / "lazy", "lazy", 7, "all_to_all of 7")


def the_skeleton_of_the_page_is_found_and_does_nothing_yet():
    code, = re.findall(r"^```c\n(.*?)^```$", (top / "docs/backends.md").read_text(), re.M | re.S)
    compile_module(scratch / "skeleton", "mine", code)
    assert add_up(scratch / "skeleton", "mine") == ("mine: 0\n", "")
    does_not_conform(scratch / "skeleton", "mine", 7, "all_reduce of 7 fp32, sum")
    does_not_conform(scratch / "skeleton", "mine", 1, "mismatch: a barrier")


def a_module_is_found_by_its_name():
    example(scratch / "alone")
    assert add_up(scratch / "alone", "sockets") == ("sockets: 2\n", "")


def a_backend_that_is_not_found_is_told_with_those_there_are():
    example(scratch / "alone")
    said, complaints = add_up(scratch / "alone", "nosuch")
    assert said.startswith("E_NOT_FOUND: there is no backend 'nosuch'; there are: self, local, "), said
    assert re.search(r"\bsockets\b", said), said
    assert complaints == "", complaints


def what_is_wrong_with_a_module(name, why):
    """It is left out with one line that says why, and the example beside it works."""
    folder = scratch / name
    example(folder)
    said, complaints = add_up(folder, "sockets")
    lines = [line for line in complaints.splitlines() if f"{folder}/libweft-backend-{name}.so is left out: " in line]
    assert said == "sockets: 2\n" and len(lines) == len(complaints.splitlines()) == 1, said + complaints
    assert re.search(why, lines[0]), lines[0]
    said, _ = add_up(folder, name)
    assert said.startswith(f"E_NOT_FOUND: there is no backend '{name}'"), said


def a_module_of_another_abi_is_left_out():
    small_module(scratch / "newer", "newer", ABI="99")
    what_is_wrong_with_a_module("newer", "a backend speaks abi 99, weft 1$")


def a_module_without_the_symbol_is_left_out():
    small_module(scratch / "other", "other", ENTRY="another_module")
    what_is_wrong_with_a_module("other", "it has no symbol weft_backend_module$")


def a_module_that_answers_nothing_is_left_out():
    small_module(scratch / "unwell", "unwell", ANSWER="table.query?NULL:NULL")
    what_is_wrong_with_a_module("unwell", "it says that it cannot work here$")


def a_file_that_is_no_library_is_left_out():
    (scratch / "broken").mkdir()
    (scratch / "broken" / "libweft-backend-broken.so").write_text("no library")
    what_is_wrong_with_a_module("broken", "libweft-backend-broken.so")


def a_library_that_is_cut_short_is_left_out():
    folder = scratch / "cut"
    small_module(folder, "cut")
    file = folder / "libweft-backend-cut.so"
    file.write_bytes(file.read_bytes()[:300])
    what_is_wrong_with_a_module("cut", "libweft-backend-cut.so")


def a_table_without_a_name_is_left_out():
    small_module(scratch / "nameless", "nameless", NAME='""')
    what_is_wrong_with_a_module("nameless", "a backend needs a name")


def a_table_of_another_name_than_its_file_is_left_out():
    small_module(scratch / "yours", "yours", NAME='"mine"')
    what_is_wrong_with_a_module("yours", "its backend is called 'mine', so its file must be libweft-backend-mine.so$")


def a_table_shorter_than_known_serves_as_far_as_it_goes():
    folder = scratch / "short"
    small_module(folder, "short")
    assert add_up(folder, "short") == ("short: 0\n", "")  # it gives back everything, and does nothing
    small_module(folder, "short", SIZE="__builtin_offsetof(weft_backend,start)")
    said, _ = add_up(folder, "short")
    assert said.startswith("E_UNSUPPORTED: "), said


def what_is_no_module_is_not_looked_at():
    folder = scratch / "strange"
    example(folder)
    for name in "-backend-", "-backend-a_name_too_long_", "-cuda", "s-backend-x":
        (folder / f"libweft{name}.so").write_text("no library")
    (folder / "libweft-backend-local.so").write_text("no library")  # that name is known
    assert add_up(folder, "sockets") == ("sockets: 2\n", "")


try:
    tap.main(the_example_keeps_the_contract, a_sum_in_another_order_does_not_conform,
             a_comparison_left_out_does_not_conform, what_does_nothing_does_not_conform,
             the_skeleton_of_the_page_is_found_and_does_nothing_yet, a_module_is_found_by_its_name,
             a_backend_that_is_not_found_is_told_with_those_there_are, a_module_of_another_abi_is_left_out,
             a_module_without_the_symbol_is_left_out, a_module_that_answers_nothing_is_left_out,
             a_file_that_is_no_library_is_left_out, a_library_that_is_cut_short_is_left_out,
             a_table_without_a_name_is_left_out, a_table_of_another_name_than_its_file_is_left_out,
             a_table_shorter_than_known_serves_as_far_as_it_goes,
             what_is_no_module_is_not_looked_at)
finally:
    shutil.rmtree(scratch)
