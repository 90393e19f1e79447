// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * An XDP program that sends packets on in every way that there is. Owner: internal/testnet.
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

/* internal/testnet/redirector.go has the same ports. */
enum port {
	BACK_PORT = 1,
	INDEX_PORT,
	DEVMAP_PORT,
	HASH_PORT,
	NAMESPACE_PORT,
	BROADCAST_PORT,
	CPU_PORT,
	UNSAID_PORT,
};

/* The second entry is in another network namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} hashed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} cpus SEC(".maps");

volatile const __u32 outlet = 0; /* the index of the interface for INDEX_PORT */

SEC("xdp.frags")
int redirecting_target(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);

	if ((void *)(udp + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP))
		return XDP_PASS;
	switch (bpf_ntohs(udp->dest)) {
	case BACK_PORT:
		return XDP_TX;
	case INDEX_PORT:
		return bpf_redirect(outlet, 0);
	case DEVMAP_PORT:
		return bpf_redirect_map(&devices, 0, 0);
	case HASH_PORT:
		return bpf_redirect_map(&hashed, 0, 0);
	case NAMESPACE_PORT:
		return bpf_redirect_map(&devices, 1, 0);
	case BROADCAST_PORT:
		return bpf_redirect_map(&devices, 0, BPF_F_BROADCAST);
	case CPU_PORT:
		return bpf_redirect_map(&cpus, 0, 0);
	case UNSAID_PORT:
		return XDP_REDIRECT;
	}
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
