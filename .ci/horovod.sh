#!/bin/sh
# Installs Elastic Horovod for the tests: torch, Lightning, torchft and Horovod in .venv, nothing outside this directory. Requires .venv
# (environment.sh dev).
#
#   sh .ci/horovod.sh plan       print what install would do and how long it takes
#   sh .ci/horovod.sh install    install; tests of packages that cannot be installed are skipped (with CI set: an error)
#   sh .ci/horovod.sh left-out   name the packages that are still missing
#
# Horovod 0.28.1 is the newest release and does not support torch 2.1 or later. Its source is not changed here; only the
# language standard for CMake is set (horovod-toolchain.cmake). Gloo only: no MPI, no GPU, whatever torch has. The wheel is specific to a Python
# and a torch version and is kept in .cache, so it is built once. BFTRAINER_CACHE sets another directory; WITHOUT_HOROVOD=1
# skips all of this.
set -eu
cd -- "$(dirname -- "$0")/.."

horovod=0.28.1
torch=2.13.0
lightning=2.6.6
torchft=0.2.0
transformers=5.23.0
accelerate=1.15.0
python=.venv/bin/python
log=.venv/horovod.log
here=$PWD

say() { printf 'horovod: %s\n' "$1"; }

# The packages that are missing or of another version, comma-separated.
missing() {
    "$python" - "horovod $horovod" "torch $torch" "lightning $lightning" "torchft $torchft" "transformers $transformers" \
        "accelerate $accelerate" <<'PYTHON' 2>/dev/null || echo "everything"
import sys
from importlib.metadata import PackageNotFoundError, version

def found(name):
    try:
        return version(name).partition("+")[0]
    except PackageNotFoundError:
        return None

print(", ".join(each for each in sys.argv[1:] if found(each.split()[0]) != each.split()[1]))
PYTHON
}

installed() { [ -x "$python" ] && [ -z "$(missing)" ]; }

# One directory per Python, architecture, torch, Horovod and toolchain file.
cache() {
    tag=$("${1:-$python}" -c 'import platform, sys; print("cp%d%d-%s" % (*sys.version_info[:2], platform.machine()))')
    sum=$(cksum <.ci/horovod-toolchain.cmake | cut -d ' ' -f 1)
    echo "${BFTRAINER_CACHE:-$here/.cache}/horovod-$horovod-torch-$torch-$tag-$sum"
}

wheel() { find "$(cache)" -name 'horovod-*.whl' 2>/dev/null | head -n 1; }

# Compiling torch's headers takes up to 1.5 GB per process.
jobs() {
    cores=$(nproc 2>/dev/null || echo 1)
    room=$(awk '/MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo 2>/dev/null || echo 1)
    [ "$room" -ge 1 ] || room=1
    if [ "$cores" -lt "$room" ]; then echo "$cores"; else echo "$room"; fi
}

# CONSTRAINTS: as for environment.sh, which has checked the file. pip splits the variable at blanks, so the path stays relative.
if [ -n "${CONSTRAINTS:-}" ]; then
    export PIP_CONSTRAINT="$CONSTRAINTS"
fi

pip() { nice -n 10 "$python" -m pip --disable-pip-version-check "$@" >>"$log" 2>&1; }

# Build in a temporary directory and rename it at the end, so that an interrupted or concurrent build does no harm.
build() {
    building=$(cache).building-$$
    trap 'rm -rf "$building"' EXIT
    say "building Horovod $horovod ..."
    pip install "setuptools<81" wheel packaging cffi || return 1
    # torch needs CMake 3.18; CMAKE_TOOLCHAIN_FILE as an environment variable needs 3.21.
    cmake --version 2>/dev/null | awk 'NR == 1 { split($3, v, "."); exit !(v[1] > 3 || v[2] >= 21) }' ||
        pip install "cmake>=3.21" || return 1
    PATH="$here/.venv/bin:$PATH"
    export PATH
    export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1
    export HOROVOD_WITH_GLOO=1 HOROVOD_CPU_OPERATIONS=GLOO HOROVOD_WITHOUT_MPI=1 HOROVOD_WITHOUT_NVTX=1
    export CMAKE_TOOLCHAIN_FILE="$here/.ci/horovod-toolchain.cmake" CMAKE_POLICY_VERSION_MINIMUM=3.5 MAKEFLAGS="-j$(jobs)"
    # pip's cache does not distinguish torch versions and could return a wheel that was built with another torch.
    mkdir -p "$building" &&
        pip wheel --no-cache-dir --no-deps --no-build-isolation --no-binary horovod "horovod==$horovod" -w "$building" &&
        rm -rf "$(cache)" && mv "$building" "$(cache)"
}

# One that does not work is removed, so that its tests are skipped.
install_horovod() {
    [ -n "$(wheel)" ] || build || return 1
    pip install cloudpickle psutil pyyaml cffi packaging && pip install --no-deps --force-reinstall "$(wheel)" || return 1
    "$python" -c 'import horovod.torch as hvd; hvd.init()' >>"$log" 2>&1 || { pip uninstall --yes horovod || :; return 1; }
}

[ -z "${WITHOUT_HOROVOD:-}" ] || { say "left out because WITHOUT_HOROVOD is set: torch, Horovod, torchft, Lightning and transformers; their tests are skipped"; exit 0; }

case ${1:-} in
    plan)
        if installed; then
            say "torch $torch and Horovod $horovod are installed"
        elif [ -x "$python" ] && [ -n "$(wheel)" ]; then
            say "pip installs torch $torch, Lightning $lightning, torchft $torchft, transformers, accelerate and the cached Horovod $horovod wheel into .venv: about 1 minute"
        else
            say "pip installs torch $torch, Lightning $lightning, torchft $torchft, transformers and accelerate into .venv (800 MB on disk where the package index serves its CPU build, several GB otherwise)"
            say "Horovod $horovod is built once against this torch: 3 to 9 minutes on 2 cores; the wheel is kept in .cache"
        fi
        ;;
    install)
        installed && exit 0
        started=$(date +%s)
        : >"$log"
        say "installing torch $torch; pip output: $log ..."
        # No step needs the one before, except that all need torch.
        if pip install "torch==$torch"; then
            pip install "lightning==$lightning" || :
            pip install "torch==$torch" "torchft==$torchft" || :
            pip install "transformers==$transformers" "accelerate==$accelerate" || :
            install_horovod || :
        fi
        if installed; then
            say "ready in $(($(date +%s) - started)) s"
        elif [ -n "${CI:-}" ]; then
            say "not installed, an error in CI: $(missing); see $here/$log" >&2
            exit 1
        fi
        ;;
    left-out)
        installed || say "not installed, and the tests that need them were skipped: $(missing); see $here/$log"
        ;;
    *)
        say "unknown action '${1:-}', expected plan, install or left-out" >&2
        exit 2
        ;;
esac
