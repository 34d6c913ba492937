#!/bin/sh
# Creates or completes .venv. Changes nothing outside it.
#
#   sh .ci/environment.sh runtime    bftrainer (editable) and its dependencies
#   sh .ci/environment.sh dev        the same, with the dependencies of tests and linters
#
# CONSTRAINTS=.ci/constraints.txt installs the versions that the file has (make constraints), as the public workflows do. It is not
# the default, since the package index of a machine may lack some of them.
# PYTHON=... selects the interpreter. The default is python3, or the first of python3.14 .. python3.11 that is new enough.
# If the environment is complete and up to date, the check takes one short python call. A stamp is written last, so an
# interrupted run leaves none and the next run starts from scratch. The output of venv and pip goes to .venv/setup.log.
set -eu

kind=${1:-runtime}
case $kind in
    runtime) what=. extra="" ;;
    dev) what=".[dev]" extra=" and its test dependencies" ;;
    *) echo "environment: unknown kind '$kind', expected runtime or dev" >&2; exit 2 ;;
esac
cd -- "$(dirname -- "$0")/.."

venv=.venv
log=$venv/setup.log
started=$(date +%s)

say() { printf 'environment: %s\n' "$1"; }
fail() { printf 'environment: %s\n' "$1" >&2; exit 1; }

# Unset variables that would make python or pip leave .venv. PIP_USER=0 also overrides "user = true" in a pip.conf. The
# user's settings for package sources (index, mirror, proxy, certificate, cache, constraints) are kept.
unset PYTHONHOME PYTHONPATH PYTHONUSERBASE PYTHONSTARTUP PYTHONEXECUTABLE PYTHONSAFEPATH PYTHONPLATLIBDIR || :
unset VIRTUAL_ENV __PYVENV_LAUNCHER__ VIRTUALENV_SYSTEM_SITE_PACKAGES || :
unset PIP_TARGET PIP_PREFIX PIP_ROOT PIP_PYTHON PIP_REQUIRE_VIRTUALENV PIP_NO_DEPS PIP_DRY_RUN PIP_REQUIREMENT || :
unset PIP_EDITABLE PIP_NO_BUILD_ISOLATION PIP_IGNORE_INSTALLED PIP_FORCE_REINSTALL PIP_LOG PIP_QUIET PIP_VERBOSE || :
export PIP_USER=0 PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_RETRIES="${PIP_RETRIES:-3}"

constraints=${CONSTRAINTS:-}
if [ -n "$constraints" ]; then
    [ -r "$constraints" ] || fail "cannot read $constraints, which CONSTRAINTS names; write it with: make constraints"
fi

# --- the interpreter ------------------------------------------------------------------------------------------------

