#!/bin/sh
# Fetches other versions of Slurm for the tests: the packages of newer Debian releases, unpacked into .cache and nowhere else.
#
#   sh .ci/slurm-versions.sh plan       print what install would do
#   sh .ci/slurm-versions.sh install    fetch; on failure the tests of these versions are skipped (with CI set: an error)
#
# Downloaded with apt from the Debian mirror that this machine uses (DEBIAN_MIRROR names another one). apt verifies the packages
# against Debian's keys. The programs get absolute paths to their own libc and libraries, so a moved folder is fetched again.
# Jobs run this machine's programs. BFTRAINER_CACHE sets another directory; WITHOUT_SLURM_VERSIONS=1 skips all of this.
set -eu
cd -- "$(dirname -- "$0")/.."

# trixie had 24.11.5 and sid 26.05.5 when this was written; sid moves on.
suites="trixie sid"
cache=${BFTRAINER_CACHE:-$PWD/.cache}
key=/usr/share/keyrings/debian-archive-keyring.gpg
packages="slurmctld slurmd slurmdbd slurm-client slurm-wlm-basic-plugins slurm-wlm-mysql-plugin"

say() { printf 'slurm versions: %s\n' "$1"; }

folder() { echo "$cache/slurm-$1"; }

# The stamp is written last: the folder for which the programs were patched, and the version.
version() {
    stamp=$(cat "$(folder "$1")/stamp" 2>/dev/null) || return 1
    [ "${stamp%|*}" = "$(folder "$1")" ] && echo "${stamp#*|}"
}

missing() { for suite in $suites; do version "$suite" >/dev/null || printf '%s ' "$suite"; done; }

mirror() {
    if [ -n "${DEBIAN_MIRROR:-}" ]; then
        echo "$DEBIAN_MIRROR"
    else
        apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(CODENAME)' 2>/dev/null |
            awk '$1 == "Debian" && $3 !~ /security/ { print $2; exit }'
    fi
}

# Why nothing can be fetched here; empty if it can.
obstacle() {
    for program in apt-get dpkg patchelf; do
        command -v $program >/dev/null 2>&1 || { echo "$program is not installed"; return; }
    done
    [ -r "$key" ] || { echo "Debian's keys are not installed ($key, package debian-archive-keyring)"; return; }
    [ -n "$(mirror)" ] || echo "apt has no Debian mirror; set DEBIAN_MIRROR=URL"
}

fail() {
    say "$1" >&2
    [ -z "${CI:-}" ] || { say "skipping is an error in CI" >&2; exit 1; }
    say "the tests on these versions will be skipped" >&2
    exit 0
}

fetch() {
    suite=$1
    new=$(folder "$suite").building-$$
    log=$cache/slurm-$suite.log
    mkdir -p "$new"/apt/state/lists/partial "$new"/apt/cache/archives/partial
    trap 'rm -rf "$new"' EXIT
    : >"$new/apt/status"
    echo "deb [signed-by=$key] $(mirror) $suite main" >"$new/apt/sources.list"
    # Nothing of this machine's apt but its proxy and certificates; and never an unverified package.
    cat >"$new/apt/apt.conf" <<CONF
Dir::State "$new/apt/state"; Dir::State::status "$new/apt/status"; Dir::Cache "$new/apt/cache";
Dir::Etc::sourcelist "$new/apt/sources.list"; Dir::Etc::sourceparts "/dev/null"; Dir::Etc::preferencesparts "/dev/null";
APT::Install-Recommends "false"; APT::Sandbox::User "$(id -un)"; APT::Update::Post-Invoke-Success ""; Debug::NoLocking "1";
APT::Get::AllowUnauthenticated "false"; Acquire::AllowInsecureRepositories "false"; Acquire::Languages "none";
Acquire::Retries "3"; DPkg::Post-Invoke ""; APT::Update::Post-Invoke "";
CONF
    : >"$log"
    APT_CONFIG=$new/apt/apt.conf apt-get -q update >>"$log" 2>&1 || fail "could not read $suite's package list; see $log"
    # shellcheck disable=SC2086
    APT_CONFIG=$new/apt/apt.conf apt-get -q install -y -d $packages >>"$log" 2>&1 || fail "could not fetch $suite's Slurm; see $log"
    for deb in "$new"/apt/cache/archives/*.deb; do dpkg -x "$deb" "$new"; done
    number=$(basename "$new"/apt/cache/archives/slurmctld_*.deb | sed 's/^slurmctld_//; s/-.*//; s/.*%3a//')
    rm -rf "$new/apt" "$new/usr/share"
    patch_programs "$new" "$(folder "$suite")" >>"$log" 2>&1 || fail "patchelf failed; see $log"
    echo "$(folder "$suite")|$number" >"$new/stamp"
    rm -rf "$(folder "$suite")"
    mv "$new" "$(folder "$suite")"
    trap - EXIT
}

# Programs and plugins use the libc and the libraries beside them. $1: where they are now, $2: where they will be.
patch_programs() {
    plugins=$(cd "$1" && find usr/lib -type d -name slurm-wlm | head -n 1)
    loader=$(cd "$1" && find usr/lib* lib* -name 'ld-linux*.so.*' 2>/dev/null | head -n 1)
    libraries=${plugins%/slurm-wlm}
    run_path=$2/$plugins:$2/$libraries:$2/${libraries#usr/}
    mkdir "$1/bin"
    ln -s "$plugins" "$1/plugins"
    for program in "$1"/usr/bin/s* "$1"/usr/sbin/slurm*; do
        if [ -f "$program" ] && [ ! -L "$program" ] && patchelf --print-needed "$program" 2>/dev/null | grep -q slurm; then
            patchelf --set-interpreter "$2/$loader" --force-rpath --set-rpath "$run_path" "$program"
            name=$(basename "$program")
            ln -sf "..${program#"$1"}" "$1/bin/${name%-wlm}"
        fi
    done
    find "$1/$plugins" -name '*.so*' -type f -exec patchelf --force-rpath --set-rpath "$run_path" {} \;
}

[ -z "${WITHOUT_SLURM_VERSIONS:-}" ] || { say "skipped because WITHOUT_SLURM_VERSIONS is set"; exit 0; }
list=$(missing)

case ${1:-} in
    plan)
        for suite in $suites; do
            if number=$(version "$suite"); then
                say "Slurm $number of Debian $suite is in .cache"
            else
                say "apt fetches the Slurm of Debian $suite into .cache (40 MB, 90 MB unpacked, 10 to 30 seconds); nothing is installed"
            fi
        done
        ;;
    install)
        [ -n "$list" ] || exit 0
        why=$(obstacle)
        [ -z "$why" ] || fail "$why"
        mkdir -p "$cache"
        for suite in $list; do
            fetch "$suite"
            say "fetched Slurm $(version "$suite") of Debian $suite"
        done
        ;;
    *)
        say "unknown action '${1:-}', expected plan or install" >&2
        exit 2
        ;;
esac
