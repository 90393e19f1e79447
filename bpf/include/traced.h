/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a program that traces an XDP program may see of its packet. Each struct names only the
 * fields that are read: the loader finds their places in the running kernel's types by name.
 */
#ifndef TRACED_H
#define TRACED_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct net_device {
	__u32 ifindex; /* an int in the kernel, and never negative */
};
struct xdp_rxq_info {
	struct net_device *dev; /* the interface that the packet came in on */
	__u32 queue_index;
};
struct xdp_buff {
	void *data;
	void *data_end;
	struct xdp_rxq_info *rxq;
};
#pragma clang attribute pop

/*
 * The index of the interface whose packets are looked at, 0 for all of them. A traced program may
 * run for several interfaces.
 */
volatile const __u32 traced_ifindex = 0;

static __always_inline bool is_from_traced(const struct xdp_buff *xdp)
{
	return !traced_ifindex || xdp->rxq->dev->ifindex == traced_ifindex;
}

/* length_of is the number of bytes in all buffers of a traced packet. */
static __always_inline __u64 length_of(struct xdp_buff *xdp)
{
	return bpf_xdp_get_buff_len((struct xdp_md *)xdp);
}

#endif
