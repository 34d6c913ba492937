#!/bin/sh
# The apt packages of .ci/system-packages.txt: only what is missing, only as root (or with sudo that asks nothing).
#
#   sh .ci/system-packages.sh plan        say what install would do
#   sh .ci/system-packages.sh install     do it; what cannot be installed is left out (with CI set: a failure)
#   sh .ci/system-packages.sh left-out    list what is still missing
set -eu
cd -- "$(dirname -- "$0")/.."

say() { printf 'system packages: %s\n' "$1"; }

# "package | test | reason" with `||` allowed in the test: the first and the last bar count. "a/b" names a package that is
# called b where there is no a.
missing() {
    grep -v '^ *\(#\|$\)' .ci/system-packages.txt | while IFS= read -r line; do
        package=${line%% | *}
        reason=${line##* | }
        test=${line#* | }
        test=${test% | *}
        sh -c "$test" >/dev/null 2>&1 </dev/null || printf '%s (%s)\n' "$package" "$reason"
    done
}

# How apt-get may be called: "" as root, "sudo -n" where that asks nothing, status 1 where it may not.
rights() {
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" -ne 0 ]; then
        sudo -n true >/dev/null 2>&1 || return 1
        echo "sudo -n"
    fi
}

# Of "a/b" the first name that apt knows here; the last where it knows none.
known() {
    if [ "${1#*/}" = "$1" ] || apt-cache show "${1%%/*}" >/dev/null 2>&1; then
        echo "${1%%/*}"
    else
        known "${1#*/}"
    fi
}

# All at once; where that fails one by one, so that a package that this system does not have takes no other along.
# $as is zero or two words, and a list of packages one word each.
# shellcheck disable=SC2086
apt_install() {
    get="$as env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends"
    $as apt-get update
    names=$(printf '%s\n' "$list" | sed 's/ .*//' | while IFS= read -r package; do known "$package"; done)
    $get $names && return
    for name in $names; do $get "$name" || :; done
    [ -z "$(missing)" ]
}

join() { printf '%s\n' "$1" | paste -s -d ';' - | sed 's/;/, /g'; }

list=$(missing)
[ -n "$list" ] || { [ "${1:-}" != plan ] || say "nothing to install"; exit 0; }

case ${1:-} in
    plan)
        if rights >/dev/null; then
            say "apt installs $(join "$list")"
        else
            say "not root, so these stay missing and what needs them is left out: $(join "$list")"
        fi
        ;;
    install)
        if as=$(rights); then
            log=$(mktemp "${TMPDIR:-/tmp}/bftrainer-apt.XXXXXX")
            if apt_install >"$log" 2>&1; then
                rm -f "$log"
                exit 0
            fi
            say "apt-get could not install all of it, its words: $log" >&2
            list=$(missing)
        fi
        if [ -n "${CI:-}" ]; then
            say "missing, and CI leaves nothing out: $(join "$list")" >&2
            exit 1
        fi
        ;;
    left-out)
        say "left out, because it is not installed: $(join "$list")"
        ;;
    *)
        say "unknown action '${1:-}', expected plan, install or left-out" >&2
        exit 2
        ;;
esac
