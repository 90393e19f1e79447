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

#include "include/flows.h"
#include "include/frame.h"
#include "include/lost.h"
#include "include/no_loss.h"

struct loss {
	__u64 packets; /* a buffer that holds several segments counts as so many */
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
	__type(value, struct loss);
} causes SEC(".maps");

/* Buffers that found `causes` full. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} missed SEC(".maps");

/* The first packet of a cause as an example, which may make room for that of another cause. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct cause);
	__type(value, struct flow);
} examples SEC(".maps");

/* Whether the flows of losses are counted, too. */
volatile const bool with_flows = false;

#define HEADER_BYTES 128 /* of the IP header on, from which the flow is read */

/* The verifier wants room for a header at MAX_OFFSET. */
struct headers {
	__u8 bytes[MAX_OFFSET + HEADER_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct headers);
} headers SEC(".maps");

/*
 * copy_headers copies the packet from its IP header on. The stack notes where that is when it
 * receives or makes a packet. Until then, network_header is 0 and the data begin with the header.
 */
static __always_inline bool copy_headers(const struct sk_buff *skb, struct lost *p)
{
	__u32 zero = 0;
	struct headers *copy = bpf_map_lookup_elem(&headers, &zero);
	/* The verifier refuses to subtract pointers of the kernel. */
	__u64 data = (__u64)BPF_CORE_READ(skb, data), from = data;
	__u64 end = data + skb->len - skb->data_len;

	if (skb->network_header)
		from = (__u64)BPF_CORE_READ(skb, head) + skb->network_header;
	if (!copy || from >= end)
		return false;
	p->head = copy->bytes;
	p->head_length = end - from < HEADER_BYTES ? end - from : HEADER_BYTES;
	return copy_piece(copy->bytes, (void *)from, p->head_length, HEADER_BYTES - 1);
}

/* Added to a flow's reason where the packet was SENT. Go has the same. */
#define SENT_REASON (1u << 31)

/* add_lost_flow is not inlined, so that the verifier checks it only once. */
__noinline int add_lost_flow(const struct flow *f, __u32 reason, __u64 packets, __u64 bytes)
{
	if (f)
		add_to_flow(f, reason, (struct tally){ .packets = packets, .bytes = bytes },
			    packets);
	return 0;
}

/* find_lost_flow returns false for a packet that is not IP. */
static __always_inline bool find_lost_flow(const struct sk_buff *skb, struct flow *f)
{
	struct lost lost = {};
	struct packet p = { .context = LOST, .ctx = &lost };
	struct layers l = { .class = TRUNCATED };

	if (!copy_headers(skb, &lost))
		return false;
	__u8 version = lost.head[0] >> 4;

	if (skb->protocol == bpf_htons(ETH_P_IP) && version == 4)
		find_ipv4_layers(&p, &l);
	else if (skb->protocol == bpf_htons(ETH_P_IPV6) && version == 6)
		find_ipv6_layers(&p, &l);
	if (l.class >= TRUNCATED)
		return false;
	read_flow(&p, &l, f);
	return true;
}

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct frame);
} frames SEC(".maps");

/* is_lost_match tells whether the filter takes the frame that the packet was. */
static __always_inline bool is_lost_match(const struct sk_buff *skb, const struct net_device *dev)
{
	__u32 zero = 0;
	struct lost lost = { .skb = skb, .frame = bpf_map_lookup_elem(&frames, &zero) };

	if (!lost.frame)
		return false;
	find_frame(&lost, is_ethernet(dev));
	copy_lost_head(&lost, reach);
	return is_match(&lost, LOST, whole_length(&lost) + (lost.is_tagged ? TAG_BYTES : 0));
}

/*
 * Added to a cause's kind where the packet came in on another interface than ours. Go has the same.
 */
#define CAME_ELSEWHERE (1u << 31)

/*
 * came_elsewhere is false for a packet that has not got so far that the kernel notes where it came
 * in, and for one that was lost at the device where it came in: is_ours has found that to be ours.
 */
static __always_inline bool came_elsewhere(const struct sk_buff *skb, const struct place *at)
{
	__u32 incoming = skb->skb_iif;

	return incoming && incoming != traced_ifindex && incoming != at->ifindex &&
	       !came_from_above(incoming);
}

/*
 * is_unclear tells of a packet that may be another interface's: the kernel has forgotten all but
 * the index of the one that it came in on, which is ours or that of an interface above it. Go has
 * the same rule for what it counts (isUnclear).
 */
static __always_inline bool is_unclear(const struct cause *c)
{
	return traced_netns && !c->at.netns;
}

/* thrown_away counts a packet. The namespace is that of `net` where nothing better is known. */
static __always_inline int thrown_away(const struct sk_buff *skb, __u64 location, __u32 reason,
				       const struct net *net)
{
	struct cause c = { .location = location, .reason = reason };
	const struct net_device *dev;
	static const struct loss none;
	bool is_first = false, is_flow;
	struct loss *sum;
	struct flow f;
	__u64 packets;
	__u32 kind;

	if (!skb->len)
		return 0; /* drivers that are being set up test their own code with an empty one */
	dev = find_place(skb, net, &c.at);
	if (!is_ours(skb, &c.at, dev) || (filtering && !is_lost_match(skb, dev)))
		return 0;
	kind = kind_of(skb, dev);
	c.kind = kind;
	if (filtering && came_elsewhere(skb, &c.at))
		c.kind |= CAME_ELSEWHERE;
	sum = bpf_map_lookup_elem(&causes, &c);
	if (!sum) {
		is_first = true;
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
	packets = segments_of(skb);
	sum->packets += packets;
	sum->bytes += skb->len;
	is_flow = with_flows && !is_unclear(&c) && !is_no_loss(location, reason, kind);
	if (!(is_first || is_flow) || !find_lost_flow(skb, &f))
		return 0;
	if (is_first)
		bpf_map_update_elem(&examples, &c, &f, BPF_ANY);
	if (is_flow)
		add_lost_flow(&f, kind == SENT ? reason | SENT_REASON : reason, packets, skb->len);
	return 0;
}

/* Before Linux 5.17. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(xdpcap_lost_old, const struct sk_buff *skb, void *location)
{
	return thrown_away(skb, (__u64)location, 0, NULL);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(xdpcap_lost, const struct sk_buff *skb, void *location, __u32 reason)
{
	return thrown_away(skb, (__u64)location, reason, NULL);
}

/*
 * Since Linux 6.11. rx_sk is NULL for most packets, but some kernels let a program read it without
 * a check, and then crash.
 */
SEC("tp_btf/kfree_skb")
int BPF_PROG(xdpcap_lost_rx, const struct sk_buff *skb, void *location, __u32 reason,
	     const struct sock *rx_sk)
{
	return thrown_away(skb, (__u64)location, reason,
			   rx_sk ? BPF_CORE_READ(rx_sk, __sk_common.skc_net.net) : NULL);
}

char _license[] SEC("license") = "Dual BSD/GPL";
