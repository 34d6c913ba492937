#!/bin/bash
# Holds an idle node, or several, for a bftrainer pilot until they are preempted. Submitted by the pilot, not by users, on every scheduler
# that has no program of its own to start processes in a running job (Slurm has srun: holder.slurm):
#
#   holder.sh PYTHON PAYLOAD STARTER HOLDERS_DIR LEASE_S NOTICE_S NODE JOB_VARIABLE KEPT_VARIABLES WORKER_PREFIX...
#
# JOB_VARIABLE is the environment variable in which the scheduler has put the job's ID; NOTICE_S is the most time that workers may have
# to save. NODE is one node, or several with a colon after each but the last, this one first (PBS: pbs.nodes_per_holder). A site can use a modified copy
# (holder_script in the scheduler's table of the pilot's configuration).

python=$1 payload=$2 starter=$3 holders=$4 lease_s=$5 notice_s=$6 variable=$8 kept=$9
arguments=("$@")
IFS=: read -ra nodes <<<"$7"
node=${nodes[0]} log=${nodes[0]}
job=${!variable}
if [[ $7 == *:* ]]; then
    log=several
    # Anew, so that /proc shows it for all that this script starts: a payload that sweeps its node, which may be on the same host, would
    # otherwise take the lines below for its own node's.
    if [[ ${BFTRAINER_HOLDER_NODE-} != "$node" ]]; then
        export BFTRAINER_HOLDER_NODE=$node
        exec /bin/bash "$0" "$@"
    fi
fi
shift 9

# The log belongs to the user alone, whatever the umask at submission was. The pilot quotes its end when the job fails early.
umask 077
exec >>"$holders/$log.${job%%.*}.log" 2>&1 # without the name of a server

# PBS runs this script on the job's first node only; the others get it with a colon after their names. A payload whose node is
# released ends with status 0, and the others go on; so they do where PBS has taken a released node from the job and tells of its
# payload's end as of a failure. Any other end is that of the whole job, because no node may be held without a payload: $$ becomes the
# payload of this node.

# Whether the pilot has released the node with this folder; it deletes the folder once the node is no longer the job's.
is_released() {
    local lease
    [[ ! -d $1 ]] || { read -r lease <"$1/lease" && [[ $lease == released ]]; }
}

for other in "${nodes[@]:1}"; do
    arguments[6]=$other:
    folder=$holders/$other#${job%%.*}.$other
    mkdir -p "$folder"
    {
        PATH=$PATH:${PBS_O_PATH:-} pbs_tmrsh "$other" /bin/bash "$0" "${arguments[@]}" || is_released "$folder" || kill -TERM $$
    } &
done

# The scheduler cannot start processes in a running job. The starter starts workers for the pilot.
"$python" -I -S "$starter" "$holders" "$node" "$variable" "$kept" "$@" &

# exec: schedulers signal the job's process group or its first process, and the job ends with this process.
exec "$python" -I -S "$payload" "$holders" "$lease_s" "$notice_s" "$node" "$variable"
