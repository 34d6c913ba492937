"""bhosts, bjobs, bslots, brsvs, bqueues, bparams and bapp, in the shapes of the recorded
samples.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

from state import FINISHED, State, locked, now_s, used, wanted_at

REPLACED = {"status": "STATUS", "jobid": "JOBID"}


def option(words: list[str], name: str) -> str | None:
    return words[words.index(name) + 1] if name in words else None


def quoted(text: str) -> str:
    """A string in JSON; with STANDIN_RAW_JSON without escapes, as LSF's tools have printed it."""
    return f'"{text}"' if os.environ.get("STANDIN_RAW_JSON") else json.dumps(text)


def as_json(command: str, kind: str, fields: list[str], rows: list[dict[str, str]]) -> None:
    # LSF's own layout, with its escaped slashes.
    records = ",\n".join(
        "    {\n"
        + ",\n".join(f'      "{f.upper()}":{quoted(row[f])}'.replace("/", "\\/") for f in fields)
        + "\n    }"
        for row in rows
    )
    print(
        f'{{\n  "COMMAND":"{command}",\n  "{kind}":{len(rows)},\n  "RECORDS":[\n{records}\n  ]\n}}'
    )


def bhosts(words: list[str]) -> int:
    skip = {option(words, flag) for flag in ("-o", "-R")}
    asked = [word for word in words if not word.startswith("-") and word not in skip]
    with locked() as state:
        rows = [host_row(state, name) for name in asked or state["hosts"]]
    as_json("bhosts", "HOSTS", (option(words, "-o") or "").split(), rows)
    return 0


def host_row(state: State, name: str) -> dict[str, str]:
    taken = used(state, name)
    status = state["hosts"][name]["status"]
    if status == "ok" and any(
        j["exclusive"] for j in state["jobs"].values() if name in j["hosts"] and j["stat"] == "RUN"
    ):
        status = "closed_Excl"
    elif status == "ok" and taken >= state["slots"]:
        status = "closed_Full"
    reserved = state["hosts"][name].get("rsv", 0)
    numbers = {
        "max": state["slots"],
        "njobs": taken + reserved,
        "run": taken,
        "ssusp": 0,
        "ususp": 0,
        "rsv": reserved,
    }
    return {
        "host_name": name,
        "status": status,
        **{key: str(value) for key, value in numbers.items()},
    }


def bjobs(words: list[str]) -> int:
    with locked() as state:
        name, queue = option(words, "-J"), option(words, "-q")
        skip = {option(words, flag) for flag in ("-o", "-u", "-J", "-q")}
        ids = [word for word in words if word.isdecimal() and word not in skip]
        found = []
        for job in state["jobs"].values():
            if os.environ.get("STANDIN_HIDES_JOBS") and not ids and job["queue"] == "normal":
                continue  # as with SECURE_JOB_INFO_LEVEL: the main jobs are others'
            over = job["stat"] in FINISHED
            if (
                (ids and job["id"] not in ids)
                or (name and job["name"] != name)
                or (queue and job["queue"] != queue)
            ):
                continue
            if (over and not ids and "-a" not in words) or (
                "-p" in words and job["stat"] not in ("PEND", "PSUSP")
            ):
                continue
            found.append(job_row(state, job))
        unknown = [job for job in ids if job not in state["jobs"]]
    for job in unknown:
        print(f"Job <{job}> is not found", file=sys.stderr)
    if not found:
        if not unknown:
            pending = "No pending job found" if "-p" in words else "No unfinished job found"
            kind = f"Job <{name}> is not found" if name else pending
            print(kind, file=sys.stderr)
        return 255
    as_json("bjobs", "JOBS", (option(words, "-o") or "").split(), found)
    return 255 if unknown else 0


def job_row(state: State, job: State) -> dict[str, str]:
    runs = job["started_s"] is not None
    run_s = (job["ended_s"] or now_s(state)) - job["started_s"] if runs else 0
    hosts = ":".join(
        f"{job['slots_each']}*{host}" if job["slots_each"] > 1 else host for host in job["hosts"]
    )
    return {
        "jobid": job["id"],
        "stat": job["stat"],
        "user": job["user"],
        "queue": job["queue"],
        "job_name": job["name"],
        "proj_name": job["project"],
        "job_description": job["description"],
        "exec_host": hosts,
        "nreq_slot": str(job["slots_each"] * job["nodes"]),
        "run_time": f"{run_s:.0f} second(s)",
        "runtimelimit": f"{job['limit_s'] / 60:.1f}" if job["limit_s"] else "",
        "exit_code": ""
        if not job["exit"]
        else str(job["exit"] if job["exit"] > 0 else 128 - job["exit"]),
        "exit_reason": {
            "TERM_OWNER": "TERM_OWNER: job killed by owner",
            "TERM_PREEMPT": "TERM_PREEMPT: job killed after preemption",
        }.get(job["why"], job["why"]),
    }


