"""qsub, qdel, qsig, qalter, the scheduler, and one process per running job that stands in for its mom.

As measured on OpenPBS 23.06.06: the scheduler waits until a job that it preempts has really gone, and
starts nothing anywhere meanwhile; mom tells the server a second after a job's end, or when a qdel asks
about the job after that; a job whose first process has ended while others of its session are left,
zombies included, waits for kill_delay; by default (SCR) preempted jobs are suspended.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from pbs_state import OVER, ROOT, SERVER, State, by_priority, locked, on_node, planned, preempts

PR_SET_CHILD_SUBREAPER = 36
WITH_VALUE = tuple(f"-{letter}" for letter in "aAejklmMNoPqrSuvW")


def owner() -> str:
    user = os.environ.get("PBS_STANDIN_USER", "user")
    return f"{user}@{os.environ.get('PBS_STANDIN_HOST', SERVER)}"


def refuse(text: str, status: int) -> int:
    print(text, file=sys.stderr)
    return status


def read_options(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Options with their values, and the words that follow."""
    options: dict[str, list[str]] = {}
    while words and words[0].startswith("-"):
        name, *words = words
        if name == "--":
            return options, ["--", *words]
        if name in WITH_VALUE:
            options.setdefault(name, []).append(words[0])
            words = words[1:]
        else:
            options[name] = []
    return options, words


def qsub(words: list[str]) -> int:
    options, rest = read_options(words)
    script = ""
    if not rest:
        script = sys.stdin.read()
    elif rest[0] != "--":
        if not Path(rest[0]).is_file():
            return refuse("qsub: script file:: No such file or directory", 1)
        script = Path(rest[0]).read_text()
    in_script: dict[str, list[str]] = {}
    for line in re.findall(r"^#PBS (.*)$", script, re.MULTILINE):
        for key, values in read_options(line.split())[0].items():
            in_script.setdefault(key, []).extend(values)
    resources_asked = [*in_script.get("-l", ()), *options.get("-l", ())]  # the last one counts
    options = {**in_script, **options, "-l": resources_asked}
    resources = {}
    for text in options.get("-l", ()):
        key, _, value = text.partition("=")
        resources[key] = value
    chunks = [chunk.split(":") for chunk in resources.get("select", "1").split("+")]
    counts = [int(chunk[0]) if chunk[0].isdecimal() else 1 for chunk in chunks]
    asked = re.findall(r"host=([\w.-]+)", resources.get("select", ""))
    hours, minutes, seconds = ("0:0:" + resources.get("walltime", "1:0:0")).split(":")[-3:]
    with locked() as state:
        queue = options.get("-q", ["main"])[0]
        if queue not in state["queues"]:
            return refuse("qsub: Unknown queue", 170)
        id_ = str(state["next"])
        state["next"] += 1
        after = re.fullmatch(r"depend=afterany:(\d+)\S*", options.get("-W", [""])[0])
        if script:
            spooled = ROOT / f"{id_}.SC"
            spooled.write_text(script)
            argv = ["/bin/bash", "-l", str(spooled)]
        else:
            argv = rest[1:]
        variables = dict(
            item.partition("=")[::2] for text in options.get("-v", ()) for item in text.split(",")
        )
        state["jobs"][id_] = {
            "id": id_,
            "name": options.get("-N", ["STDIN"])[0],
            "owner": owner(),
            "state": "H" if after else "Q",
            "after": after[1] if after else "",
            "queue": queue,
            "count": sum(counts),
            "asked": asked,
            "select": resources.get("select", "1"),
            "nodes": [],
            "limit_s": 3600.0 * int(hours) + 60.0 * int(minutes) + float(seconds),
            "reruns": options.get("-r", ["y"])[0] == "y",
            "argv": argv,
            "has_script": bool(script),
            "variables": variables,
            "account": options.get("-A", [""])[0],
            "out": options.get("-o", [""])[0],
            "queued_s": time.time(),
            "started_s": None,
            "ended_s": None,
            "exit": None,
            "run_count": 0,
            "tasks": [],
            "kill": "",
            "leader": 0,
            "asked_again": False,
            "cwd": str(Path.cwd()),
        }
        schedule(state)
    print(f"{id_}.{SERVER}")
    return 0


