#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An installed weft can be used through pkg-config and through CMake, by each of its headers alone.
usage: test_install.py TOP BUILD_FOLDER"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import installed
import tap

top, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
scratch = pathlib.Path(tempfile.mkdtemp(prefix="weft-install-"))

PROGRAM = """\
#include <stdio.h>
#include <weft/weft.h>
static weft_result rank_main(weft_world *world, void *argument)
{
    int ranks[2] = {0, 1};
    float mine = 1.0f + (float)weft_world_rank(world), *sum = (float *)argument;
    weft_comm *comm;
    weft_result result = weft_comm_create(world, "both", ranks, 2, NULL, &comm);
    if (result != WEFT_OK)
        return result;
    result = weft_all_reduce_run(comm, &mine, &sum[weft_world_rank(world)], 1, WEFT_FP32, WEFT_SUM, WEFT_STREAM_HOST);
    weft_comm_destroy(comm);
    return result;
}
int main(void)
{
    float sums[2] = {0, 0};
    weft_result result = weft_team_run(2, NULL, rank_main, sums);
    printf("%s %g %g\\n", weft_result_string(result), sums[0], sums[1]);
    return result != WEFT_OK;
}
"""


def environment():
    return installed.environment(installed.install(build, scratch), scratch)


def expect_sum(program, **more):
    got = tap.run(program, env={**environment(), **more})
    assert got == "OK 3 3\n", got


def a_program_builds_with_pkg_config():
    for name, compiler, flags in ("user.c", "cc", ["-std=c17"]), ("user.cc", "c++", ["-std=c++17"]):
        if not shutil.which(compiler):
            raise tap.Skip(f"there is no {compiler}")
        (scratch / name).write_text(PROGRAM)
        found = tap.run("pkg-config", "--cflags", "--libs", "weft", env=environment()).split()
        tap.run(compiler, *flags, "-Wall", "-Wextra", "-Werror", scratch / name, *found, "-o", scratch / "user")
        expect_sum(scratch / "user")


def a_program_builds_with_cmake():
    if not shutil.which("cmake"):
        raise tap.Skip("there is no cmake")
    project = scratch / "project"
    project.mkdir()
    (project / "user.c").write_text(PROGRAM)
    (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.13)\nproject(user C)\n"
                                            "find_package(weft 0.1 REQUIRED CONFIG)\n"
                                            "find_package(weft REQUIRED CONFIG)\n"  # a dependency may have done so
                                            "add_executable(user user.c)\n"
                                            "target_link_libraries(user weft::weft)\n")
    config = next(installed.install(build, scratch).rglob("weftConfig.cmake")).parent
    tap.run("cmake", "-S", project, "-B", project / "build", f"-Dweft_DIR={config}")
    tap.run("cmake", "--build", project / "build")
    expect_sum(project / "build" / "user")


def headers_installed():
    """Their names; those for users of CUDA and NCCL come last, and want headers of these."""
    installed.install(build, scratch)
    folder = next((scratch / "root").rglob("weft.h")).parent
    return sorted((path.name for path in folder.iterdir()), key=lambda name: (name in ("cuda.h", "nccl.h"), name))


def every_public_header_is_installed():
    there = set(headers_installed())
    known = {path.name for path in top.glob("*/include/weft/*.h")}
    assert there <= known and known - there <= {"cuda.h", "nccl.h"}, there ^ known


def every_header_compiles_alone_as_installed():
    found = tap.run("pkg-config", "--cflags", "weft", env=environment()).split()
    standin = ["-idirafter", top / "tests/standin/include"]  # where there is no CUDA
    for compiler, language in ("cc", ["-x", "c", "-std=c99"]), ("c++", ["-x", "c++", "-std=c++17"]):
        if not shutil.which(compiler):
            raise tap.Skip(f"there is no {compiler}")
        for name in headers_installed():
            tap.run(compiler, *language, "-Wall", "-Wextra", "-pedantic", "-Werror", "-c", "-o", "/dev/null", "-",
                    *found, *standin, input=f"#include <weft/{name}>\nint use;\n")


