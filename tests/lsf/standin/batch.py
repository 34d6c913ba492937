"""bsub, bkill and what stands in for sbatchd: dispatch, preemption, and one shepherd process per
running job.

Signals as LSF 10.1 sends them: SIGINT, SIGTERM, SIGKILL, JOB_TERMINATE_INTERVAL apart, to the job's
process group; to a parallel job SIGKILL alone unless LSB_USE_SEQUENTIAL_SIGNAL. At the run limit
SIGUSR2. A queue without TERMINATE_WHEN = PREEMPT suspends: SIGSTOP, and the job keeps its host.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from state import FINISHED, ROOT, State, locked, now_s, on_host, used, wanted_at

WITH_VALUE = {
    "-q",
    "-J",
    "-Jd",
    "-m",
    "-n",
    "-R",
    "-W",
    "-o",
    "-e",
    "-app",
    "-P",
    "-gpu",
    "-nnodes",
    "-E",
    "-cwd",
    "-w",
}


def bsub(words: list[str]) -> int:
    """Submit; the job's environment is this process's, as LSF does it. Without a command the script
    is standard input.
    """
    options, words = read_options(words)
    script = "" if words else sys.stdin.read()
    for line in re.findall(r"^#BSUB (.*)$", script, re.MULTILINE):
        options = {**read_options(shlex.split(line))[0], **options}
    with locked() as state:
        after = re.fullmatch(r"ended\((\d+)\)", options.get("-w", ""))
        if after and after[1] not in state["jobs"]:
            return refuse(f"{options['-w']}: No matching job found. Job not submitted.")
        queue = options.get("-q", "normal")
        if queue not in state["queues"]:
            return refuse(f"{queue}: No such queue. Job not submitted.")
        if (host := options.get("-m", "")) and host.split()[0] not in state["hosts"]:
            return refuse(
                f"{host}: Bad host name, host group name or cluster name. Job not submitted."
            )
        limit = options.get("-W", "").partition("/")[0]
        hours, _, minutes = limit.rpartition(":")
        job_id = str(state["next"])
        state["next"] += 1
        if script:
            spooled = ROOT / f"{job_id}.shell"
            spooled.write_text(script)
            words = ["/bin/bash", str(spooled)]
        nodes = int(options.get("-nnodes", "0")) or 1
        state["jobs"][job_id] = {
            "id": job_id,
            "user": os.environ.get("USER") or "user",
            "queue": queue,
            "stat": "PEND",
            "hosts": [],
            "after": after[1] if after else "",
            "project": options.get("-P", "default"),
            "asked": options.get("-m", "").split(),
            "nodes": nodes,
            "exclusive": "-x" in options,
            "slots_each": state["slots"]
            if "-nnodes" in options
            else int(options.get("-n", "1")) // nodes,
            "name": options.get("-J", ""),
            "description": options.get("-Jd", ""),
            "words": words,
            "out": options.get("-o", ""),
            "limit_s": 60.0 * (60 * int(hours or 0) + int(minutes)) if limit else None,
            "env": {k: v for k, v in os.environ.items() if k != "LSF_STANDIN_COMMAND"},
            "submitted_s": now_s(state),
            "started_s": None,
            "ended_s": None,
            "exit": None,
            "why": "",
            "kill": None,
            "cwd": str(Path.cwd()),
            "signals": [],
        }
        dispatch(state)
    print(f"Job <{job_id}> is submitted to queue <{queue}>.")
    return 0


def read_options(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Options with their values, and the command that follows."""
    options: dict[str, str] = {}
    while words and words[0].startswith("-"):
        name, *words = words
        if name in WITH_VALUE:
            options[name], *words = words
        else:
            options[name] = ""
    return options, words


def refuse(text: str) -> int:
    """On stderr, with LSF's status for everything."""
    print(text, file=sys.stderr)
    return 255