def schedule(state: State) -> None:
    """One cycle: start what can start, and preempt for the first job that cannot, which ends the
    cycle until the preempted jobs have gone.
    """
    state["lingering"] = [
        id_ for id_ in state["lingering"] if state["jobs"][id_]["state"] in ("R", "E")
    ]
    for job in state["jobs"].values():
        if job["state"] == "H" and state["jobs"].get(job["after"], {"state": "F"})["state"] in OVER:
            job["state"] = "Q"
    for job in by_priority(state):
        if state["lingering"]:
            return
        plans = planned(state)
        free = [node for node in candidates(state, job) if fits(state, job, node, plans)]
        if len(free) >= job["count"]:
            start(state, job, free[: job["count"]])
        elif preempts(state, job):
            make_room(state, job, job["count"] - len(free), free)


def candidates(state: State, job: State) -> list[str]:
    asked = job["asked"] or state["queue_hosts"].get(job["queue"], ())
    return [
        node
        for node in sorted(state["nodes"])
        if not state["nodes"][node]["states"] and (not asked or node in asked)
    ]


def fits(state: State, job: State, node: str, plans: dict[str, tuple[float, list[str]]]) -> bool:
    """Whether a node is free for a job, which must end before a planned one needs the node."""
    if on_node(state, node):
        return False
    for id_, (start_s, nodes) in plans.items():
        if node in nodes and id_ != job["id"] and time.time() + job["limit_s"] > start_s:
            return False
    return True


def make_room(state: State, job: State, count: int, free: list[str]) -> None:
    """Preempt jobs of other queues for a job, if that gives it all its nodes."""
    victims: list[State] = []
    emptied: set[str] = set()
    usable = set(candidates(state, job))
    for node in sorted(usable - set(free)):
        there = on_node(state, node)
        if len(emptied) < count and there and all(may_be_preempted(state, j) for j in there):
            victims += [victim for victim in there if victim not in victims]
            for victim in there:
                emptied |= usable & set(victim["nodes"])
    if len(emptied) < count:
        return
    for victim in victims:
        state["log"].append(f"preempt {victim['id']} for {job['id']}")
        if "S" in state["sched"]["preempt_order"]:
            victim["state"] = "S"
            with suppress(ProcessLookupError):
                os.killpg(victim["leader"], signal.SIGSTOP)
        else:
            is_requeue = state["sched"]["preempt_order"].startswith("R") and victim["reruns"]
            victim["kill"] = victim["kill"] or ("requeue" if is_requeue else "delete")
            state["lingering"].append(victim["id"])
    if not state["lingering"]:
        schedule(state)


def may_be_preempted(state: State, job: State) -> bool:
    order = state["sched"]["preempt_order"]
    can_end = "S" in order or "D" in order or ("R" in order and job["reruns"])
    return not preempts(state, job) and can_end and job["leader"] > 0