def every_header_can_be_used_through_cmake():
    if not shutil.which("cmake"):
        raise tap.Skip("there is no cmake")
    project = scratch / "headers"
    project.mkdir()
    names = [name for name in headers_installed() if name not in ("cuda.h", "nccl.h")]
    for name in names:
        (project / f"{name}.c").write_text(f"#include <weft/{name}>\nint use_{name[:-2]};\n")
    (project / "main.c").write_text("#include <weft/version.h>\nint main(void) { return weft_version() <= 0; }\n")
    sources = " ".join(f"{name}.c" for name in names)
    (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.13)\nproject(user C)\n"
                                            "find_package(weft REQUIRED CONFIG)\n"
                                            f"add_executable(user main.c {sources})\n"
                                            "target_link_libraries(user weft::weft)\n")
    config = next(installed.install(build, scratch).rglob("weftConfig.cmake")).parent
    tap.run("cmake", "-S", project, "-B", project / "build", f"-Dweft_DIR={config}")
    tap.run("cmake", "--build", project / "build")
    tap.run(project / "build" / "user", env=environment())


def cmake_is_told_which_versions_fit():
    if not shutil.which("cmake"):
        raise tap.Skip("there is no cmake")
    config = next(installed.install(build, scratch).rglob("weftConfig.cmake")).parent
    asked = ["0.1", "0.1.0", "0.2", "0.0", "1.1", "0.1.99"]
    project = scratch / "versions"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(user C)\n"
        + "".join(f"find_package(weft {version} QUIET CONFIG)\nmessage(\"{version}=${{weft_FOUND}}\")\n"
                  for version in asked))
    done = subprocess.run(["cmake", "-S", project, "-B", project / "build", f"-Dweft_DIR={config}"],
                          capture_output=True, text=True, check=True)
    fit = re.findall(r"^([\d.]+)=1$", done.stderr, re.M)
    assert fit == ["0.1", "0.1.0"], done.stderr


def only_what_is_linked_is_named():
    for question, answer in ("--libs", ["-lweft"]), ("--print-requires-private", []):
        found = tap.run("pkg-config", question, "--static", "weft", env=environment()).split()
        assert [word for word in found if not word.startswith("-L")] == answer, found


def what_is_for_building_can_be_installed_alone():
    tap.not_sanitized()
    folder = scratch / "devel"
    tap.run("meson", "install", "-C", build, "--no-rebuild", "--destdir", folder, "--tags", "devel")
    names = {path.name for path in folder.rglob("*")}
    assert {"weft.h", "weft.pc", "weftConfig.cmake", "weftConfigVersion.cmake", "libweft.so"} <= names, names
    assert "bin" not in names, names


def the_installed_command_finds_its_library():
    folder = installed.command(installed.install(build, scratch), scratch)
    assert tap.run(folder / "weft", "--version").startswith("weft ")


def backends_are_found_beside_the_library():
    library = installed.install(build, scratch)
    if not (library / "libweft-backend-ucx.so").exists():
        raise tap.Skip("built without UCX")
    (scratch / "user.c").write_text(PROGRAM)
    found = tap.run("pkg-config", "--cflags", "--libs", "weft", env=environment()).split()
    tap.run("cc", scratch / "user.c", *found, "-o", scratch / "user")
    expect_sum(scratch / "user", WEFT_BACKEND="ucx")


try:
    tap.main(a_program_builds_with_pkg_config, a_program_builds_with_cmake, every_public_header_is_installed,
             every_header_compiles_alone_as_installed, every_header_can_be_used_through_cmake,
             cmake_is_told_which_versions_fit,
             only_what_is_linked_is_named, what_is_for_building_can_be_installed_alone,
             the_installed_command_finds_its_library, backends_are_found_beside_the_library)
finally:
    shutil.rmtree(scratch)
