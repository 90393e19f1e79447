// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Several programs that run one after the other on one interface, the way libxdp does it: a
 * dispatcher whose functions are replaced by the programs. Owner: internal/testnet.
 */
#include "../bpf/include/build.h"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define STUB(name)                                                                                 \
	__noinline int name(struct xdp_md *ctx)                                                    \
	{                                                                                          \
		int verdict = XDP_PASS;                                                            \
                                                                                                   \
		asm volatile("" : "+r"(verdict) : "r"(ctx));                                       \
		return verdict;                                                                    \
	}

STUB(prog0)
STUB(prog1)
STUB(prog2)

SEC("xdp")
int xdp_dispatcher(struct xdp_md *ctx)
{
	int verdict = prog0(ctx);

	if (verdict == XDP_PASS)
		verdict = prog1(ctx);
	if (verdict == XDP_PASS)
		verdict = prog2(ctx);
	return verdict;
}

/* The names are longer than the 15 characters that the kernel itself keeps. */
SEC("freplace/prog0")
int firewall_component(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("freplace/prog1")
int load_balancer_component(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("freplace/prog2")
int statistics_component(struct xdp_md *ctx)
{
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
