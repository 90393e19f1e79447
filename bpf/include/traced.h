/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What fentry and fexit programs read of a packet, wherever this kernel has it. */
#ifndef TRACED_H
#define TRACED_H

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct net_device {
	__u32 ifindex; /* an int, never negative */
};
struct xdp_rxq_info {
	struct net_device *dev;
	__u32 queue_index;
};
struct xdp_buff {
	void *data;
	void *data_end;
	struct xdp_rxq_info *rxq;
};
#pragma clang attribute pop

/* The program may run for others, too; 0 = whichever interface it runs for. */
volatile const __u32 traced_ifindex = 0;

static __always_inline bool is_from_traced(const struct xdp_buff *xdp)
{
	return !traced_ifindex || xdp->rxq->dev->ifindex == traced_ifindex;
}

#endif
