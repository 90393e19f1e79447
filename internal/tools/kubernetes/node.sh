#!/bin/bash
# A node of Kubernetes: containerd and kubelet. It is started as the first process of its own PID and
# mount namespace, in the node's network namespace, by the test that docs/internals/testing.md
# describes.
#
#     node.sh STATE CGROUP BIN
#
# STATE is a directory for all its files, and CGROUP the name of the cgroups that it makes and that
# its caller removes. BIN has the programs of Kubernetes. containerd and kubelet find themselves at
# their default paths, as on other nodes, but /run, /var/lib and /var/log are this mount namespace's
# own. The node ends, with all containers and mounts, when this process does.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
state=$1 cgroup=$2 bin=$3

# The node's cgroups lie below one cgroup of the machine in each hierarchy, which a cgroup namespace
# shows as the root.
if [ ! -e "$state/cgroups" ]; then
    mount --make-rprivate /
    mount -t proc proc /proc
    grep -E '^[^ ]+ /sys/fs/cgroup[^ ]* cgroup2? ' /proc/mounts > "$state/cgroups"
    while read -r _ at _; do
        mkdir "$at/$cgroup"
        if [ -e "$at/cpuset.effective_cpus" ]; then # version 1 lets no process in before these are set
            for file in cpuset.cpus cpuset.mems; do cat "$at/$file" > "$at/$cgroup/$file"; done
        fi
        echo 0 > "$at/$cgroup/cgroup.procs"
    done < "$state/cgroups"
    exec unshare --cgroup "$0" "$@"
fi
umount --lazy --recursive /sys
mount -t sysfs sysfs /sys # shows the interfaces of this network namespace
grep -q ' /sys/fs/cgroup cgroup2 ' "$state/cgroups" || mount -t tmpfs tmpfs /sys/fs/cgroup
while read -r _ at kind _; do
    name=${at##*/}
    mkdir -p "$at"
    case $kind-$name in
    cgroup2-*) mount -t cgroup2 cgroup2 "$at" ;;
    cgroup-systemd) mount -t cgroup -o none,name=systemd cgroup "$at" ;;
    *) mount -t cgroup -o "$name" cgroup "$at" ;;
    esac
done < "$state/cgroups"
if [ -e /sys/fs/cgroup/cgroup.procs ]; then # version 2 wants no process beside the groups of pods
    mkdir /sys/fs/cgroup/node
    echo 0 > /sys/fs/cgroup/node/cgroup.procs
fi

mount -t tmpfs tmpfs /run
for name in lib log; do
    mkdir "$state/$name"
    mount --bind "$state/$name" "/var/$name"
done
# kubelet sets these for the whole machine where they have other values, so it finds these.
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    file=/run/${setting//[=\/]/-}
    echo "${setting#*=}" > "$file"
    mount --bind "$file" "/proc/sys/${setting%=*}"
done
mkdir -p /var/lib/cni/net.d
cp "$here/network.conflist" /var/lib/cni/net.d/
mount --make-rshared / # so that mounts of the node reach containers

# Perf lets all processes of root on the machine together lock 516 KiB per CPU beyond this limit. It is
# chosen so that what others have locked makes no difference: rings of 1 MiB fit into the limit alone.
ulimit -l $((1280 * $(nproc)))

containerd --config "$here/containerd.toml" > "$state/containerd.log" 2>&1 &
until [ -S /run/containerd/containerd.sock ]; do sleep 0.1; done
"$bin/kubelet" --config "$here/kubelet.yaml" --kubeconfig "$here/kubeconfig.yaml" \
    --hostname-override node1 --node-ip 192.0.2.2 > "$state/kubelet.log" 2>&1 &
wait
