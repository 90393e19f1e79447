// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts packets and bytes per verdict: by programs that give the verdict themselves, or at the
 * exit of a program that somebody else runs. Owner: Actions in the Go package internal/meter.
 */
#include "include/build.h"
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "include/traced.h"
#include "include/verdict.h"

enum verdict *const verdict_type; /* keeps the type in BTF, where a test reads it */

/*
 * VERDICT_SLOTS entries for each queue; Actions sets the size. No atomics: each CPU has its own
 * entries, and neither XDP programs nor their tracers interrupt each other on one CPU.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, VERDICT_SLOTS);
	__type(key, __u32);
	__type(value, struct tally);
} xdp_stats_map SEC(".maps");

/* The first so many queues are counted separately; all others share the slots behind theirs. */
volatile const __u32 queues = 0;

static __always_inline void record_action(__u32 returned, __u32 queue, __u64 bytes)
{
	__u32 row = queue < queues ? queue : queues;
	__u32 slot = row * VERDICT_SLOTS + slot_of(returned);
	struct tally *tally = bpf_map_lookup_elem(&xdp_stats_map, &slot);

	if (tally)
		add(tally, bytes);
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
 * args has the traced program's only argument, then what it returned. The bytes are counted as the
 * program left the packet, which it may have made longer or shorter.
 */
SEC("fexit/xdp")
int count_exit(__u64 *args)
{
	struct xdp_buff *xdp = (void *)args[0];

	if (is_from_traced(xdp))
		record_action(args[1], xdp->rxq->queue_index, length_of(xdp));
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
