#!/bin/bash
# Three hosts, each of them a network namespace whose traffic xdpcap samples, and what gets these
# samples: goflow2, a broker that speaks Kafka's protocol, and two ClickHouse servers that share the
# rows. Shows the largest flows of the whole fleet, which no host sees alone, and what each host has
# sent, beside its own account and how many packets were dropped by XDP: every host has a second
# interface, at which xdpcap stats drops what comes.
#
#     sudo contrib/fleet/fleet.sh [XDPCAP]
#
# The commands, tables and queries are those of docs/fleet.md, word by word except for the rate of
# sampling. Needs go, to build what go.mod here names, ip of iproute2, jq, clickhouse-server and
# clickhouse-client. What it makes is gone when it ends.
set -euo pipefail

# The names of the hosts are in an /etc/hosts that only this script's own mount namespace has.
[ "${FLEET_IN_NAMESPACE:-}" ] || FLEET_IN_NAMESPACE=1 exec unshare --mount "$0" "$@"

here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
tag=fleet$$
hosts=(1 2 3)
servers=(clickhouse1 clickhouse2)

clean() {
    kill "${pids[@]}" 2>/dev/null || true
    wait
    for name in net host1 host2 host3 "${servers[@]}"; do ip netns del "$tag-$name" 2>/dev/null || true; done
    rm -rf "$dir"
}
pids=()
trap clean EXIT

# wait_for waits until a command succeeds.
wait_for() {
    for _ in $(seq 600); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    echo "waited a minute for: $*" >&2
    tail -n 5 "$dir"/*.log "$dir"/*/*.log >&2 || true
    exit 1
}

# block prints the lines of docs/fleet.md from the one that begins with these words to the end of
# its block.
block() {
    awk -v first="    $1" '
        index($0, first) == 1 { found = 1 }
        found && !/^    / { exit }
        found { print substr($0, 5) }' "$here/../../docs/fleet.md"
}

# in_ns runs a command in a namespace, and start does so in the background: from the directory of
# that namespace.
in_ns() { (cd "$dir/$1" && exec ip netns exec "$tag-$1" "${@:2}"); }
start() {
    (cd "$dir/$1" && exec ip netns exec "$tag-$1" "${@:2}") &
    pids+=($!)
}

# query asks a ClickHouse server.
query() { in_ns "$1" clickhouse-client --multiquery --query "$2"; }

# The commands are found by the names that they have in docs/fleet.md.
mkdir "$dir/bin"
ln -s "$(realpath "$(command -v "${1:-xdpcap}")")" "$dir/bin/xdpcap"
for tool in goflow2 kafka; do # built, if the build cache does not have them
    ln -s "$(go tool -C "$here" -n $tool)" "$dir/bin/$tool"
done
PATH=$dir/bin:$PATH

# add makes a namespace whose interfaces send nothing unasked, and join one that is connected to the
# router, with the address 10.99.NUMBER.2.
add() {
    mkdir "$dir/$1"
    ip netns add "$tag-$1"
    in_ns "$1" sh -c 'echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6'
    ip -n "$tag-$1" link set lo up
}
join() {
    add "$1"
    ip -n "$tag-$1" link add eth0 type veth peer name "$1" netns "$tag-net"
    ip -n "$tag-$1" addr add "10.99.$2.2/24" dev eth0
    ip -n "$tag-net" addr add "10.99.$2.1/24" dev "$1"
    ip -n "$tag-$1" link set eth0 up
    ip -n "$tag-net" link set "$1" up
    ip -n "$tag-$1" route add default via "10.99.$2.1"
}
add net
in_ns net sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
for i in "${hosts[@]}"; do
    join "host$i" "$i"

    # What drops packets answers nobody, so the router has to be told the address of this interface.
    ip -n "$tag-host$i" link add eth1 address "02:00:00:00:00:0$i" type veth peer name "guard$i" netns "$tag-net"
    ip -n "$tag-host$i" link set eth1 up
    ip -n "$tag-net" link set "guard$i" up
    ip -n "$tag-net" addr add "10.98.$i.1/24" dev "guard$i"
    ip -n "$tag-net" neigh add "10.98.$i.2" lladdr "02:00:00:00:00:0$i" dev "guard$i"
done
join clickhouse1 4
join clickhouse2 5

# ClickHouse also looks up this machine's own name with each query, and no name server answers here.
cat >"$dir/hosts" <<HOSTS
127.0.0.1 localhost $(hostname)
10.99.1.1 kafka.example collector.example
10.99.4.2 clickhouse1.example
10.99.5.2 clickhouse2.example
HOSTS
mount --bind "$dir/hosts" /etc/hosts