def bslots(words: list[str]) -> int:
    with locked() as state:
        lengths = {}
        for host, facts in state["hosts"].items():
            if facts["status"] == "ok" and not used(state, host) and not facts.get("rsv"):
                wanted_s = wanted_at(state).get(host)
                lengths[host] = None if wanted_s is None else int(wanted_s - now_s(state))
        slots = state["slots"]
    ends = sorted(
        {length for length in lengths.values() if length is not None and length > 0}, reverse=True
    )
    shown: list[int | None] = [*([None] if None in lengths.values() else []), *ends]
    if not shown:
        print("No backfill window exists at this time", file=sys.stderr)
        return 255
    if "-l" not in words:
        print("SLOTS          RUNTIME")
    for end in shown:
        hosts = [
            h
            for h, length in lengths.items()
            if length is None or (end is not None and length >= end)
        ]
        text = (
            "UNLIMITED"
            if end is None
            else f"{end // 3600} hours {end // 60 % 60} minutes {end % 60} seconds"
        )
        if "-l" not in words:
            print(f"{slots * len(hosts):<14} {text}")
            continue
        print(f"SLOTS:    {slots * len(hosts)}\nRUNTIME:  {text}")
        lines = [
            " ".join(f"{slots}*{h}" for h in hosts[i : i + 6]) for i in range(0, len(hosts), 6)
        ]
        print("HOSTS:    " + "\n          ".join(lines))
        print()
    return 0


def brsvs(words: list[str]) -> int:
    with locked() as state:
        text = state["reservations"]
    if not text:
        print("No reservation found", file=sys.stderr)
        return 255
    print(text, end="")
    return 0


def bqueues(words: list[str]) -> int:
    if words == ["-w"]:
        return bqueues_table()
    with locked() as state:
        queue = state["queues"].get(words[-1])
    if queue is None:
        print(f"{words[-1]}: No such queue", file=sys.stderr)
        return 255
    backfill = ["BACKFILL"] if queue.get("backfill", True) else []
    policies = "  ".join([*backfill, *(["EXCLUSIVE"] if queue.get("exclusive") else [])])
    print(f"\nQUEUE: {words[-1]}\n  -- For the stand-in.\n\nPARAMETERS/STATISTICS")
    print("PRIO NICE STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN SSUSP USUSP  RSV PJOBS")
    zeros = "-    -    -    -     0     0     0     0     0    0     0"
    print(f" {queue['priority']:>2}   20  {queue.get('status', 'Open:Active')}       {zeros}")
    print(
        "\nSCHEDULING PARAMETERS\n           r15s   r1m  r15m   ut      pg    io   ls    it    "
        "tmp    swp    mem"
    )
    dashes = "   -     -     -     -       -     -    -     -     -      -      -"
    print(f" loadSched{dashes}\n loadStop {queue.get('load_stop', dashes)}")
    print(f"\nSCHEDULING POLICIES:  {policies}")
    if queue["preemptable"]:
        print("PREEMPTION:  PREEMPTABLE")
    if queue.get("windows"):
        print(f"RUN_WINDOWS:  {queue['windows']}")
    print("\nUSERS: all  \nHOSTS:  all")
    if queue.get("rerunnable"):
        print("RERUNNABLE :  yes")
    actions = [
        f"    {name.upper()}:     [{queue[name]}]"
        for name in ("suspend", "terminate")
        if queue.get(name)
    ]
    if actions:
        print("\nJOB_CONTROLS:", *actions, sep="\n")
    if queue.get("terminate_when"):
        print(f"\nTERMINATE_WHEN = {queue['terminate_when']}")
    for name, value in queue.get("settings", {}).items():
        print(f"{name} = {value}")
    print()
    return 0


def bqueues_table() -> int:
    """All queues with their numbers of slots, as the recorded bqueues of LSF's descendant prints
    them.
    """
    columns = "PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP"
    print(f"{'QUEUE_NAME':<15} {columns} ")
    with locked() as state:
        for name, queue in state["queues"].items():
            jobs = [job for job in state["jobs"].values() if job["queue"] == name]
            slots = {
                stat: sum(job["slots_each"] * job["nodes"] for job in jobs if job["stat"] in stats)
                for stat, stats in (
                    ("pend", ("PEND", "PSUSP")),
                    ("run", ("RUN", "UNKWN")),
                    ("susp", ("SSUSP", "USUSP")),
                )
            }
            numbers = "".join(f"{count:>6}" for count in (sum(slots.values()), *slots.values()))
            priority = f"{queue['priority']:>3}"
            print(f"{name:<15} {priority}   Open:Active      -    -    -    -{numbers}")
    return 0


def bapp(words: list[str]) -> int:
    with locked() as state:
        app = state["apps"].get(words[-1])
    if app is None:
        print(f"{words[-1]}: No such application profile.", file=sys.stderr)
        return 255
    print(f"\nAPPLICATION NAME: {words[-1]}\n -- For the stand-in.\n")
    if app.get("suspend"):
        print(f"JOB_CONTROLS:\n    SUSPEND:     [{app['suspend']}]")
    for name, value in app.get("settings", {}).items():
        print(f"{name} = {value}")
    return 0


def bparams(words: list[str]) -> int:
    with locked() as state:
        for name, value in state["params"].items():
            print(f"    {name} = {value}")
    return 0


def lsid(words: list[str]) -> int:
    print("IBM Spectrum LSF Standard 10.1.0.2, stand-in for tests\n\nMy cluster name is standin")
    print(
        f"My master name is master\n{time.ctime()}" if "-x" in words else "My master name is master"
    )
    return 0


SHOWS: dict[str, Callable[[list[str]], int]] = {
    f.__name__: f for f in (bhosts, bjobs, bslots, brsvs, bqueues, bapp, bparams, lsid)
}
