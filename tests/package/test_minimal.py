#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The trainer that docs/trainer.md plugs weft into trains as well in parallel as alone, and the pipeline as
one loop does.

usage: test_minimal.py TOP BUILD"""
import functools
import math
import pathlib
import re
import shutil
import sys
import tempfile

import installed
import tap

folder, build = pathlib.Path(sys.argv[1]) / "bench/minimal", pathlib.Path(sys.argv[2])
scratch = pathlib.Path(tempfile.mkdtemp(prefix="weft-minimal-"))
STRICT = ["-O2", "-Wall", "-Wextra", "-pedantic", "-Werror"]
C17, CXX17, CXX20 = ("cc", "c", "-std=c17"), ("c++", "c++", "-std=c++17"), ("c++", "c++", "-std=c++20")


@functools.cache
def compile_it(source, language):
    """Build a program against the installed headers, without a warning; answers where it is."""
    compiler, name, standard = language
    if not shutil.which(compiler):
        raise tap.Skip(f"there is no {compiler}")
    environment = installed.environment(installed.install(build, scratch), scratch)
    weft = tap.run("pkg-config", "--cflags", "--libs", "weft", env=environment).split()
    program = scratch / f"{source.stem}-{standard}"
    libraries = ["-lm"] if source.stem == "plain" else [*weft, "-lm"]
    tap.run(compiler, standard, *STRICT, "-x", name, source, "-x", "none", *libraries, "-o", program)
    return program


def weft_run(program, *how):
    library = installed.install(build, scratch)
    command = installed.command(library, scratch) / "weft"
    return tap.run(command, "run", "--prefix", "none", *how, "--", program,
                   env=installed.environment(library, scratch))


def losses(output):
    """What a trainer prints, all of it: (step, loss) each."""
    printed = re.findall(r"step (\d+): loss (\S+)\n", output)
    assert len(printed) == len(output.splitlines()) == 6, output
    return [(int(step), float(loss)) for step, loss in printed]


@functools.cache
def trained_alone(language):
    return losses(tap.run(compile_it(folder / "plain.c", language)))


def expect_as_alone(language):
    program, alone = compile_it(folder / "parallel.c", language), trained_alone(language)
    for ranks in "1", "2", "4":
        for how in [], ["--threads"]:
            got = losses(weft_run(program, "-n", ranks, *how))
            for (step, loss), (step_alone, loss_alone) in zip(got, alone):
                near = abs(loss - loss_alone) < 1e-6
                assert step == step_alone and near, f"{ranks} ranks {how}: {got}, alone {alone}"


def the_plain_trainer_learns_and_knows_nothing_of_weft():
    for source in "plain.c", "parallel.c":
        includes = re.findall(r"#include <weft", (folder / source).read_text())
        assert len(includes) == (source == "parallel.c"), source
    alone = trained_alone(C17)
    assert alone[0][1] > 0.5 and alone[-1][1] < 0.01, alone


def on_1_2_and_4_ranks_the_losses_are_those_of_the_plain_one():
    expect_as_alone(C17)


def the_same_holds_as_cxx17():
    expect_as_alone(CXX17)


def both_are_cxx20():
    for source in "plain.c", "parallel.c":
        compile_it(folder / source, CXX20)


def a_batch_that_ranks_cannot_halve_is_trained_whole():
    got, alone = losses(weft_run(compile_it(folder / "parallel.c", C17), "-n", "3", "--threads")), trained_alone(C17)
    assert all(abs(loss - expected) < 1e-6 for (_, loss), (_, expected) in zip(got, alone)), f"{got}, alone {alone}"


def a_rank_that_fails_tells_the_others_why():
    program = (folder / "parallel.c").read_text()
    place = "TRY(weft_buckets_acquire(m->set, i, 1,"
    assert program.count(place) == 1
    wrong = scratch / "wrong.c"
    wrong.write_text(program.replace(place, place.replace("i, 1", "step == 3 && m->first > 0 ? i + 3 : i, 1")))
    broken = compile_it(wrong, C17)
    try:
        weft_run(broken, "-n", "2", "--threads")
    except AssertionError as failure:
        heard = "E_RANGE: rank 1, set 'buckets': params 3 to 4 of 3 are to be acquired [told by rank 1]"
        assert heard in str(failure).splitlines(), failure  # what rank 0 returned
    else:
        raise AssertionError("it did not fail")


def layers_reversing_vectors(layers=4, width=4, batch=32, steps=100):
    """The losses of steps 20, 40, ...: what pipeline.c does, without its pipeline, in double precision."""
    weights = [[math.sin(i * width * width + j) for j in range(width * width)] for i in range(layers)]
    mean, square = ([[0.0] * (width * width) for _ in range(layers)] for _ in range(2))
    printed = []
    for step in range(steps):
        grads, loss = [[0.0] * (width * width) for _ in range(layers)], 0
        for sample in range(step * batch, (step + 1) * batch):
            x = [[math.sin(sample * width + k) for k in range(width)]]
            for weight in weights:
                x.append([math.tanh(sum(weight[o * width + k] * x[-1][k] for k in range(width)))
                          for o in range(width)])
            dx = [y - half / 2 for y, half in zip(x[-1], reversed(x[0]))]
            loss += sum(off * off for off in dx) / 2 / batch
            for i in reversed(range(layers)):
                d = [dy * (1 - y * y) for dy, y in zip(dx, x[i + 1])]
                for o in range(width):
                    for k in range(width):
                        grads[i][o * width + k] += d[o] * x[i][k] / batch
                dx = [sum(d[o] * weights[i][o * width + k] for o in range(width)) for k in range(width)]
        clip = min(1, 0.5 / (math.sqrt(sum(g * g for grad in grads for g in grad)) + 1e-6))
        for weight, grad, m, v in zip(weights, grads, mean, square):
            for j, g in enumerate(grad):
                m[j], v[j] = 0.9 * m[j] + 0.1 * g * clip, 0.999 * v[j] + 0.001 * (g * clip) ** 2
                weight[j] -= 0.02 * m[j] / (1 - 0.9 ** (step + 1)) / (
                    math.sqrt(v[j] / (1 - 0.999 ** (step + 1))) + 1e-8)
        if (step + 1) % 20 == 0:
            printed.append((step + 1, loss))
    return printed


def a_pipeline_learns_what_one_loop_learns():
    program, alone = compile_it(folder / "pipeline.c", C17), layers_reversing_vectors()
    assert alone[-1][1] < alone[0][1] / 2, alone
    for ranks in "1", "2", "4", "6":
        for how in [], ["--threads"]:
            output = weft_run(program, "-n", ranks, *how)
            got = [(int(step), float(loss)) for step, loss in re.findall(r"step (\d+): loss (\S+)\n", output)]
            assert [step for step, _ in got] == [step for step, _ in alone] == [20, 40, 60, 80, 100], output
            near = all(abs(loss - right) < 1e-4 * right for (_, loss), (_, right) in zip(got, alone))
            assert near, f"{ranks} ranks {how}: {got}, one loop: {alone}"


def a_pipeline_is_c_and_cxx():
    compile_it(folder / "pipeline.c", CXX17)
    compile_it(folder / "pipeline.c", CXX20)


try:
    tap.main(the_plain_trainer_learns_and_knows_nothing_of_weft,
             on_1_2_and_4_ranks_the_losses_are_those_of_the_plain_one, the_same_holds_as_cxx17, both_are_cxx20,
             a_batch_that_ranks_cannot_halve_is_trained_whole, a_rank_that_fails_tells_the_others_why,
             a_pipeline_learns_what_one_loop_learns, a_pipeline_is_c_and_cxx)
finally:
    shutil.rmtree(scratch)