start net kafka 10.99.1.1:9092 flows 4 clickhouse >"$dir/kafka.log" 2>&1
for server in "${servers[@]}"; do
    start "$server" clickhouse-server --config-file="$here/clickhouse.xml" >"$dir/$server.log" 2>&1
done
wait_for grep -q 'listening on' "$dir/kafka.log"
for server in "${servers[@]}"; do
    wait_for query "$server" 'SELECT 1'
    query "$server" "$(block 'CREATE TABLE flows_queue')"
done

# taken waits until both servers are in their group, and have taken this many messages for good.
# Until the group is stable, messages may be taken twice.
taken() { wait_for sh -c "tail -n 1 '$dir/kafka.log' | grep -qx 'clickhouse: Stable, 2 members, $1 messages taken'"; }
taken 0

start net bash -c "exec $(block 'goflow2 -listen')" 2>"$dir/goflow2.log"
wait_for grep -q ':18C7 ' "/proc/$!/net/udp" "/proc/$!/net/udp6"

# The samples go to a file, too: an account has the whole length of what a file has.
capture=$(block 'xdpcap -i eth0 --sample 10000 ')
capture="${capture/10000/10} -w samples.json --json=account.json"
began=${#pids[@]}
for i in "${hosts[@]}"; do
    start "host$i" bash -c "exec $capture" 2>"$dir/host$i.log"
    start "host$i" xdpcap stats -i eth1 --action drop --json >"$dir/host$i/drops.json" 2>"$dir/host$i/drops.log"
    wait_for grep -q 'listening on' "$dir/host$i.log"
    wait_for test -s "$dir/host$i/drops.json"
done
captures=("${pids[@]:began}")

# send sends packets from a namespace to an address and a port. They are few enough for all
# samples to fit into goflow2's receive buffer.
send() {
    in_ns "$1" bash -c "
        exec 3>/dev/udp/$2/$3
        for ((n = 0; n < $4; n++)); do printf %0400d 0 >&3 2>/dev/null || true; done"
}
# drop sends packets to the second interface of a host, a hundred at a time: it waits until
# they have come, because the interface's queue has room for 256.
drop() {
    for ((sent = 100; sent <= $2; sent += 100)); do
        send net "10.98.$1.2" 7004 100
        wait_for came "$1" "$sent"
    done
}
came() { [ "$(ip -n "$tag-net" -s -j link show "guard$1" | jq '.[0].stats64.tx.packets')" -ge "$2" ]; }
echo "sending: 3000 packets from host 1 to 3, 1500 from 2 to 1, 500 from 3 to 2"
echo "         500 packets that are dropped at host 1, and 200 at host 2"
send host1 10.99.3.2 7001 3000 & sending=($!)
send host2 10.99.1.2 7002 1500 & sending+=($!)
send host3 10.99.2.2 7003 500 & sending+=($!)
drop 1 500 & sending+=($!)
drop 2 200 & sending+=($!)
wait "${sending[@]}"

# The samples are on their way for a second at most; at the end each xdpcap sends what it has.
kill -INT "${captures[@]}"
for pid in "${captures[@]}"; do wait "$pid"; done
samples=$(cat "$dir"/host?/account.json | jq -s 'map(.outputs[0].sflow.flow_samples) | add')
taken "$samples"

echo
echo "$samples samples of one packet in 10, as rows:"
for server in "${servers[@]}"; do
    echo "$server: $(query "$server" 'SELECT count() FROM flows')"
done
echo
echo "the fleet's largest flows, with packets and bytes:"
query clickhouse1 "$(block 'SELECT src_addr')"
echo
echo "what each host has seen, sent to the collector, and dropped at its other interface:"
query clickhouse1 "$(block 'SELECT host')" >"$dir/rows"
for i in "${hosts[@]}"; do
    read -r _ rows packets bytes < <(grep "^10.99.$i.2" "$dir/rows" || echo - 0 0 0)
    jq -rs --arg host "$i" --arg rows "$rows" --arg packets "$packets" --arg bytes "$bytes" '
        .[0] as $all | .[-1].verdicts.drop.packets as $dropped | $all.outputs[0]
        | "host \($host): \($all.seen) packets, \(.sflow.flow_samples) samples with \(.bytes) bytes "
        + "in \(.sflow.datagrams) datagrams, \($rows) rows for \($packets) packets with \($bytes) bytes, "
        + "\($all.lost) lost, \($dropped) dropped"' "$dir/host$i/account.json" "$dir/host$i/drops.json"
done
