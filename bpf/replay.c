// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Beside an XDP program that is run on the packets of a file: where it redirects them, and what a
 * run costs without it. Owner: the Go package internal/replay.
 */
#include "include/build.h"
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "include/outlet.h"

/* Of the last packet, in the form of struct facts. The program runs on one packet at a time. */
__u32 last_outlet;

SEC("fexit/xdp")
int BPF_PROG(xdpcap_replayed, struct xdp_buff *xdp, int returned)
{
	last_outlet = find_outlet(xdp, returned);
	return 0;
}

/* What the run of a program costs that does nothing. */
SEC("xdp.frags")
int xdpcap_empty(struct xdp_md *ctx)
{
	return XDP_PASS;
}

char _license[] SEC("license") = "Dual BSD/GPL";
