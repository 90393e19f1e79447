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

#include "include/traced.h"

#define NAME_SIZE 16 /* IFNAMSIZ */

/* The interface that a packet was lost at; zero where that is unknown. */
struct outlet {
	__u32 ifindex;
	__u32 netns; /* inode of the network namespace */
	char name[NAME_SIZE];
};

struct cause {
	__u64 location; /* the return address within the function that threw the packet away */
	__u32 reason;	/* enum skb_drop_reason; 0 if the kernel does not say it */
	__u32 incoming; /* index of the interface that received it; 0 = none, or unknown */
	struct outlet at;
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

/* The fields of the kernel's types that are read, in addition to those in traced.h. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct net_device___lower {
	struct {
		struct list_head lower; /* of struct netdev_adjacent */
	} adj_list;
	char name[NAME_SIZE];
};
struct sock_common {
	possible_net_t skc_net;
};
struct sock {
	struct sock_common __sk_common;
};
struct dst_entry {
	struct net_device *dev;
};
struct sk_buff {
	struct net_device *dev;
	unsigned int len;
	int skb_iif;
	unsigned long _skb_refdst;
	unsigned int end; /* an offset from head on every 64-bit kernel */
	unsigned char *head;
};
struct skb_shared_info {
	unsigned short gso_size;
	unsigned short gso_segs;
};
#pragma clang attribute pop

/*
 * The inodes of namespaces are the smallest free numbers from 0xf0000000 on; since Linux 6.18 that
 * of the machine's first network namespace is 0xeffffff9.
 */
#define FIRST_NETNS 0xeffffff9
#define LAST_NETNS  0xf00fffff

/*
 * Most significant bit of an address of the kernel. skb->dev shares its memory with what UDP
 * (dev_scratch) and TCP (rbnode) keep there while a packet waits in a socket's queue.
 */
#define IS_KERNEL(p) ((long)(p) < 0)

static __always_inline __u32 netns_of(const struct net *net)
{
	__u32 netns = BPF_CORE_READ(net, ns.inum);

	return netns >= FIRST_NETNS && netns <= LAST_NETNS ? netns : 0;
}

/* identify tells whether dev is a device, and not something else that stands in its place. */
static __always_inline bool identify(const struct net_device *dev, struct outlet *at)
{
	if (!IS_KERNEL(dev))
		return false;
	__u32 ifindex = BPF_CORE_READ(dev, ifindex);
	__u32 netns = netns_of(BPF_CORE_READ(dev, nd_net.net));

	if (!netns || !ifindex)
		return false;
	at->ifindex = ifindex;
	at->netns = netns;
	bpf_probe_read_kernel_str(at->name, NAME_SIZE,
				  ((const struct net_device___lower *)dev)->name);
	return true;
}

static __always_inline bool is_interface(const struct net_device *dev)
{
	return BPF_CORE_READ(dev, ifindex) == traced_ifindex &&
	       BPF_CORE_READ(dev, nd_net.net, ns.inum) == traced_netns;
}

/* How many devices directly below a device are checked, for example the slaves of a bond. */
#define MAX_LOWER 8

/* lower_of returns the next device below `dev` after `*at`, NULL after the last one. */
static __always_inline const struct net_device *lower_of(const struct net_device *dev,
							 const struct list_head **at)
{
	const struct list_head *list = &((const struct net_device___lower *)dev)->adj_list.lower;
	const struct netdev_adjacent *lower;

	*at = BPF_CORE_READ(*at ? *at : list, next);
	if (*at == list || !*at)
		return NULL;
	lower = (void *)*at - bpf_core_field_offset(struct netdev_adjacent, list);
	return BPF_CORE_READ(lower, dev);
}

/*
 * is_above tells whether the interface is below this device: a VLAN on it, its bond or its bridge,
 * and a VLAN on one of those.
 */
static __always_inline bool is_above(const struct net_device *dev)
{
	const struct list_head *at = NULL;

	for (int i = 0; i < MAX_LOWER; i++) {
		const struct list_head *below = NULL;
		const struct net_device *lower = lower_of(dev, &at);

		if (!lower)
			return false;
		if (is_interface(lower))
			return true;
		for (int j = 0; j < MAX_LOWER; j++) {
			const struct net_device *second = lower_of(lower, &below);

			if (!second)
				break;
			if (is_interface(second))
				return true;
		}
	}
	return false;
}

/*
 * is_ours tells whether a packet belongs to the interface, or may: it came in somewhere, and `at`
 * is unknown. Buffers that neither came in nor are to go out are no packets of the network:
 * messages of netlink, for example.
 */
static __always_inline bool is_ours(const struct sk_buff *skb, const struct cause *c)
{
	if (!c->incoming && !c->at.ifindex)
		return false;
	if (!traced_ifindex)
		return true;
	if (c->at.ifindex == traced_ifindex && c->at.netns == traced_netns)
		return true;
	if (c->incoming == traced_ifindex && c->at.netns == traced_netns)
		return true;
	if (c->at.ifindex)
		return is_above(skb->dev);
	return !c->at.netns || c->at.netns == traced_netns;
}

/*
 * segments_of counts as the kernel's own counters of drops do: a buffer of GSO or GRO holds several
 * packets. Where who made the buffer did not count them, the size tells.
 */
static __always_inline __u32 segments_of(const struct sk_buff *skb)
{
	const struct skb_shared_info *info = (const void *)(skb->head + skb->end);
	__u32 size = BPF_CORE_READ(info, gso_size);
	__u32 segments = BPF_CORE_READ(info, gso_segs);

	if (!size)
		return 1;
	if (!segments)
		segments = (skb->len + size - 1) / size;
	return segments;
}

/* thrown_away counts a packet. The namespace is that of `net` where nothing better is known. */
static __always_inline int thrown_away(const struct sk_buff *skb, __u64 location, __u32 reason,
				       const struct net *net)
{
	struct cause c = { .location = location, .reason = reason, .incoming = skb->skb_iif };
	static const struct tally none;
	struct tally *sum;

	if (!skb->len)
		return 0; /* drivers that are being set up test their own code with an empty one */
	if (!identify(skb->dev, &c.at)) {
		if (net) {
			c.at.netns = netns_of(net);
		} else {
			const struct dst_entry *dst = (const void *)(skb->_skb_refdst & ~1UL);
			const struct net_device *out = dst ? BPF_CORE_READ(dst, dev) : NULL;

			if (out)
				c.at.netns = netns_of(BPF_CORE_READ(out, nd_net.net));
		}
	}
	if (!is_ours(skb, &c))
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
