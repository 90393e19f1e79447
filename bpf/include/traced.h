/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The parts of a packet that a program tracing an XDP program may read. Each struct has only the
 * fields that are read: the loader finds their offsets in the running kernel's types by name.
 */
#ifndef TRACED_H
#define TRACED_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common {
	unsigned int inum;
};
struct net {
	struct ns_common ns;
};
typedef struct {
	struct net *net;
} possible_net_t;
struct list_head {
	struct list_head *next;
};
struct net_device {
	__u32 ifindex; /* an int in the kernel, and never negative */
	possible_net_t nd_net;
	struct {
		struct list_head upper; /* of struct netdev_adjacent; a master is the first */
	} adj_list;
};
struct netdev_adjacent {
	struct net_device *dev;
	bool master;
	struct list_head list;
};
struct xdp_rxq_info {
	struct net_device *dev; /* the interface that the packet came in on */
	__u32 queue_index;
};
struct xdp_buff {
	void *data;
	void *data_end;
	struct xdp_rxq_info *rxq;
	__u32 flags;
};
#pragma clang attribute pop

/*
 * The interface whose packets count: its index, 0 for all interfaces, and the inode of its network
 * namespace, 0 for all namespaces, because interfaces of different namespaces can have the same
 * index. A traced program may run for several interfaces.
 */
volatile const __u32 traced_ifindex = 0;
volatile const __u32 traced_netns = 0;

/*
 * Indexes of interfaces above it in this namespace, such as its bridge and its VLANs, for packets
 * of which the kernel only knows the index where they came in. The rest is 0.
 */
#define MAX_ABOVE 16
volatile const __u32 traced_above[MAX_ABOVE] = {};

/* Whether packets that come in on devices below the interface, such as a bond, are its own. */
volatile const bool traced_lower = false;

/* How many masters above a device are checked. A bond may be the master of a bond. */
#define MAX_MASTERS 2

/*
 * is_below_traced searches for the interface among the masters of a device. The addresses of
 * masters are read with helpers, because the verifier knows no type for the elements of a kernel
 * list.
 */
static __always_inline bool is_below_traced(const struct net_device *dev)
{
	for (int i = 0; i < MAX_MASTERS; i++) {
		const struct list_head *list = &dev->adj_list.upper;
		const struct list_head *first = BPF_CORE_READ(list, next);
		const struct netdev_adjacent *upper;

		upper = (void *)first - bpf_core_field_offset(struct netdev_adjacent, list);
		if (first == list || !BPF_CORE_READ(upper, master))
			return false;
		dev = BPF_CORE_READ(upper, dev);
		if (BPF_CORE_READ(dev, ifindex) == traced_ifindex &&
		    BPF_CORE_READ(dev, nd_net.net, ns.inum) == traced_netns)
			return true;
	}
	return false;
}

/* is_traced tells whether a device is the interface, or one whose packets belong to it. */
static __always_inline bool is_traced(const struct net_device *dev)
{
	if (!traced_ifindex)
		return !traced_netns || dev->nd_net.net->ns.inum == traced_netns;
	if (dev->ifindex == traced_ifindex && dev->nd_net.net->ns.inum == traced_netns)
		return true;
	return traced_lower && is_below_traced(dev);
}

static __always_inline bool is_from_traced(const struct xdp_buff *xdp)
{
	return is_traced(xdp->rxq->dev);
}

/* This costs nothing, because the verifier turns it into a move. It exists since Linux 6.2. */
extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak;

#define HAS_FRAGS 1 /* in xdp_buff.flags */

static __always_inline bool is_in_one_buffer(const struct xdp_buff *xdp)
{
	return !(xdp->flags & HAS_FRAGS);
}

/*
 * length_of is the number of bytes in all buffers of a traced packet. Asking the kernel is a call,
 * which is skipped for a packet in one buffer.
 */
static __always_inline __u64 length_of(struct xdp_buff *xdp)
{
	if (is_in_one_buffer(xdp))
		return xdp->data_end - xdp->data;
	return bpf_xdp_get_buff_len((struct xdp_md *)xdp);
}

/* received_length is length_of for an XDP program's packet. */
static __always_inline __u64 received_length(struct xdp_md *ctx)
{
	if (bpf_cast_to_kern_ctx && is_in_one_buffer(bpf_cast_to_kern_ctx(ctx)))
		return ctx->data_end - ctx->data;
	return bpf_xdp_get_buff_len(ctx);
}

#endif