def start(state: State, job: State, nodes: list[str]) -> None:
    job.update(state="R", nodes=nodes, started_s=time.time(), leader=0, kill="", asked_again=False)
    job["run_count"] += 1
    with (ROOT / "mom.log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-S", "-E", str(Path(__file__).with_name("pbs_main.py")), job["id"]],
            env={
                "PBS_STANDIN": str(ROOT),
                "PBS_STANDIN_SERVER": SERVER,
                "HOME": os.environ.get("HOME", "/"),
                "PATH": os.environ["PATH"],
                "PBS_STANDIN_COMMAND": "mom",
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def mom(id_: str) -> int:
    """Run one job: start it, send signals, notice its end late, and start the next cycle.

    Its orphans become children of this process, which never reaps them: as on the measured server,
    whose PID 1 reaped nothing, a zombie that is left makes the job an orphan.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with locked() as state:
        job = state["jobs"][id_]
        nodefile = ROOT / f"{id_}.nodes"
        nodefile.write_text("".join(f"{node}\n" for node in job["nodes"]))
        env = {
            **job["variables"],
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "PBS_STANDIN": str(ROOT),
            "PBS_STANDIN_USER": job["owner"].partition("@")[0],
            # What a job submits belongs to its user on its first node.
            "PBS_STANDIN_HOST": job["nodes"][0],
            "PBS_JOBID": f"{id_}.{SERVER}",
            "PBS_NODEFILE": str(nodefile),
            "PBS_ENVIRONMENT": "PBS_BATCH",
            "NCPUS": str(state["cpus"]),
        }
        place = job["out"]
        out = (
            Path(place, f"{id_}.{SERVER}.OU") if place.endswith("/") else Path(place or os.devnull)
        )
        with out.open("ab") as output:
            process = subprocess.Popen(
                job["argv"],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=job["cwd"],
            )
        job["leader"] = process.pid
        kill_delay_s = float(state["queues"][job["queue"]].get("kill_delay", state["kill_delay"]))
        obit_s = float(state["obit_s"])
        schedule(state)  # a job that could not be preempted before its first process ran
    began_s = time.monotonic()
    term_s, is_limit = 0.0, False
    tasks: dict[int, subprocess.Popen[bytes]] = {}
    while process.poll() is None:
        time.sleep(0.02)
        now = facts(id_)
        attend_to_tasks(id_, now, tasks, {**env, "PBS_STANDIN_HOST": ""})
        is_limit = is_limit or time.monotonic() - began_s > now["limit_s"]
        if not term_s and (is_limit or now["kill"]):
            term_s = time.monotonic()
            for leader in (process.pid, *(task.pid for task in tasks.values())):
                to_session(leader, signal.SIGCONT)
                to_session(leader, signal.SIGTERM)
        if term_s and time.monotonic() - term_s > kill_delay_s:
            to_session(process.pid, signal.SIGKILL)
    ended_s = time.monotonic()
    for task in tasks.values():
        if task.poll() is None:
            to_session(task.pid, signal.SIGKILL)
            task.wait()
    with locked() as state:
        state["log"].append(f"end {id_}")
        state["jobs"][id_]["state"] = "E" if state["jobs"][id_]["kill"] else "R"
        state["jobs"][id_]["asked_again"] = False
    while session(process.pid) and time.monotonic() - ended_s < kill_delay_s:
        time.sleep(0.02)  # an orphan, to PBS
    if left := session(process.pid):
        with locked() as state:
            state["log"].append(f"orphans of {id_}: {sorted(left)}")
        to_session(process.pid, signal.SIGKILL)
    while time.monotonic() - ended_s < obit_s and not facts(id_)["asked_again"]:
        time.sleep(0.02)
    with locked() as state:
        job = state["jobs"][id_]
        if job["kill"] == "requeue":
            job.update(state="Q", nodes=[], exit=-11, kill="", leader=0)
        else:
            code = process.returncode
            job.update(state="F", ended_s=time.time(), leader=0)
            job["exit"] = -29 if is_limit else code if code >= 0 else 256 - code
        schedule(state)
    return 0


def attend_to_tasks(
    id_: str, job: State, tasks: dict[int, subprocess.Popen[bytes]], env: dict[str, str]
) -> None:
    """Start what pbs_tmrsh has asked for, each in a session of its own, and note what has ended."""
    for index, wanted in enumerate(job["tasks"]):
        if index not in tasks:
            host = {"PBS_STANDIN_HOST": wanted["node"]}
            with (ROOT / f"{id_}.{index}.out").open("ab") as output:
                tasks[index] = subprocess.Popen(
                    wanted["argv"],
                    env={**env, **host},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    cwd=job["cwd"],
                )
            note(id_, index, "pid", tasks[index].pid)
        elif wanted["exit"] is None and (code := tasks[index].poll()) is not None:
            note(id_, index, "exit", code if code >= 0 else 128 - code)


def note(id_: str, index: int, key: str, value: int) -> None:
    with locked() as state:
        state["jobs"][id_]["tasks"][index][key] = value


def pbs_tmrsh(words: list[str]) -> int:
    """Run a command on another node of the job that this process is in, until it ends. A signal
    ends only this process.
    """
    node, *argv = words
    id_ = os.environ.get("PBS_JOBID", "").partition(".")[0]
    with locked() as state:
        job = state["jobs"].get(id_)
        if job is None or job["state"] not in ("R", "E"):
            return refuse("pbs_tmrsh: not executing under PBS", 255)
        if node not in job["nodes"]:
            return refuse(f"pbs_tmrsh: node {node!r} is none of the job's", 255)
        index = len(job["tasks"])
        job["tasks"].append({"node": node, "argv": argv, "pid": 0, "exit": None})
    while (status := facts(id_)["tasks"][index]["exit"]) is None:
        time.sleep(0.02)
    return int(status)


def pbs_release_nodes(words: list[str]) -> int:
    """Take nodes from a job: their tasks are killed. As recorded: not the first node, and only by
    the owner; as measured: not in the job's first two seconds.
    """
    options, nodes = read_options(["-W", *words[1:]])  # -j has a value here
    name = "pbs_release_nodes"
    with locked() as state:
        id_ = options["-W"][0].partition(".")[0]
        job = state["jobs"].get(id_)
        state["log"].append(f"release {id_} {' '.join(nodes)}")
        if job is None or job["state"] != "R":
            return refuse(f"{name}: Unknown Job Id {id_}.{SERVER}", 153)
        if not may_change(state, job):
            return refuse(f"{name}: Unauthorized Request  ", 159)
        if job["nodes"][0] in nodes:
            first = job["nodes"][0]
            return refuse(
                f"{name}: Can't free '{first}' since it's on a primary execution host ", 162
            )
        if time.time() - job["started_s"] < 2.0:
            return refuse(f"{name}: Request invalid for state of job  {id_}.{SERVER}", 167)
        for task in job["tasks"]:
            if task["node"] in nodes and task["pid"] and task["exit"] is None:
                to_session(task["pid"], signal.SIGKILL)
        job["nodes"] = [node for node in job["nodes"] if node not in nodes]
        job["count"] = len(job["nodes"])
        schedule(state)
    return 0


def facts(id_: str) -> State:
    """A job as it is now; the file is read again only when it has changed."""
    stat = (ROOT / "state.json").stat()
    stamp = (stat.st_ino, stat.st_mtime_ns)
    if _seen.get(id_, ((0, 0), {}))[0] != stamp:
        with locked() as state:
            _seen[id_] = (stamp, dict(state["jobs"][id_]))
    return _seen[id_][1]


_seen: dict[str, tuple[tuple[int, int], State]] = {}


def session(leader: int) -> set[int]:
    """The processes of a session, zombies included."""
    found = set()
    for path in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            if path.name.isdigit() and int(path.name) != leader:
                stat = (path / "stat").read_text()
                if int(stat.rpartition(")")[2].split()[3]) == leader:
                    found.add(int(path.name))
    return found


def to_session(leader: int, number: signal.Signals) -> None:
    for pid in (leader, *session(leader)):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def qdel(words: list[str]) -> int:
    """End jobs. For a job that is ending already, the server asks its mom whether it is over."""
    status = 0
    with locked() as state:
        state["log"].append("qdel " + " ".join(words))
        for word in words:
            job = state["jobs"].get(word.partition(".")[0])
            if job is None or job["state"] in OVER:
                status = refuse(f"qdel: Unknown Job Id {word.partition('.')[0]}.{SERVER}", 153)
            elif not may_change(state, job):
                status = refuse(f"qdel: Unauthorized Request  {job['id']}.{SERVER}", 159)
            elif job["state"] in ("Q", "H"):
                job.update(state="F", ended_s=time.time(), kill="delete", exit=271)
            else:
                if job["state"] == "S":
                    job["state"] = "R"
                job["kill"] = job["kill"] or "delete"
                job["asked_again"] = True
        schedule(state)
    return status


def may_change(state: State, job: State) -> bool:
    """The same user on another host is another owner, unless the server has flatuid."""
    if state["flatuid"]:
        return bool(job["owner"].partition("@")[0] == owner().partition("@")[0])
    return bool(job["owner"] == owner())


def qsig(words: list[str]) -> int:
    options, ids = read_options(["-s", *words[1:]] if words[0] == "-s" else words)
    name, *ids = words[1:] if words[0] == "-s" else ["SIGTERM", *words]
    del options
    number = signal.Signals[name if name.startswith("SIG") else f"SIG{name}"]
    status = 0
    with locked() as state:
        for word in ids:
            job = state["jobs"].get(word.partition(".")[0])
            if job is None or job["state"] not in ("R", "E"):
                status = refuse(f"qsig: Unknown Job Id {word}", 153)
            elif not may_change(state, job):
                status = refuse(f"qsig: Unauthorized Request  {word}", 159)
            elif job["leader"]:
                to_session(job["leader"], number)
    return status


def qalter(words: list[str]) -> int:
    options, ids = read_options(words)
    text = options["-l"][0].removeprefix("walltime=")
    hours, minutes, seconds = text.split(":")
    with locked() as state:
        for word in ids:
            job = state["jobs"].get(word.partition(".")[0])
            if job is None or job["state"] in OVER:
                return refuse(f"qalter: Unknown Job Id {word}", 153)
            if not may_change(state, job):
                return refuse(f"qalter: Unauthorized Request  {word}", 159)
            job["limit_s"] = 3600.0 * int(hours) + 60.0 * int(minutes) + float(seconds)
    return 0
