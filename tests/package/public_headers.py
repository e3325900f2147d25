# SPDX-License-Identifier: Apache-2.0
"""The public headers of a tree, and what compiles against them."""
import pathlib
import shutil

import tap

# Optimized: only then it is seen that a variable may be unset.
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-O2", "-c", "-o", "/dev/null", "-"]


class PublicHeaders:
    def __init__(self, top):
        self.top = pathlib.Path(top)
        self.all = sorted(self.top.glob("*/include/weft/*.h"))
        self.folders = [f"-I{folder}" for folder in sorted(self.top.glob("*/include"))]
        self.folders += ["-idirafter", str(self.top / "tests/standin/include")]  # where there is no CUDA
        assert self.all, "no public headers"

    def compile_each(self, texts, compiler, *flags):
        """Compile texts, given with what they are called, without a warning."""
        if not shutil.which(compiler):
            raise tap.Skip(f"there is no {compiler}")
        for name, text in texts:
            try:
                tap.run(compiler, *flags, *STRICT, *self.folders, input=text)
            except AssertionError as failure:
                raise AssertionError(f"{name}: {failure}") from None
