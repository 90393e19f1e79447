/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The packets that the kernel throws away, as the tracepoint skb:kfree_skb shows them: where one
 * was lost, and whether it belongs to the interface in traced.h.
 */
#ifndef LOST_H
#define LOST_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "traced.h"

#define NAME_SIZE 16 /* IFNAMSIZ */

/* The interface that a packet was lost at; zero where that is unknown. */
struct place {
	__u32 ifindex;
	__u32 netns; /* inode of the network namespace */
	char name[NAME_SIZE];
};

/* Why and where packets are lost: a map's key. */
struct cause {
	__u64 location; /* the return address within the function that threw the packet away */
	__u32 reason;	/* enum skb_drop_reason; 0 if the kernel does not say it */
	__u32 kind;	/* enum lost_kind */
	struct place at;
};

/* The fields of the kernel's types that are read, in addition to those in traced.h. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct net_device___lower {
	struct {
		struct list_head lower; /* of struct netdev_adjacent */
	} adj_list;
	char name[NAME_SIZE];
};
struct sock_common {
	unsigned short skc_family;
	possible_net_t skc_net;
};
struct sock {
	struct sock_common __sk_common;
};
struct dst_entry {
	struct net_device *dev;
};
struct nsproxy {
	struct net *net_ns;
};
struct task_struct___spaces {
	struct nsproxy *nsproxy;
};
struct net_device___address {
	const unsigned char *dev_addr;
};
struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	unsigned int len, data_len; /* all bytes from `data` on, and those that are in fragments */
	int skb_iif;
	unsigned long _skb_refdst;
	unsigned int end; /* an offset from head on every 64-bit kernel */
	unsigned char *head, *data;
	__u16 mac_header, network_header; /* offsets from head */
	__be16 protocol;
	__be16 vlan_proto;
	__u16 vlan_tci;
};
struct sk_buff___typed {
	__u8 pkt_type : 3;
};
struct sk_buff___flagged { /* before Linux 6.2 */
	__u8 vlan_present : 1;
};
struct net_device___type {
	unsigned short type;
};
struct skb_shared_info {
	unsigned short gso_size;
	unsigned short gso_segs;
};
#pragma clang attribute pop

/*
 * A packet that is thrown away, as a frame: from its Ethernet header on, which the stack has mostly
 * removed from the packet but not from memory. A packet without one gets one that is made.
 */
struct lost {
	const struct sk_buff *skb;
	struct frame *frame;	 /* room for its beginning, see frame.h */
	struct scratch *scratch; /* room for a record of it, see lost_record.h; or NULL */
	const void *from;	 /* the frame's bytes in one piece, after the header that is made */
	__u32 linear;		 /* how many there are; the rest of the packet is in fragments */
	__u32 before;	  /* bytes of the frame before skb->data, with the header that is made */
	__u32 made;	  /* bytes of the header that is made; 0 = the packet has its own */
	bool is_tagged;	  /* a VLAN tag is kept beside the packet */
	const __u8 *head; /* a copy of the frame's beginning, with the tag */
	__u32 head_length;
};

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
static __always_inline bool identify(const struct net_device *dev, struct place *at)
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

/* What the packet itself says of its loss, besides the reason and the function. Go has the same. */
enum lost_kind {
	TO_GROUP = 1, /* sent to a multicast or broadcast address */
	TO_US = 2,    /* for this interface's address, but the stack took it for another host's */
	SENT = 4,     /* of this host, on its way to a device */
};
enum lost_kind *const lost_kind_type; /* keeps the type in BTF, for bpf2go */

#define NO_HEADER 0xffff /* in sk_buff.mac_header */

#define PACKET_BROADCAST 1
#define PACKET_MULTICAST 2
#define PACKET_OTHERHOST 3
#define PACKET_LOOPBACK	 5 /* the copy of what this host sends to a group or to all */

#define ADDRESS_BYTES 6

static __always_inline bool is_for(const struct sk_buff *skb, const struct net_device *dev)
{
	const struct net_device___address *addressed = (const void *)dev;
	__u8 own[ADDRESS_BYTES] = {}, to[ADDRESS_BYTES] = {};

	if (bpf_probe_read_kernel(own, sizeof(own), BPF_CORE_READ(addressed, dev_addr)) ||
	    bpf_probe_read_kernel(to, sizeof(to), BPF_CORE_READ(skb, head) + skb->mac_header))
		return false;
	for (int i = 0; i < ADDRESS_BYTES; i++) {
		if (own[i] != to[i])
			return false;
	}
	return true;
}

#define AF_INET	 2
#define AF_INET6 10

static __always_inline bool is_ip(const struct sock *sk)
{
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);

	return family == AF_INET || family == AF_INET6;
}

/*
 * sk_of reads the socket with a helper. The result is a number to the verifier, so an offset may be
 * added to it without a check for NULL.
 */
static __always_inline const struct sock *sk_of(const struct sk_buff *skb)
{
	return BPF_CORE_READ(skb, sk);
}

/*
 * was_made_here tells whether a packet is on its way from a socket of this host to a device. It has
 * no Ethernet header yet, or begins with it: of what was received, the stack has removed it.
 */
