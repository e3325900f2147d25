# SPDX-License-Identifier: Apache-2.0
# Sourced by bench/demo, tests/run and .ci/run: installs what is missing on Debian and builds. Needs nothing but the
# base system. Sets $top to the top of the tree.

top=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)

say() {
    printf '%s\n' "$*" >&2
}

# install PACKAGE...: those that are not installed yet.
install() {
    missing=
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
    done
    [ -z "$missing" ] && return 0
    say "installing$missing"
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || { say "neither root nor sudo to install:$missing"; exit 1; }
        as_root=sudo
    fi
    # shellcheck disable=SC2086
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update >&2 &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $missing >&2 ||
        { say "could not install:$missing"; exit 1; }
}

install_tools() {
    install gcc libc6-dev pkg-config meson ninja-build libhwloc-dev libopenblas-serial-dev libucx-dev "$@"
}

# configure FOLDER [OPTION...]: if need be.
configure() {
    folder=$1
    shift
    if [ ! -f "$folder/build.ninja" ]; then
        meson setup "$folder" "$top" "$@" >&2
    elif [ $# -gt 0 ]; then
        meson configure "$folder" "$@" >/dev/null
        ninja -C "$folder" build.ninja >&2 # what there is to build may have changed
    fi
}

# build FOLDER TARGETS [OPTION...]: configure, and build the targets; "" = all.
build() {
    folder=$1
    targets=$2
    shift 2
    configure "$folder" "$@"
    # shellcheck disable=SC2086
    ninja -C "$folder" $targets >&2
}
