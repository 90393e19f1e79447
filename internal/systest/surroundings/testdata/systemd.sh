#!/bin/sh
# systemd.sh DIRECTORY CGROUP...: runs systemd as process 1 of namespaces of its own, in cgroups of
# its own, on this machine's files and what DIRECTORY/installed has. What it writes is in memory,
# except DIRECTORY/log. It knows no units but xdpcap@.service and those that every unit waits for.
set -eu
directory=$1
shift
if [ "${1:-}" != "" ]; then
    for cgroup; do
        echo $$ >"$cgroup/cgroup.procs"
    done
    exec unshare --fork --pid --mount --uts --ipc --cgroup --kill-child sh "$0" "$directory"
fi

mount --make-rprivate /
mount -t tmpfs tmpfs "$directory/root"
cd "$directory/root"
mkdir upper work all
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work all
cd all
cp -a "$directory/installed/." .

# Read-only, because systemd sets what holds for the whole machine.
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,ro,bind proc/sys
mount -t sysfs -o ro sysfs sys
mount -t tmpfs tmpfs sys/fs/cgroup
if [ -e /sys/fs/cgroup/cgroup.procs ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
else
    mkdir sys/fs/cgroup/systemd sys/fs/cgroup/unified sys/fs/cgroup/memory sys/fs/cgroup/pids
    mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
    mount -t cgroup2 cgroup2 sys/fs/cgroup/unified
    mount -t cgroup -o memory cgroup sys/fs/cgroup/memory
    mount -t cgroup -o pids cgroup sys/fs/cgroup/pids
fi
mount -t tmpfs -o mode=0755 tmpfs dev
mkdir dev/pts dev/shm dev/mqueue
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
for device in null zero full random urandom tty; do
    touch dev/$device
    mount --bind /dev/$device dev/$device
done
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs run
mkdir run/units
ln -s /usr/lib/systemd/system/xdpcap@.service run/units/
for target in sysinit basic network shutdown; do
    printf '[Unit]\nDefaultDependencies=no\n' >run/units/$target.target
done
mkfifo dev/kmsg
# Opened here, because the cat may begin when the log has no path any more. Without a reader of the
# fifo systemd would wait for one.
exec 3>"$directory/log"
cat dev/kmsg >&3 &
exec 3>&-

pivot_root . mnt
umount -l /mnt
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin SYSTEMD_UNIT_PATH=/run/units \
    /lib/systemd/systemd --system --unit=basic.target --log-target=kmsg --show-status=no
