"""qstat, qselect, pbsnodes, pbs_rstat and qmgr of the stand-in, in the shapes of the recordings."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from pbs_batch import owner, refuse
from pbs_state import OVER, SERVER, State, locked, on_node, planned


def moment(seconds: float) -> str:
    """A time in the zone of the command."""
    return time.strftime("%a %b %e %H:%M:%S %Y", time.localtime(seconds))


def clock(seconds: float) -> str:
    return f"{int(seconds) // 3600:02d}:{int(seconds) // 60 % 60:02d}:{int(seconds) % 60:02d}"


def escaped(value: str) -> str:
    return value.replace("|", "\\|").replace("\n", "\\n")


def visible(state: State) -> list[State]:
    """The jobs that this user sees."""
    user = owner().partition("@")[0]
    return [
        job
        for job in state["jobs"].values()
        if state["query_other_jobs"] or job["owner"].partition("@")[0] == user
    ]


def qselect(words: list[str]) -> int:
    wanted = dict(zip(words[::2], words[1::2], strict=True))
    with locked() as state:
        if "-q" in wanted and wanted["-q"] not in state["queues"]:
            return refuse(f"qselect: Unknown queue destination {wanted['-q']}", 170)
        for job in visible(state):
            if (
                job["state"] not in OVER
                and job["owner"].partition("@")[0]
                == wanted.get("-u", job["owner"].partition("@")[0])
                and job["name"] == wanted.get("-N", job["name"])
                and job["queue"] == wanted.get("-q", job["queue"])
                and job["state"] in wanted.get("-s", "QHWRSET")
            ):
                print(f"{job['id']}.{SERVER}")
        for id_ in state["arrays"]:
            if not wanted:
                print(f"{id_}[].{SERVER}")
    return 0


def qstat(words: list[str]) -> int:
    flags = {word for word in words if word.startswith("-")}
    ids = [word for word in words if word[0].isdigit()]
    if "-Q" in flags:
        return show_queues()
    if "-B" in flags:
        return show_server()
    status = 0
    with locked() as state:
        if "-t" in flags:
            return show_tasks(state, ids)
        if "-x" in flags and not state["history"]:
            return refuse("qstat: PBS is not configured to maintain job history", 1)
        plans = planned(state)
        chosen = visible(state)
        if ids:
            known = {job["id"]: job for job in chosen}
            chosen = []
            for word in ids:
                job = known.get(word.partition(".")[0])
                has_history = "-x" in flags and state["history"]
                if job is None or (job["state"] in OVER and not has_history):
                    name = f"{word.partition('.')[0]}.{SERVER}"
                    status = refuse(f"qstat: Unknown Job Id {name}", 153)
                else:
                    chosen.append(job)
        else:
            chosen = [job for job in chosen if job["state"] not in OVER]
            for id_ in state["arrays"]:
                print(array_line(state, id_))
        for job in chosen:
            fields = attributes(state, job, plans)
            print(
                f"Job Id: {job['id']}.{SERVER}|"
                + "|".join(f"{key}={escaped(value)}" for key, value in fields.items() if value)
            )
    return status


def array_line(state: State, id_: str) -> str:
    """An array of which jobs have begun. Suspended ones count as running, as recorded."""
    array = state["arrays"][id_]
    begun = [int(index) for index in (*array["running"], *array["suspended"])]
    queued = [index for index in range(array["count"]) if index not in begun]
    counts = f"Queued:{len(queued)} Running:{len(begun)} Exiting:0 Expired:0 "
    first, last = (queued[0], queued[-1]) if queued else (0, 0)
    return (
        f"Job Id: {id_}[].{SERVER}|Job_Name=sweep|Job_Owner=max@{SERVER}|job_state=B|queue=main|"
        f"array=True|array_state_count={counts}|array_indices_submitted=0-{array['count'] - 1}|"
        f"array_indices_remaining={f'{first}-{last}' if queued else '-'}"
    )


def show_tasks(state: State, ids: list[str]) -> int:
    """``qstat -t``: arrays with all of their jobs."""
    for word in ids:
        id_ = word.partition("[")[0]
        print(array_line(state, id_))
        array = state["arrays"][id_]
        rest = f"Variable_List=PBS_O_HOME=/home/max,PADDING={'x' * array['padding']}"
        for index in range(array["count"]):
            fields = {"Job_Owner": f"max@{SERVER}", "job_state": "Q", "queue": "main"}
            for key, letter in (("running", "R"), ("suspended", "S")):
                if str(index) in array[key]:
                    node = array[key][str(index)]
                    fields |= {"job_state": letter, "exec_vnode": f"({node}:ncpus=1)"}
            text = "|".join(f"{key}={value}" for key, value in fields.items())
            print(f"Job Id: {id_}[{index}].{SERVER}|Job_Name=sweep|{text}|{rest}")
    return 0


def attributes(
    state: State, job: State, plans: dict[str, tuple[float, list[str]]]
) -> dict[str, str]:
    place = "+".join(f"({node}:ncpus={state['cpus']})" for node in job["nodes"])
    variables = {"PBS_O_HOST": SERVER, **job["variables"], "PBS_O_QUEUE": job["queue"]}
    start_s, nodes = plans.get(job["id"], (0.0, []))
    substate = {"Q": "10", "H": "22", "R": "42", "S": "45", "E": "50"}.get(job["state"], "92")
    if job["state"] == "F" and job["kill"]:
        substate = "91"
    return {
        "Job_Name": job["name"],
        "Job_Owner": job["owner"],
        "job_state": job["state"],
        "queue": job["queue"],
        "server": SERVER,
        "Account_Name": job["account"],
        "depend": f"afterany:{job['after']}.{SERVER}@{SERVER}" if job["after"] else "",
        "ctime": moment(job["queued_s"]),
        "exec_host": "+".join(f"{node}/0*{state['cpus']}" for node in job["nodes"]),
        "exec_vnode": place,
        "qtime": moment(job["queued_s"]),
        "Rerunable": str(job["reruns"]),
        "Resource_List.nodect": str(job["count"]),
        "Resource_List.select": job["select"],
        "Resource_List.walltime": clock(job["limit_s"]),
        "stime": moment(job["started_s"]) if job["started_s"] else "",
        "substate": substate,
        "Variable_List": ",".join(f"{key}={value}" for key, value in variables.items()),
        "comment": "Not Running: Not enough free nodes available" if job["state"] == "Q" else "",
        "etime": moment(job["queued_s"]),
        "run_count": str(job["run_count"] or ""),
        "Exit_status": "" if job["exit"] is None else str(job["exit"]),
        "estimated.exec_vnode": "+".join(f"({n}:ncpus={state['cpus']})" for n in nodes),
        "estimated.start_time": moment(start_s) if nodes else "",
        "project": "_pbs_project_default",
        "Submit_Host": job["owner"].partition("@")[2],
    }


def show_queues() -> int:
    with locked() as state:
        for name, queue in state["queues"].items():
            jobs = [job for job in state["jobs"].values() if job["queue"] == name]
            counts = {
                word: sum(job["state"] in letters for job in jobs)
                for word, letters in (
                    ("Transit", "T"),
                    ("Queued", "Q"),
                    ("Held", "H"),
                    ("Waiting", "W"),
                    ("Running", "RS"),
                    ("Exiting", "E"),
                    ("Begun", "B"),
                )
            }
            text = "".join(f"{word}:{count} " for word, count in counts.items())
            fields = {
                "queue_type": "Execution",
                **{key: str(value) for key, value in queue.items()},
                "total_jobs": str(sum(counts.values())),
                "state_count": text,
                "enabled": str(queue.get("enabled", True)),
                "started": str(queue.get("started", True)),
            }
            print("|".join((f"Queue: {name}", *(f"{k}={v}" for k, v in fields.items()))))
    return 0


def show_server() -> int:
    with locked() as state:
        server = {
            "server_state": "Active",
            "default_queue": "main",
            "query_other_jobs": str(state["query_other_jobs"]),
            **({"flatuid": "True"} if state["flatuid"] else {}),
        }
    document = {
        "timestamp": int(time.time()),
        "pbs_version": "23.06.06",
        "pbs_server": SERVER,
        "Server": {SERVER: server},
    }
    print(json.dumps(document, indent="\t"))
    return 0


def pbsnodes(words: list[str]) -> int:
    """A suspended job is on no node."""
    nodes = {}
    with locked() as state:
        for name, node in state["nodes"].items():
            jobs = [job["id"] for job in on_node(state, name)]
            for id_, array in state["arrays"].items():
                running = array["running"].items()
                jobs += [f"{id_}[{index}]" for index, where in running if where == name]
            words = [*node["states"], *(["job-exclusive"] if jobs else [])]
            nodes[name] = {
                "Mom": name,
                "ntype": "PBS",
                "state": ",".join(words) or "free",
                **({"jobs": [f"{id_}.{SERVER}" for id_ in jobs]} if jobs else {}),
                "resources_available": {
                    "host": name,
                    "ncpus": state["cpus"],
                    **({"ngpus": state["gpus"]} if state["gpus"] else {}),
                    "vnode": name,
                },
                "resources_assigned": {"ncpus": state["cpus"]} if jobs else {},
            }
    document = {
        "timestamp": int(time.time()),
        "pbs_version": "23.06.06",
        "pbs_server": SERVER,
        "nodes": nodes,
    }
    print(json.dumps(document, indent="\t"))
    return 0


def pbs_rstat(words: list[str]) -> int:
    with locked() as state:
        print(state["reservations"], end="")
    return 0


def qmgr(words: list[str]) -> int:
    if words != ["-c", "list sched"]:
        return refuse("qmgr: Error (15007) returned from server", 159)
    with locked() as state:
        print("Sched default")
        print(f"    sched_host = {SERVER}")
        for key, value in state["sched"].items():
            print(f"    {key} = {value}")
        print()
    return 0


SHOWS: dict[str, Callable[[list[str]], int]] = {
    f.__name__: f for f in (qselect, qstat, pbsnodes, pbs_rstat, qmgr)
}
