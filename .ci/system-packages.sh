#!/bin/sh
# Installs the missing apt packages of .ci/system-packages.txt. Requires root or sudo without a password.
#
#   sh .ci/system-packages.sh plan        print what install would do
#   sh .ci/system-packages.sh install     install; packages that cannot be installed are skipped (with CI set: an error)
#   sh .ci/system-packages.sh left-out    list the packages that are still missing
set -eu
cd -- "$(dirname -- "$0")/.."

say() { printf 'system packages: %s\n' "$1"; }

# Lines are "package | test | reason". The test may contain `||`: only the first and the last bar separate fields. "a/b" is
# package a, or b if apt does not have a.
missing() {
    grep -v '^ *\(#\|$\)' .ci/system-packages.txt | while IFS= read -r line; do
        package=${line%% | *}
        reason=${line##* | }
        test=${line#* | }
        test=${test% | *}
        sh -c "$test" >/dev/null 2>&1 </dev/null || printf '%s (%s)\n' "$package" "$reason"
    done
}

# Print the prefix for apt-get: "" as root, "sudo -n" if sudo needs no password. Status 1 if apt-get cannot be used.
rights() {
    command -v apt-get >/dev/null 2>&1 || return 1
    if [ "$(id -u)" -ne 0 ]; then
        sudo -n true >/dev/null 2>&1 || return 1
        echo "sudo -n"
    fi
}

# For "a/b", print the first name that apt knows, or the last name if apt knows none.
known() {
    if [ "${1#*/}" = "$1" ] || apt-cache show "${1%%/*}" >/dev/null 2>&1; then
        echo "${1%%/*}"
    else
        known "${1#*/}"
    fi
}

# Install all packages at once. If this fails, install them one by one, so that an unavailable package does not block others.
# $as is zero or two words, and $names is one word per package.
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
            say "not root: these packages stay missing and the tests that need them are skipped: $(join "$list")"
        fi
        ;;
    install)
        if as=$(rights); then
            log=$(mktemp "${TMPDIR:-/tmp}/bftrainer-apt.XXXXXX")
            if apt_install >"$log" 2>&1; then
                rm -f "$log"
                exit 0
            fi
            say "apt-get could not install all packages; see $log" >&2
            list=$(missing)
        fi
        if [ -n "${CI:-}" ]; then
            say "missing packages are an error in CI: $(join "$list")" >&2
            exit 1
        fi
        ;;
    left-out)
        say "not installed; tests that need these packages were skipped: $(join "$list")"
        ;;
    *)
        say "unknown action '${1:-}', expected plan, install or left-out" >&2
        exit 2
        ;;
esac
