#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The backend over MPI keeps its contract under the launchers of all MPIs that are there: the module is built against
each.  usage: test_mpi.py TOP BUILD_FOLDER"""
import os
import pathlib
import shutil
import sys
import tempfile

import tap

top, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
scratch = pathlib.Path(tempfile.mkdtemp(prefix="weft-mpi-"))
# Names for pkg-config, and the launcher that goes with them.
OPEN_MPI, MPICH = ("ompi-c", "mpirun.openmpi"), ("mpich", "mpirun.mpich")
FLAGS = ["-std=c17", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-ffp-contract=off"]

PROGRAM = """\
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>
static float large[1 << 20];
static weft_result finish(weft_result result, weft_work work)
{
    return result == WEFT_OK ? weft_work_finish(work, WEFT_STREAM_HOST) : result;
}
static weft_result rank_main(weft_world *world, void *what)
{
    int self = weft_world_rank(world);
    weft_comm *comm;
    weft_work work;
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    config.backend = "mpi", config.timeout_ms = 2000;
    weft_result result = weft_comm_create(world, "all", NULL, 0, &config, &comm);
    for (int i = 0; i < 40 && result == WEFT_OK; i++)
        result = weft_barrier_run(comm, WEFT_STREAM_HOST);
    if (result != WEFT_OK)
        return result;
    if (strcmp((char *)what, "differ") == 0) {
        size_t count = self ? 7 : 8;
        result = weft_all_reduce_run(comm, large, large, count, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST);
    } else if (self == 0) {
        result = weft_all_reduce_start(comm, large, large, 1 << 20, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST, &work);
        (void)weft_comm_abort_because(comm, "enough");
        result = finish(result, work);
    } else {
        result = weft_irecv(comm, large, 1, WEFT_FP32, 0, WEFT_STREAM_HOST, &work);
        result = finish(result, work);
    }
    printf("rank %d: %s: %s\\n", self, weft_result_string(result), weft_last_error());
    weft_comm_destroy(comm);
    return WEFT_OK;
}
static void handler(int number)
{
    (void)number;
}
int main(int argc, char **argv)
{
    struct sigaction own = {.sa_handler = handler}, now;
    sigaction(SIGSEGV, &own, NULL), sigaction(SIGTERM, &own, NULL);
    weft_result result = weft_world_run(NULL, rank_main, argv[argc - 1]);
    if (result != WEFT_OK)
        fprintf(stderr, "%s: %s\\n", weft_result_string(result), weft_last_error());
    sigaction(SIGSEGV, NULL, &now);
    int kept = now.sa_handler == handler;
    sigaction(SIGTERM, NULL, &now);
    printf("handlers: %s\\n", kept && now.sa_handler == handler ? "kept" : "lost");
    return result != WEFT_OK;
}
"""


def pkg_config(name):
    return tap.run("pkg-config", "--cflags", "--libs", name).split()


def module(mpi):
    """The folder of a module that is linked to this MPI."""
    tap.not_sanitized()
    name, launcher = mpi
    folder = scratch / name
    if not shutil.which(launcher):
        raise tap.Skip(f"there is no {launcher}")
    try:
        flags = pkg_config(name)
    except (AssertionError, FileNotFoundError):
        raise tap.Skip(f"there are no headers of {name}") from None
    if not folder.exists():
        folder.mkdir()
        tap.run("cc", *FLAGS, "-fPIC", "-shared", f"-I{top}/libcomm", f"-I{top}/libcomm/include", "-o",
                folder / "libweft-backend-mpi.so", *sorted(top.glob("libcomm/backend/mpi/*.c")), f"-L{build}", "-lweft",
                "-pthread", *flags)
    return folder


def environment(folder):
    # Here Open MPI may be root's, and cores may be few.
    return {**os.environ, "WEFT_MODULE_PATH": str(folder), "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "WEFT_RENDEZVOUS": f"unix://{scratch}/meet", "UCX_LOG_LEVEL": "error"}


def launch(mpi, ranks, *command, **variables):
    """What all ranks say. Ranks are told who they are: not every launcher of MPI is known to weft."""
    who = "export WEFT_RANK=${OMPI_COMM_WORLD_RANK:-$PMI_RANK} WEFT_SIZE=${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE};"
    env = environment(module(mpi)) | variables
    return tap.run(mpi[1], "-n", ranks, "sh", "-c", f'{who} exec "$@"', "sh", *command, env=env, timeout=120)


def program():
    if not (scratch / "program").exists():
        includes = [f"-I{folder}" for folder in sorted(top.glob("*/include"))]
        tap.run("cc", *FLAGS, "-x", "c", "-", "-o", scratch / "program", *includes, f"-L{build}", "-lweft",
                f"-Wl,-rpath,{build}", input=PROGRAM)
    return scratch / "program"


def conforms(mpi):
    for ranks, more in (2, ("--full", "--only", "uint8", "--largest", "5000")), (2, ()), (5, ()):
        said = launch(mpi, ranks, build / "bench/weft", "perf", "conform", "--backend", "mpi", *more)
        assert f"{ranks} ranks: collectives, p2p messages, sums in any order" in said, said
        assert "cases, 0 failed" in said, said


def it_conforms_under_open_mpi():
    conforms(OPEN_MPI)


def it_conforms_under_mpich():
    conforms(MPICH)


def ends_when_it_is_aborted(mpi):
    """Rank 0 alone is in a sum, and MPI moves its memory: no operation can be given up there. None hangs."""
    module(mpi)
    said = launch(mpi, 2, program(), "abort")
    assert "rank 0: E_STUCK: " in said or "rank 0: E_ABORTED: " in said, said
    assert "rank 1: E_ABORTED: " in said and "enough" in said, said
    assert said.count("handlers: kept") == 2, said


def an_abort_ends_under_open_mpi():
    ends_when_it_is_aborted(OPEN_MPI)


def an_abort_ends_under_mpich():
    ends_when_it_is_aborted(MPICH)


def compares_later_operations(mpi):
    module(mpi)
    said = launch(mpi, 2, program(), "differ", WEFT_CHECK="1")
    assert said.count("E_MISMATCH: ") == 2 and "all_reduce of 7 fp32" in said and "all_reduce of 8 fp32" in said, said


def all_operations_are_compared_if_asked_for_under_open_mpi():
    compares_later_operations(OPEN_MPI)


def all_operations_are_compared_if_asked_for_under_mpich():
    compares_later_operations(MPICH)


def without_a_launcher_of_mpi_it_is_left_alone():
    for mpi in OPEN_MPI, MPICH:
        try:
            folder = module(mpi)
        except tap.Skip:
            continue
        env = environment(folder) | {"WEFT_LOG": "debug"}
        said = tap.run("bash", "-c", f"{build}/bench/weft run -n 2 -- {program()} abort 2>&1 || test $? = 1", env=env)
        assert "backend mpi is not for this world: no launcher of MPI has started this process" in said, said
        assert "no backend 'mpi' can carry these 2 ranks" in said and said.count("handlers: kept") == 2, said


try:
    tap.main(it_conforms_under_open_mpi, it_conforms_under_mpich, an_abort_ends_under_open_mpi,
             an_abort_ends_under_mpich,
             all_operations_are_compared_if_asked_for_under_open_mpi,
             all_operations_are_compared_if_asked_for_under_mpich, without_a_launcher_of_mpi_it_is_left_alone)
finally:
    shutil.rmtree(scratch)
