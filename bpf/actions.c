// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts packets and bytes per verdict. xdpcap_pass, xdpcap_drop and xdpcap_abort are XDP
 * programs that give every packet one verdict; xdpcap_exit counts at the exit of an XDP program
 * that is already running. Owner: Actions in the Go package internal/meter.
 */
#include "include/build.h"
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "include/filter.h"
#include "include/reason.h"
#include "include/traced.h"
#include "include/verdict.h"

enum verdict *const verdict_type; /* keeps the type in BTF, where a test reads it */

/*
 * VERDICT_SLOTS entries for each of the first `queues` queues, and as many for all others together;
 * Actions sets max_entries. No atomics: each CPU has its own entries, and neither XDP programs nor
 * their tracers interrupt each other on one CPU (xdp.Alone, xdp.CheckTracing).
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, VERDICT_SLOTS);
	__type(key, __u32);
	__type(value, struct tally);
} xdp_stats_map SEC(".maps");

/* What was dropped for one reason. */
struct given_cause {
	__u32 reason;
	__u16 verdict;
	__u16 is_rest; /* all reasons for which the table has no room */
};

/*
 * Packets that a traced program has dropped, by their cause, if reasons are read; Actions sets
 * max_entries. It also makes the entry of the rest for each verdict, so that no packet is omitted.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1);
	__type(key, struct given_cause);
	__type(value, struct tally);
} causes SEC(".maps");

/* How many queues are counted separately, from queue 0 on. */
volatile const __u32 queues = 0;

static __always_inline void record_action(__u32 returned, __u32 queue, __u64 bytes)
{
	__u32 row = queue < queues ? queue : queues;
	__u32 slot = row * VERDICT_SLOTS + slot_of(returned);
	struct tally *tally = bpf_map_lookup_elem(&xdp_stats_map, &slot);

	if (tally)
		add(tally, bytes);
}

static __always_inline struct tally *find_cause(const struct given_cause *cause)
{
	struct tally *tally = bpf_map_lookup_elem(&causes, cause), none = {};

	if (tally)
		return tally;
	/* Fails if the table is full, or if another CPU has made the entry since the look-up. */
	bpf_map_update_elem(&causes, cause, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&causes, cause);
}

static __always_inline void record_reason(__u32 returned, __u64 bytes)
{
	struct given_cause cause = { .reason = given_reason(returned), .verdict = returned };
	struct tally *tally = find_cause(&cause);

	if (!tally) {
		cause.reason = 0;
		cause.is_rest = 1;
		tally = bpf_map_lookup_elem(&causes, &cause);
	}
	if (tally)
		add(tally, bytes);
}

static __always_inline int act(struct xdp_md *ctx, __u32 verdict)
{
	record_action(verdict, ctx->rx_queue_index, bpf_xdp_get_buff_len(ctx));
	return verdict;
}

SEC("xdp.frags")
int xdpcap_pass(struct xdp_md *ctx)
{
	return act(ctx, XDP_PASS);
}

SEC("xdp.frags")
int xdpcap_drop(struct xdp_md *ctx)
{
	return act(ctx, XDP_DROP);
}

SEC("xdp.frags")
int xdpcap_abort(struct xdp_md *ctx)
{
	return act(ctx, XDP_ABORTED);
}

/* Whether the filter has taken the packet that the traced program works on. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} taken SEC(".maps");

static __always_inline __u32 *find_taken(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&taken, &zero);
}

/* xdpcap_choose applies the filter at the entry: the traced program may change the packet. */
SEC("fentry/xdp")
int xdpcap_choose(__u64 *args)
{
	struct xdp_buff *xdp = (void *)args[0];
	__u32 *is_taken = find_taken();

	if (is_taken && is_from_traced(xdp))
		*is_taken = is_match(xdp, XDP_BUFF, length_of(xdp));
	return 0;
}

/* was_taken is false for a packet that entered before xdpcap_choose was attached. */
static __always_inline bool was_taken(void)
{
	__u32 *is_taken = find_taken();
	__u32 was = is_taken ? *is_taken : 0;

	if (is_taken)
		*is_taken = 0;
	return was;
}

/*
 * args[0] is the traced program's only argument, args[1] is what it returned. The packet's length
 * is the one after the program ran, which may have changed it.
 */
SEC("fexit/xdp")
int xdpcap_exit(__u64 *args)
{
	struct xdp_buff *xdp = (void *)args[0];

	if (!is_from_traced(xdp) || (filtering && !was_taken()))
		return 0;
	record_action(args[1], xdp->rxq->queue_index, length_of(xdp));
	if (reading_reasons && is_dropped(args[1]))
		record_reason(args[1], length_of(xdp));
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