version_of() { "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null; }

new_enough() {
    major=${1%%.*}
    minor=${1#*.}
    minor=${minor%%.*}
    [ "$major" -gt 3 ] || { [ "$major" -eq 3 ] && [ "$minor" -ge 11 ]; }
}

find_python() {
    found=""
    for python in "${PYTHON:-python3}" ${PYTHON:-python3.14 python3.13 python3.12 python3.11}; do
        version=$(version_of "$python") || continue
        if new_enough "$version"; then
            return
        fi
        found=${found:-"$python is $version"}
    done
    if [ -n "$found" ]; then
        fail "$found, bftrainer needs Python 3.11 or newer; specify one with: make PYTHON=/path/to/python3.12 ..."
    fi
    fail "${PYTHON:-python3} not found; bftrainer needs Python 3.11 or newer (Debian, Ubuntu: apt install python3 python3-venv)"
}

# If the interpreter belongs to a virtual environment (perhaps this one), use its base interpreter instead.
leave_active_environment() {
    base=$("$python" -c 'import sys; print(sys._base_executable if sys.prefix != sys.base_prefix else "")' 2>/dev/null) || base=""
    if [ -n "$base" ] && [ -x "$base" ]; then
        python=$base
    fi
}

# --- the state of the environment -------------------------------------------------------------------------------------

# One line that identifies the interpreter, the directory (an environment cannot be moved), the parts of pyproject.toml that pip
# reads, and the constraints.
current_key() {
    "$python" - "$constraints" <<'PYTHON' || fail "cannot read pyproject.toml in $PWD"
import hashlib, os, re, sys
with open("pyproject.toml", encoding="utf-8") as file:
    sections = re.split(r"^(?=\[)", file.read(), flags=re.MULTILINE)
installs = [s for s in sections if not re.match(r"\[+tool\.(?!hatch)", s)]
if sys.argv[1]:
    with open(sys.argv[1], encoding="utf-8") as file:
        installs.append(file.read())
made_for = [sys.version, sys.base_prefix, os.getcwd()]
print(hashlib.sha256("\n".join(made_for).encode()).hexdigest(), hashlib.sha256("".join(installs).encode()).hexdigest())
PYTHON
}

stamp_of() { cat "$venv/.made-$1" 2>/dev/null || :; }
works() { "$venv/bin/python" -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# current: nothing to do. complete: pip updates it. foreign: a working environment that the user created; pip adds to it.
# In all other cases the environment is created from scratch.
state() {
    if [ ! -e "$venv" ] && [ ! -L "$venv" ]; then
        echo missing
    elif ! works; then
        echo broken
    elif [ "$(stamp_of dev)" = "$key" ] || [ "$(stamp_of "$kind")" = "$key" ]; then
        echo current
    elif [ ! -e "$log" ]; then
        echo foreign
    else
        stamp=$(stamp_of runtime)
        if [ -n "$stamp" ] && [ "${stamp%% *}" = "${key%% *}" ]; then echo complete; else echo broken; fi
    fi
}

# --- creating the environment -----------------------------------------------------------------------------------------

make_venv() {
    if ! { rm -rf "$venv" && mkdir "$venv" && : >"$log"; } 2>/dev/null; then
        fail "cannot write $PWD/$venv (no permission, or the disk is full)"
    fi
    if "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        set -- "$python" -m venv "$venv"
    elif "$python" -m virtualenv --version >/dev/null 2>&1; then
        set -- "$python" -m virtualenv --python "$python" "$venv"
    elif command -v virtualenv >/dev/null 2>&1; then
        set -- virtualenv --python "$python" "$venv"
    else
        rm -rf "$venv"
        fail "$python has neither venv with ensurepip nor virtualenv; Debian, Ubuntu: apt install python3-venv"
    fi
    if ! "$@" >>"$log" 2>&1 || ! works; then
        explain "cannot create $PWD/$venv with $python"
    fi
}

install() {
    if ! "$venv/bin/python" -m pip install --progress-bar off ${constraints:+-c "$constraints"} -e "$what" >>"$log" 2>&1; then
        explain "pip could not install bftrainer$extra"
    fi
    # dev includes runtime
    printf '%s\n' "$key" >"$venv/.made-runtime"
    if [ "$kind" = dev ]; then
        printf '%s\n' "$key" >"$venv/.made-dev"
    fi
}

# Reduce pip's output to a one-line error.
explain() {
    wanted=$(sed -n 's/.*No matching distribution found for \([^ ]*\).*/\1/p' "$log" | tail -n 1)
    mirror="to use a mirror, set PIP_INDEX_URL, PIP_PROXY or pip.conf. pip output: $PWD/$log"
    if grep -q 'No space left on device' "$log"; then
        fail "the disk is full. pip output: $PWD/$log"
    elif grep -qE "$unreachable" "$log"; then
        fail "no network: could not fetch ${wanted:-every package}; $mirror"
    elif [ -n "$wanted" ] && grep -q 'from versions: none' "$log"; then
        # With PIP_RETRIES=0, pip prints only this message for all causes.
        fail "could not fetch $wanted: no network, or the package index does not have it; $mirror"
    elif [ -n "$wanted" ]; then
        fail "the package index has no $wanted for Python $version; $mirror"
    fi
    fail "$1: see $PWD/$log"
}
unreachable='NewConnectionError|ConnectTimeout|ReadTimeout|Max retries|ProxyError|SSLError|NameResolution|Connection (refused|aborted|broken|reset)|connection broken'

find_python
leave_active_environment
key=$(current_key)
case $(state) in
    current)
        say "$venv is up to date (Python $version)"
        exit 0
        ;;
    missing)
        say "creating $venv with Python $version ..."
        make_venv
        ;;
    broken)
        say "$venv is incomplete or belongs to another Python or directory; recreating it with Python $version ..."
        make_venv
        ;;
    complete)
        # If pyproject.toml has changed, neither stamp is valid until pip is done. Adding dev to a current runtime keeps its stamp.
        if [ "$(stamp_of runtime)" != "$key" ]; then
            rm -f "$venv/.made-runtime" "$venv/.made-dev"
        fi
        ;;
    foreign)
        say "$venv was created by you; installing into it"
        ;;
esac
say "installing bftrainer$extra into $venv; pip output: $log ..."
install
say "ready in $(($(date +%s) - started)) s"
