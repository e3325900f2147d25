# SPDX-License-Identifier: Apache-2.0
"""An installed copy of weft below a scratch folder, for tests that do what users do."""
import os

import tap


def install(build, scratch):
    """Install once; answers the folder of the library. The prefix is the real one below the scratch folder."""
    tap.not_sanitized()
    root = scratch / "root"
    if not root.exists():
        tap.run("meson", "install", "-C", build, "--no-rebuild", "--destdir", root)
    return next(root.rglob("weft.pc")).parent.parent


def environment(library, scratch):
    """What pkg-config and the linker want to know of a copy that is not in its place."""
    return {**os.environ, "LD_LIBRARY_PATH": str(library), "PKG_CONFIG_PATH": str(library / "pkgconfig"),
            "PKG_CONFIG_SYSROOT_DIR": str(scratch / "root")}


def command(library, scratch):
    """The folder of the `weft` command; skips if this build has none."""
    for folder in library.parents:
        if (folder / "bin" / "weft").exists():
            return folder / "bin"
        if folder == scratch:
            break
    raise tap.Skip("this build has no command")
