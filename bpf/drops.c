// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts the packets that the kernel throws away after XDP, by what the tracepoint skb:kfree_skb
 * says of them. Owner: Meter in the Go package internal/drops, which loads the one program whose
 * arguments the running kernel has.
 *
 * A packet is a struct sk_buff here. Packets that reach their end, such as a socket's reader, are
 * consumed, and another tracepoint reports those.
 */
#include "include/build.h"
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "include/lost.h"

struct cause {
	__u64 location; /* the return address within the function that threw the packet away */
	__u32 reason;	/* enum skb_drop_reason; 0 if the kernel does not say it */
	__u32 incoming; /* index of the interface that received it; 0 = none, or unknown */
	struct place at;
};

struct tally {
	__u64 buffers; /* struct sk_buff */
	__u64 packets; /* of buffers that hold several segments, each */
	__u64 bytes;
};

/*
 * No atomics: each CPU has its own counts, and the kernel does not run a program of a tracepoint
 * while it already runs on this CPU. It counts such omissions as misses of the program.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct cause);
	__type(value, struct tally);
} causes SEC(".maps");

/* Buffers that found `causes` full. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} missed SEC(".maps");

/* thrown_away counts a packet. The namespace is that of `net` where nothing better is known. */
static __always_inline int thrown_away(const struct sk_buff *skb, __u64 location, __u32 reason,
				       const struct net *net)
{
	struct cause c = { .location = location, .reason = reason, .incoming = skb->skb_iif };
	static const struct tally none;
	struct tally *sum;

	if (!skb->len)
		return 0; /* drivers that are being set up test their own code with an empty one */
	find_place(skb, net, &c.at);
	if (!is_ours(skb, &c.at))
		return 0;
	sum = bpf_map_lookup_elem(&causes, &c);
	if (!sum) {
		bpf_map_update_elem(&causes, &c, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&causes, &c);
	}
	if (!sum) {
		__u32 zero = 0;
		__u64 *n = bpf_map_lookup_elem(&missed, &zero);

		if (n)
			(*n)++;
		return 0;
	}
	sum->buffers++;
	sum->packets += segments_of(skb);
	sum->bytes += skb->len;
	return 0;
}

/* Before Linux 5.17. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(count_unexplained, const struct sk_buff *skb, void *location)
{
	return thrown_away(skb, (__u64)location, 0, NULL);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(count_explained, const struct sk_buff *skb, void *location, __u32 reason)
{
	return thrown_away(skb, (__u64)location, reason, NULL);
}

/*
 * Since Linux 6.11. rx_sk is NULL for most packets, but some kernels let a program read it without
 * a check, and then crash.
 */
SEC("tp_btf/kfree_skb")
int BPF_PROG(count_received, const struct sk_buff *skb, void *location, __u32 reason,
	     const struct sock *rx_sk)
{
	return thrown_away(skb, (__u64)location, reason,
			   rx_sk ? BPF_CORE_READ(rx_sk, __sk_common.skc_net.net) : NULL);
}

char _license[] SEC("license") = "Dual BSD/GPL";
