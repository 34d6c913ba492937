"""Words of other systems for commands of bftrainer: what Slurm, LSF, PBS, Ray and Kubernetes users
type.

A word of this table that is no command is answered with a suggestion, at the top level and in every
group. Nothing runs under a synonym: scripts would depend on it, and ``run`` means two things.
"""

from __future__ import annotations

_WORDS = {
    "list": (
        "status stat ps queue jobs ls get squeue bjobs qstat condor_q oarstat bqueues trainers "
        "progress"
    ),
    "list --all": "sacct bacct ended finished",
    "cancel": (
        "kill stop delete del rm remove abort terminate end scancel bkill qdel condor_rm oardel"
    ),
    "submit": (
        "run start launch train exec create apply add sbatch srun salloc bsub qsub qrsh "
        "condor_submit oarsub"
    ),
    "submit --grid": "sweep array grid hpo tune",
    "logs -f": "tail follow attach bpeek sattach",
    "logs": "log output cat stdout",
    "pause": "suspend hold freeze bstop qhold",
    "resume": "continue unpause unhold release bresume qrls restart requeue",
    "show": "describe detail details inspect info scontrol bhist tracejob",
    "events": "history journal",
    "nodes": "hosts sinfo bhosts pbsnodes lshosts oarnodes idle",
    "usage": "accounting sreport sshare hours quota budget cost",
    "top": "ui dashboard web watch monitor htop gui",
    "pilot": "daemon serve server up",
    "init": "setup configure new",
    "doctor": "check diagnose verify health sdiag lsid",
    "explain": "why reason sprio",
    "results": "metrics score scores best",
    "collect": "download fetch cp copy",
    "plot": "html graph chart",
    "forecast": "eta when predict",
    "rehearse": "test try dry-run",
    "replay run": "simulate simulation",
    "--version": "version",
    "--help": "help man",
}
SYNONYMS = {word: target for target, words in _WORDS.items() for word in words.split()}
"""What follows ``bftrainer``, by word."""
