#!/bin/bash
# Holds one idle node for a bftrainer pilot until the node is preempted. Submitted by the pilot, not by users, on every scheduler
# that has no program of its own to start processes in a running job (Slurm has srun: holder.slurm):
#
#   holder.sh PYTHON PAYLOAD STARTER HOLDERS_DIR LEASE_S NOTICE_S NODE JOB_VARIABLE KEPT_VARIABLES WORKER_PREFIX...
#
# JOB_VARIABLE is the environment variable in which the scheduler has put the job's ID; NOTICE_S is the most time that workers may have
# to save. A site can use a modified copy
# (holder_script in the scheduler's table of the pilot's configuration).

python=$1 payload=$2 starter=$3 holders=$4 lease_s=$5 notice_s=$6 node=$7 variable=$8 kept=$9
shift 9
job=${!variable}

# The log belongs to the user alone, whatever the umask at submission was. The pilot quotes its end when the job fails early.
umask 077
exec >>"$holders/$node.${job%%.*}.log" 2>&1 # without the name of a server

# The scheduler cannot start processes in a running job. The starter starts workers for the pilot.
"$python" -I -S "$starter" "$holders" "$node" "$variable" "$kept" "$@" &

# exec: schedulers signal the job's process group or its first process, and the job ends with this process.
exec "$python" -I -S "$payload" "$holders" "$lease_s" "$notice_s" "$node" "$variable"