def dispatch(state: State) -> None:
    """Start what can start, by priority; end (or suspend) what must make way for it."""
    waiting = [
        job for job in state["jobs"].values() if job["stat"] == "PEND" and may_start(state, job)
    ]
    for job in sorted(
        waiting, key=lambda job: (-state["queues"][job["queue"]]["priority"], int(job["id"]))
    ):
        candidates = job["asked"] or sorted(state["hosts"])
        free = [host for host in candidates if fits(state, job, host)]
        if len(free) >= job["nodes"]:
            start(state, job, free[: job["nodes"]])
            continue
        if state["queues"][job["queue"]]["preemptable"]:
            continue
        for host in [host for host in candidates if host not in free][: job["nodes"] - len(free)]:
            for other in on_host(state, host, "RUN"):
                preempt(state, other)
        free = [
            host for host in candidates if fits(state, job, host)
        ]  # at once, where others were suspended
        if len(free) >= job["nodes"]:
            start(state, job, free[: job["nodes"]])


def may_start(state: State, job: State) -> bool:
    """Whether the job that it waits for (-w) is over."""
    return not job["after"] or state["jobs"].get(job["after"], {"stat": "DONE"})["stat"] in FINISHED


def fits(state: State, job: State, host: str) -> bool:
    """Whether it may start there now: slots are free, and its run limit ends before the host is
    wanted.
    """
    if state["hosts"][host]["status"] != "ok":
        return False
    wanted_s = wanted_at(state).get(host)
    backfills = state["queues"][job["queue"]]["preemptable"]
    if (
        backfills
        and wanted_s is not None
        and (job["limit_s"] is None or now_s(state) + job["limit_s"] > wanted_s)
    ):
        return False
    need = state["slots"] if job["exclusive"] else job["slots_each"]
    # A suspended job's slots are given away: that is what keeping memory and GPUs means.
    taken = sum(j["slots_each"] for j in on_host(state, host, "RUN", "UNKWN"))
    return taken + need <= state["slots"] and not any(
        j["exclusive"] for j in on_host(state, host, "RUN")
    )


def preempt(state: State, job: State) -> None:
    queue = state["queues"][job["queue"]]
    if not queue["preemptable"]:
        return
    action = queue.get("suspend") or ""
    if "PREEMPT" in queue.get("terminate_when", "") or action == "TERMINATE":
        job["kill"] = job["kill"] or "TERM_PREEMPT"
    else:
        job["stat"] = "SSUSP"
        with suppress(ProcessLookupError):
            os.killpg(job["pgid"], signal.SIGSTOP)