static __always_inline bool was_made_here(const struct sk_buff *skb)
{
	__u64 head = (__u64)BPF_CORE_READ(skb, head), data = (__u64)BPF_CORE_READ(skb, data);

	return !skb->skb_iif && IS_KERNEL(sk_of(skb)) &&
	       (skb->mac_header == NO_HEADER || head + skb->mac_header == data);
}

/*
 * kind_of returns one of enum lost_kind, or 0. The stack takes a frame for another host's if it
 * has a VLAN tag and no interface has that VLAN. dev is where the packet was lost, NULL if unknown.
 */
static __always_inline __u32 kind_of(const struct sk_buff *skb, const struct net_device *dev)
{
	__u8 type = BPF_CORE_READ_BITFIELD_PROBED((const struct sk_buff___typed *)skb, pkt_type);

	if (was_made_here(skb))
		return SENT;
	if (type == PACKET_BROADCAST || type == PACKET_MULTICAST || type == PACKET_LOOPBACK)
		return TO_GROUP;
	if (type == PACKET_OTHERHOST && dev && is_for(skb, dev))
		return TO_US;
	return 0;
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
 * and a VLAN on one of those. It takes the device's address as a number and is not inlined, so that
 * the verifier checks it once, and not for each path to it.
 */
__noinline int is_above(__u64 address)
{
	const struct net_device *dev = (void *)address;
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

static __always_inline bool came_from_above(__u32 incoming)
{
	for (int i = 0; i < MAX_ABOVE; i++) {
		if (traced_above[i] && traced_above[i] == incoming)
			return true;
	}
	return false;
}

/*
 * is_ours tells whether a packet belongs to the interface, or may: `at` is unknown. Buffers that
 * neither came in nor have a device are no packets of the network, but messages of netlink, for
 * example; except for those of a socket of IP that has no route. dev is the device of `at`, NULL if
 * that is unknown.
 */
static __always_inline bool is_ours(const struct sk_buff *skb, const struct place *at,
				    const struct net_device *dev)
{
	__u32 incoming = skb->skb_iif;

	if (!traced_ifindex && traced_netns && at->netns && at->netns != traced_netns)
		return false;
	if (!incoming && !dev)
		return !traced_ifindex && was_made_here(skb) && is_ip(sk_of(skb));
	if (!traced_ifindex)
		return true;
	if (at->netns && at->netns != traced_netns)
		return dev && is_above((__u64)dev);
	if (at->ifindex == traced_ifindex || incoming == traced_ifindex)
		return true;
	if (dev)
		return is_above((__u64)dev);
	return came_from_above(incoming);
}

/*
 * find_place fills in `at` and returns its device, or NULL if that is unknown. The namespace is
 * then that of `net`, of the way that the packet takes, of its socket or, if it came in on an
 * interface of ours by the index, of the process that ends a socket or reads from it.
 */
static __always_inline const struct net_device *find_place(const struct sk_buff *skb,
							   const struct net *net, struct place *at)
{
	const struct net_device *dev = BPF_CORE_READ(skb, dev);

	if (identify(dev, at))
		return dev;
	if (net) {
		at->netns = netns_of(net);
		return NULL;
	}
	const struct dst_entry *dst = (const void *)(skb->_skb_refdst & ~1UL);
	const struct net_device *out = dst ? BPF_CORE_READ(dst, dev) : NULL;

	if (out && was_made_here(skb) && identify(out, at))
		return out;
	if (out)
		at->netns = netns_of(BPF_CORE_READ(out, nd_net.net));
	if (!at->netns && IS_KERNEL(sk_of(skb)))
		at->netns = netns_of(BPF_CORE_READ(sk_of(skb), __sk_common.skc_net.net));
	if (!at->netns && traced_netns &&
	    (!traced_ifindex || skb->skb_iif == (int)traced_ifindex)) {
		const struct task_struct___spaces *task = (const void *)bpf_get_current_task();

		if (netns_of(BPF_CORE_READ(task, nsproxy, net_ns)) == traced_netns)
			at->netns = traced_netns;
	}
	return NULL;
}

static __always_inline __u32 gso_size_of(const struct sk_buff *skb)
{
	const struct skb_shared_info *info = (const void *)(skb->head + skb->end);

	return BPF_CORE_READ(info, gso_size);
}

/*
 * segments_of counts as the kernel's own counters of drops do: a buffer of GSO or GRO holds several
 * packets. Where who made the buffer did not count them, the size tells.
 */
static __always_inline __u32 segments_of(const struct sk_buff *skb)
{
	const struct skb_shared_info *info = (const void *)(skb->head + skb->end);
	__u32 size = gso_size_of(skb);
	__u32 segments = BPF_CORE_READ(info, gso_segs);

	if (!size)
		return 1;
	if (!segments)
		segments = (skb->len + size - 1) / size;
	return segments;
}

/* copy_piece copies 1 to mask + 1 bytes. */
static __always_inline bool copy_piece(void *to, const void *from, __u64 length, const __u64 mask)
{
	asm volatile("" : "+r"(length));
	length = ((length - 1) & mask) + 1;
	return !bpf_probe_read_kernel(to, length, from);
}

#endif
