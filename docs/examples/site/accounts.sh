#!/bin/sh
# Many users on one Slurm cluster. Create the user `bftrainer` and its folder /shared/bftrainer (mode 0755), run this script, and
# install bftrainer-broker.service on any host with Slurm's commands. Give site.toml to your users, then check with
# `bftrainer doctor` and `bftrainer users`.
#
# accounts.sh USER...: the account and the QOS of holders, and these users in it. Run it once as Slurm's administrator.
set -eu
sacctmgr -i add qos scavenger
sacctmgr -i modify qos scavenger set Priority=0 PreemptMode=cancel UsageFactor=0
sacctmgr -i modify qos normal set Preempt=scavenger
sacctmgr -i add account pilots
sacctmgr -i add user bftrainer account=pilots
for user in "$@"; do
    sacctmgr -i add user "$user" account=pilots
    sacctmgr -i modify user "$user" where account=pilots set qos=scavenger
done
# A user with twice the nodes of the others: sacctmgr -i modify user ann where account=pilots set fairshare=2
# Only for `bftrainer broker --enforce pilots`: the broker's user may then end holders, and no other jobs.
sacctmgr -i add coordinator account=pilots names=bftrainer
