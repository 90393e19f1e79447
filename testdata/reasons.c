// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * An XDP program that says why it drops a packet, for --reason-map. Owner: internal/testnet.
 *
 * The UDP destination port says which way a packet takes.
 */
#include "../bpf/include/build.h"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* internal/testnet/reasoner.go has the same ports. */
enum port {
	BLOCKED_PORT = 1,
	NO_BACKEND_PORT,
	SILENT_PORT,
	NUMBER_PORT = 1000, /* and all above */
};

/* xdpcap prints these names, because they are the type of the map's value. 0 is no reason. */
enum drop_reason {
	REASON_NONE,
	REASON_BLOCKED,
	REASON_NO_BACKEND,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, enum drop_reason);
} reasons SEC(".maps");

/* The reason is written before every drop, or the packet would get the reason of an earlier one. */
static __always_inline int drop(int verdict, enum drop_reason why)
{
	__u32 zero = 0;
	enum drop_reason *reason = bpf_map_lookup_elem(&reasons, &zero);

	if (reason)
		*reason = why;
	return verdict;
}

SEC("xdp.frags")
int reasoning_target(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);

	if ((void *)(udp + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	__u16 port = bpf_ntohs(udp->dest);

	switch (port) {
	case BLOCKED_PORT:
		return drop(XDP_DROP, REASON_BLOCKED);
	case NO_BACKEND_PORT:
		return drop(XDP_ABORTED, REASON_NO_BACKEND);
	case SILENT_PORT:
		return drop(XDP_DROP, REASON_NONE);
	}
	if (port >= NUMBER_PORT) /* a reason for which the enum has no name */
		return drop(XDP_DROP, (enum drop_reason)port);
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
