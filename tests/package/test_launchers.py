#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real launchers start the README's first program: those that are installed.  usage: test_launchers.py TOP BUILD"""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import installed
import tap

top, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
scratch = pathlib.Path(tempfile.mkdtemp(prefix="weft-launchers-"))


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise tap.Skip(f"{program} is not installed")


def environment():
    """With the program built, and for launchers that may be root's, on few cores."""
    library = installed.install(build, scratch)
    env = {name: value for name, value in installed.environment(library, scratch).items()
           if not name.startswith(("OMPI_", "PMI", "SLURM_", "MASTER_", "TORCHELASTIC_"))}
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
               PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")
    source = scratch / "first.c"
    if not source.exists():
        shutil.copy(top / "bench/minimal/first.c", source)
        tap.run("bash", "-c", "cc -std=c17 first.c $(pkg-config --cflags --libs weft) -o first", cwd=scratch, env=env)
    return env


def four_ranks(*command, **more):
    output = tap.run("timeout", "60", *command, cwd=scratch, env={**environment(), **more})
    got = sorted(re.findall(r"rank \d of \d: .*", output))
    assert got == [f"rank {rank} of 4: y = 3.0 x -1.0" for rank in range(4)], f"{' '.join(command)}\n{output}"


def open_mpi_starts_ranks():
    need("mpirun.openmpi")
    four_ranks("mpirun.openmpi", "-n", "4", "./first")
    four_ranks("mpirun.openmpi", "-n", "4", "sh", "-c", "true; ./first")


def mpich_starts_ranks():
    need("mpirun.mpich")
    four_ranks("mpirun.mpich", "-n", "4", "./first")
    four_ranks("mpirun.mpich", "-n", "4", "sh", "-c", "true; ./first")


def torchrun_starts_ranks():
    for python in "/usr/bin/python3", sys.executable:  # Debian's torch is that of Debian's python
        if subprocess.run([python, "-c", "import torch.distributed.run"], capture_output=True).returncode == 0:
            break
    else:
        raise tap.Skip("torch is not installed")
    # The streams of no rank are redirected: torch 1.13 cannot say so on Python 3.11 without naming another one.
    four_ranks(python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "4", "--redirects", "9:1",
               "--tee", "9:1", "--no_python", "./first")


held = []  # sockets that keep ports from all who do not allow the reuse of addresses, as servers do


def reserve_port():
    held.append(socket.socket())
    held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held[-1].bind(("", 0))
    return held[-1].getsockname()[1]


def slurm_conf(folder):
    host = socket.gethostname().split(".")[0]
    lines = f"""ClusterName=weft
SlurmctldHost={host}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPort={reserve_port()}
SlurmdPort={reserve_port()}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
NodeName={host} CPUs=4 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES State=UP
"""
    (folder / "slurm.conf").write_text(lines)
    for name in "state", "spool":
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    return folder / "slurm.conf"


def slurm_starts_ranks():
    need("srun", "slurmctld", "slurmd", "munged")
    if os.geteuid() != 0:
        raise tap.Skip("a Slurm of one's own needs root")
    folder = scratch / "slurm"
    folder.mkdir()
    scratch.chmod(0o755)  # munged wants it so
    conf = slurm_conf(folder)
    env = {**environment(), "SLURM_CONF": str(conf)}
    daemons = (["munged", "--foreground", "--force", f"--socket={folder}/munge.socket",
                f"--key-file={folder}/munge.key", f"--pid-file={folder}/munged.pid",
                f"--log-file={folder}/munged.log", f"--seed-file={folder}/seed"],
               ["slurmctld", "-D", "-f", conf], ["slurmd", "-D", "-f", conf])
    started = []
    try:
        with open(folder / "log", "w") as log:
            for daemon in daemons:
                started.append(subprocess.Popen(daemon, stdout=log, stderr=log, env=env))
                time.sleep(0.5)
            for _ in range(60):
                idle = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True, env=env)
                if idle.stdout.strip() == "idle" or any(daemon.poll() is not None for daemon in started):
                    break
                time.sleep(0.5)
        if idle.stdout.strip() != "idle":
            raise tap.Skip("Slurm does not run here: " + (folder / "log").read_text()[-200:].replace("\n", " "))
        four_ranks("srun", "-n", "4", "./first", SLURM_CONF=str(conf))
        four_ranks("srun", "--mpi=pmi2", "-n", "4", "./first", SLURM_CONF=str(conf))
    finally:
        for daemon in reversed(started):
            daemon.terminate()
            daemon.wait()


try:
    tap.main(open_mpi_starts_ranks, mpich_starts_ranks, torchrun_starts_ranks, slurm_starts_ranks)
finally:
    shutil.rmtree(scratch)