def start(state: State, job: State, hosts: list[str]) -> None:
    job.update(stat="RUN", hosts=hosts, started_s=now_s(state))
    with (ROOT / "sbatchd.log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-S", "-E", str(Path(__file__).with_name("main.py")), job["id"]],
            env={
                "LSF_ENVDIR": str(ROOT),
                "PATH": os.environ["PATH"],
                "LSF_STANDIN_COMMAND": "sbatchd",
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def sbatchd(job_id: str) -> int:
    """Run one job: start it, pass signals to it, tell how it ended, dispatch others."""
    with locked() as state:
        job = state["jobs"][job_id]
        slots = [
            f"{host} {state['slots'] if job['exclusive'] else job['slots_each']}"
            for host in job["hosts"]
        ]
        hostfile = ROOT / f"{job_id}.hostfile"
        names = [line.split() for line in slots]
        hostfile.write_text("".join(f"{name}\n" * int(count) for name, count in names))
        env = {
            **job["env"],
            "LSB_JOBID": job_id,
            "LSB_QUEUE": job["queue"],
            "LSB_JOBNAME": job["name"],
            "LSB_MCPU_HOSTS": " ".join(slots) + " ",
            "LSB_DJOB_HOSTFILE": str(hostfile),
            "LSB_BATCH_JID": job_id,
        }
        out = Path(job["cwd"], job["out"].replace("%J", job_id) or os.devnull)
        with out.open("ab") as output:
            process = subprocess.Popen(
                job["words"],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=job["cwd"],
            )
        job["pgid"] = process.pid
        interval_s = float(state["params"]["JOB_TERMINATE_INTERVAL"])
        gentle = state["sequential_signal"] or sum(int(count) for _, count in names) == 1
        limit_s = job["limit_s"]
    started_s, told_limit, sent = time.monotonic(), False, []
    signals: list[tuple[float, signal.Signals]] | None = None
    while process.poll() is None:
        time.sleep(0.03)
        if signals is None and (why := wants_killed(job_id)):
            ladder = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL] if gentle else [signal.SIGKILL]
            signals = [
                (time.monotonic() + i * interval_s, number) for i, number in enumerate(ladder)
            ]
            del why
        if limit_s is not None and not told_limit and time.monotonic() - started_s > limit_s:
            told_limit = True
            to_group(process.pid, signal.SIGUSR2)
        while signals and signals[0][0] <= time.monotonic():
            to_group(process.pid, signal.SIGCONT)
            sent.append(signals[0][1].name)
            to_group(process.pid, signals.pop(0)[1])
    to_group(process.pid, signal.SIGKILL)
    with locked() as state:
        if (ended := state["jobs"].get(job_id)) is not None:
            ended.update(
                stat="EXIT" if process.returncode or ended["kill"] else "DONE",
                exit=process.returncode,
            )
            ended.update(ended_s=now_s(state), why=ended["kill"] or "", signals=sent)
            if ended["kill"] and state["queues"][ended["queue"]].get("rerunnable"):
                ended.update(stat="PEND", hosts=[], kill=None)
        dispatch(state)
    return 0


_seen: dict[str, tuple[tuple[int, int], str | None]] = {}


def wants_killed(job_id: str) -> str | None:
    """The reason, if its end was asked for; looked at only when the file has changed."""
    found = (ROOT / "state.json").stat()
    stamp = (
        found.st_ino,
        found.st_mtime_ns,
    )  # two changes within a tick of the file system's clock have the same time
    if _seen.get(job_id, ((0, 0), None))[0] != stamp:
        with locked() as state:
            _seen[job_id] = (stamp, state["jobs"].get(job_id, {}).get("kill"))
    return _seen[job_id][1]


def to_group(pgid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pgid, number)


def bkill(words: list[str]) -> int:
    """``bkill [-s NUMBER|NAME] ID ...``; a job that is over or unknown is told on stderr."""
    number = words[words.index("-s") + 1] if "-s" in words else None
    status = 0
    with locked() as state:
        for job_id in [word for word in words if word.isdecimal() and word != number]:
            job = state["jobs"].get(job_id)
            if job is None:
                status = refuse(f"Job <{job_id}>: No matching job found")
            elif job["stat"] in FINISHED:
                status = refuse(f"Job <{job_id}>: Job has already finished")
            elif job["stat"] == "PEND":
                job.update(stat="EXIT", why="TERM_OWNER", ended_s=now_s(state))
                print(f"Job <{job_id}> is being terminated")
            else:
                job["kill"] = job["kill"] or "TERM_OWNER"
                print(f"Job <{job_id}> is being terminated")
        dispatch(state)
    return status


def bmod(words: list[str]) -> int:
    """``bmod -W MINUTES/HOST ID``: the run limit of a job, which counts from its start."""
    options, ids = read_options(words)
    minutes = options.get("-W", "").partition("/")[0]
    if len(ids) != 1 or not minutes.isdecimal():
        return refuse("bmod: Illegal option")
    with locked() as state:
        if not state["mod_all_jobs"]:
            return refuse(f"Job <{ids[0]}>: Cannot change parameters of a started job")
        job = state["jobs"].get(ids[0])
        if job is None or job["stat"] in FINISHED:
            return refuse(f"Job <{ids[0]}>: Job has already finished")
        job["limit_s"] = 60.0 * int(minutes)
    print(f"Parameters of job <{ids[0]}> are being changed")
    return 0


__all__ = ["bkill", "bmod", "bsub", "dispatch", "sbatchd", "used"]
