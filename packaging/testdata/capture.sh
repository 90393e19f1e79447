#!/bin/bash
# capture.sh ROOT: captures three packets by the xdpcap that is installed in ROOT, on a veth pair. It
# runs in a network and a mount namespace of its own.
set -eu
root=$1
echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6 # which would send packets by itself
ip link add tx0 type veth peer name rx0
ip link set tx0 up
ip link set rx0 up
ip address add 192.0.2.1/24 dev tx0
ip neighbour add 192.0.2.2 lladdr 02:00:00:00:00:02 dev tx0
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"

chroot "$root" xdpcap -i rx0 -c 3 -w /tmp/out.pcapng 2> "$root/tmp/said" &
capture=$!
until grep -q 'listening on' "$root/tmp/said"; do
    kill -0 $capture || { cat "$root/tmp/said"; exit 1; }
    sleep 0.1
done
for i in 1 2 3; do
    echo "packet $i" > /dev/udp/192.0.2.2/9
done
wait $capture
cat "$root/tmp/said"
