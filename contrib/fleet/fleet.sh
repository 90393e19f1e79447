#!/bin/bash
# Three hosts, each of them a network namespace whose traffic xdpcap samples, and one collector,
# goflow2, which gets these samples and keeps them as lines of JSON. Shows the largest flows of the
# whole fleet, which no host sees alone, what each host has sent, and how many packets were dropped
# by XDP on each: every host has a second interface, at which xdpcap stats drops what comes.
#
#     sudo contrib/fleet/fleet.sh [XDPCAP]
#
# Needs go, to build goflow2 as go.mod here names it, ip of iproute2, and jq. What it makes is gone
# when it ends.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
xdpcap=${1:-xdpcap}
dir=$(mktemp -d)
tag=fleet$$
hosts=(1 2 3)

clean() {
    kill "${pids[@]}" 2>/dev/null || true
    wait
    for i in "${hosts[@]}"; do ip netns del "$tag-host$i" 2>/dev/null || true; done
    ip netns del "$tag-net" 2>/dev/null || true
    rm -rf "$dir"
}
pids=()
trap clean EXIT

# wait_for waits until a command succeeds.
wait_for() {
    for _ in $(seq 300); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    echo "waited 30 seconds for: $*" >&2
    exit 1
}

goflow2=$(go tool -C "$here" -n goflow2) # built, if the build cache does not have it

# The hosts are joined by a router, at which the collector listens.
ip netns add "$tag-net"
ip -n "$tag-net" link set lo up
ip netns exec "$tag-net" sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward
    echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6' # so that nothing else is sent
for i in "${hosts[@]}"; do
    ip netns add "$tag-host$i"
    ip -n "$tag-host$i" link add eth0 type veth peer name "host$i" netns "$tag-net"
    ip -n "$tag-host$i" addr add "10.99.$i.2/24" dev eth0
    ip -n "$tag-net" addr add "10.99.$i.1/24" dev "host$i"
    ip -n "$tag-host$i" link set lo up
    ip -n "$tag-host$i" link set eth0 up
    ip -n "$tag-net" link set "host$i" up
    ip -n "$tag-host$i" route add default via "10.99.$i.1"

    # What drops packets answers nobody, so the router has to be told the address of this interface.
    ip netns exec "$tag-host$i" sh -c 'echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6'
    ip -n "$tag-host$i" link add eth1 address "02:00:00:00:00:0$i" type veth peer name "guard$i" netns "$tag-net"
    ip -n "$tag-host$i" link set eth1 up
    ip -n "$tag-net" link set "guard$i" up
    ip -n "$tag-net" addr add "10.98.$i.1/24" dev "guard$i"
    ip -n "$tag-net" neigh add "10.98.$i.2" lladdr "02:00:00:00:00:0$i" dev "guard$i"
done

ip netns exec "$tag-net" "$goflow2" -listen sflow://:6343 -addr '' -templates.path '' \
    -transport.file "$dir/flows.json" 2>"$dir/goflow2.log" &
pids+=($!)
wait_for grep -q ':18C7 ' "/proc/$!/net/udp" "/proc/$!/net/udp6"

for i in "${hosts[@]}"; do
    ip netns exec "$tag-host$i" "$xdpcap" -i eth0 --sample 10 --json="$dir/host$i.json" \
        -w "sflow://10.99.$i.1" --sflow-agent "10.99.$i.2" 2>"$dir/host$i.log" &
    pids+=($!)
    wait_for grep -q 'listening on' "$dir/host$i.log"
    ip netns exec "$tag-host$i" "$xdpcap" stats -i eth1 --action drop --json \
        >"$dir/drops$i.json" 2>"$dir/drops$i.log" &
    pids+=($!)
    wait_for test -s "$dir/drops$i.json"
done

# send sends so many packets from a namespace to an address and a port.
send() {
    ip netns exec "$tag-$1" bash -c "
        exec 3>/dev/udp/$2/$3
        for ((n = 0; n < $4; n++)); do printf %0400d 0 >&3 2>/dev/null || true; done"
}
echo "sending: 6000 packets from host 1 to 3, 3000 from 2 to 3, 1000 from 3 to 2"
echo "         500 packets that are dropped at host 1, and 200 at host 2"
send host1 10.99.3.2 7001 6000 & sending=($!)
send host2 10.99.3.2 7002 3000 & sending+=($!)
send host3 10.99.2.2 7003 1000 & sending+=($!)
send net 10.98.1.2 7004 500 & sending+=($!)
send net 10.98.2.2 7004 200 & sending+=($!)
wait "${sending[@]}"

# The samples are on their way for a second at most; at the end each xdpcap sends what it has.
for pid in "${pids[@]:1}"; do kill -INT "$pid"; done
for pid in "${pids[@]:1}"; do wait "$pid"; done
samples=$(cat "$dir"/host?.json | jq -s 'map(.outputs[0].sflow.flow_samples) | add')
wait_for sh -c "[ \$(wc -l <$dir/flows.json) -ge $samples ]"

echo
echo "the fleet's largest flows, by $samples samples of one packet in 10:"
jq -rs '
    map(select(.proto == "UDP"))
    | group_by([.src_addr, .dst_addr, .dst_port])
    | map({flow: "\(.[0].src_addr) > \(.[0].dst_addr):\(.[0].dst_port)",
           packets: map(.packets * .sampling_rate) | add, bytes: map(.bytes * .sampling_rate) | add})
    | sort_by(-.bytes)[] | "\(.flow)\t\(.packets) packets\t\(.bytes) bytes"' "$dir/flows.json"
echo
echo "what each host has seen, sent to the collector, and dropped at its other interface:"
for i in "${hosts[@]}"; do
    jq -rs --arg host "$i" '.[0] as $all | .[-1].verdicts.drop.packets as $dropped | $all.outputs[0].sflow
        | "host \($host): \($all.seen) packets, \(.flow_samples) samples in \(.datagrams) datagrams, "
        + "\($all.lost) lost, \($dropped) dropped"' "$dir/host$i.json" "$dir/drops$i.json"
done
