// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts packets and bytes per verdict: by programs that give the verdict themselves, or at the
 * exit of a program that somebody else runs. Owner: Actions in the Go package internal/meter.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "include/traced.h"

/* The kernel's enum xdp_action, and all that it is not. */
enum limit {
	UNKNOWN = XDP_REDIRECT + 1,
	VERDICTS,
};
enum limit *const limit_type; /* keeps the type in BTF, for bpf2go */

struct tally {
	__u64 packets;
	__u64 bytes; /* of whole packets, all their buffers included */
};

/*
 * By queue, VERDICTS slots each; Go sets the size. Per CPU, and neither XDP nor a trace of it nests
 * on one CPU: no atomics.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, VERDICTS);
	__type(key, __u32);
	__type(value, struct tally);
} xdp_stats_map SEC(".maps");

/* Queues that are counted by themselves; all others share the slots behind theirs. */
volatile const __u32 queues = 0;

static __always_inline void record_action(__u32 verdict, __u32 queue, __u64 bytes)
{
	__u32 slot = verdict < UNKNOWN ? verdict : UNKNOWN;

	slot += (queue < queues ? queue : queues) * VERDICTS;

	struct tally *tally = bpf_map_lookup_elem(&xdp_stats_map, &slot);

	if (!tally)
		return;
	tally->packets++;
	tally->bytes += bytes;
}

static __always_inline int act(struct xdp_md *ctx, __u32 verdict)
{
	record_action(verdict, ctx->rx_queue_index, bpf_xdp_get_buff_len(ctx));
	return verdict;
}

SEC("xdp.frags")
int xdp_pass_func(struct xdp_md *ctx)
{
	return act(ctx, XDP_PASS);
}

SEC("xdp.frags")
int xdp_drop_func(struct xdp_md *ctx)
{
	return act(ctx, XDP_DROP);
}

SEC("xdp.frags")
int xdp_abort_func(struct xdp_md *ctx)
{
	return act(ctx, XDP_ABORTED);
}

/*
 * Its arguments are those of the traced program and what that returned. The program may have made
 * the packet longer or shorter: these are the bytes that its verdict is for.
 */
SEC("fexit/xdp")
int count_exit(__u64 *args)
{
	struct xdp_buff *xdp = (void *)args[0];

	if (is_from_traced(xdp))
		record_action(args[1], xdp->rxq->queue_index,
			      bpf_xdp_get_buff_len((struct xdp_md *)xdp));
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
