/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The interface through which a traced program sends a packet, by XDP_TX or XDP_REDIRECT. The
 * kernel redirects the packet only after the program has returned. The program has set the target
 * by calling bpf_redirect or bpf_redirect_map, and the kernel keeps it until then.
 */
#ifndef OUTLET_H
#define OUTLET_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "record.h"
#include "traced.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bpf_redirect_info {
	__u32 tgt_index; /* has 64 bits in newer kernels; an interface's index is in the lower 32 */
	void *tgt_value; /* result of the look-up in a map */
	struct bpf_map *map; /* set if the packet goes to all interfaces in it, otherwise NULL */
	__u32 map_id;
	enum bpf_map_type map_type;
	__u32 kern_flags;
};
struct bpf_net_context {
	struct bpf_redirect_info ri;
};
struct task_struct {
	struct bpf_net_context *bpf_net_context;
};
struct net_device___flags {
	__u32 flags;
};
struct bpf_dtab_netdev { /* an entry of a devmap */
	struct net_device *dev;
};
#pragma clang attribute pop

/* In kern_flags, since Linux 6.11: the other fields are set. */
#define RI_INIT (1 << 1)
/* In map_id, if map_type is BPF_MAP_TYPE_UNSPEC: set by bpf_redirect, which has no map. */
#define NO_MAP 0x7fffffff
/* In net_device.flags: the device is a slave of a bond. */
#define IFF_SLAVE (1 << 11)

/* Whether capture has put the per-CPU variable's id into the instruction that names it. */
volatile const bool redirect_info_in_cpu = false;

/* Whether the kernel sends packets for which the traced program returns XDP_TX, as at interfaces.
 * */
volatile const bool sending_tx = false;

/*
 * redirect_info returns the target that the last call to redirect has left for the kernel, or
 * NULL. Since Linux 6.11 it belongs to the current task, before that to the CPU.
 */
static __always_inline struct bpf_redirect_info *redirect_info(void)
{
	struct bpf_redirect_info *info;

	if (redirect_info_in_cpu) {
		asm volatile("%0 = bpf_redirect_info ll" : "=r"(info));
		return bpf_this_cpu_ptr(info);
	}
	if (!bpf_core_field_exists(struct task_struct, bpf_net_context))
		return NULL;
	struct task_struct *task = bpf_get_current_task_btf();

	info = &task->bpf_net_context->ri;
	return info->kern_flags & RI_INIT ? info : NULL;
}

/* index_of returns a device's index; TO_OTHER_NETNS is set if it is in another namespace. */
static __always_inline __u32 index_of(struct net_device *dev, struct xdp_buff *xdp)
{
	__u32 index = BPF_CORE_READ(dev, ifindex);

	if (index && BPF_CORE_READ(dev, nd_net.net) != xdp->rxq->dev->nd_net.net)
		index |= TO_OTHER_NETNS;
	return index;
}

/* redirect_target returns 0 if the target is not one interface: a CPU, a socket, or several. */
static __always_inline __u32 redirect_target(struct xdp_buff *xdp)
{
	struct bpf_redirect_info *info = redirect_info();
	struct bpf_dtab_netdev *entry;

	if (!info)
		return 0;
	switch (info->map_type) {
	case BPF_MAP_TYPE_UNSPEC:
		return info->map_id == NO_MAP ? info->tgt_index : 0;
	case BPF_MAP_TYPE_DEVMAP:
	case BPF_MAP_TYPE_DEVMAP_HASH:
		if (info->map)
			return 0;
		entry = info->tgt_value;
		return index_of(BPF_CORE_READ(entry, dev), xdp);
	default:
		return 0;
	}
}

/*
 * find_outlet returns the interface in the form of struct facts. If a slave of a bond sends a
 * packet back, the bond chooses one of its slaves later: it is not known yet.
 */
static __always_inline __u32 find_outlet(struct xdp_buff *xdp, int verdict)
{
	if (verdict == XDP_REDIRECT)
		return redirect_target(xdp);
	if (verdict != XDP_TX || !sending_tx)
		return 0;
	const struct net_device___flags *dev = (void *)xdp->rxq->dev;

	return dev->flags & IFF_SLAVE ? 0 : xdp->rxq->dev->ifindex;
}

#endif
