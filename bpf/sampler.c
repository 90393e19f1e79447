// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Samples packets at the XDP hook into per-CPU perf rings. Owner: the Go package capture.
 *
 * Every packet leaves through exactly one counter, so that for each source and at any time with no
 * program running
 *
 *	seen = filtered_out + not_sampled + lost + sampled
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#include "include/flow.h"

/*
 * The record: this struct, then `length` packet bytes that the kernel appends, then up to seven
 * bytes of padding. capture checks cookie and length against the size of what it received.
 */
struct sample {
	__u16 cookie;	 /* SAMPLE_COOKIE */
	__u16 length;	 /* packet bytes that follow, <= MAX_SAMPLE_SIZE */
	__u32 wire_len;	 /* bytes of the packet, all fragments included */
	__u64 time_ns;	 /* CLOCK_MONOTONIC */
	__u64 packet_id; /* CPU in the upper 16 bits, running number of the source there below */
	__u32 ifindex;
	__u32 rx_queue;
	__u32 source; /* index into accounts */
	__u32 lost;   /* account.lost of this source on this CPU so far, modulo 2^32 */
};
_Static_assert(sizeof(struct sample) == 40, "the record's head is part of the ABI");
_Static_assert(sizeof(struct sample) % 8 == 0, "no implicit padding at the end");
struct sample *const sample_type; /* keeps the type in BTF, for bpf2go */

/*
 * A perf record counts its size in 16 bits, in steps of 8: of that, 8 bytes are perf's header and 4
 * the raw size. The helper reports success for anything longer, and the record vanishes.
 */
enum limit {
	SAMPLE_COOKIE = 0x7870,
	MAX_SAMPLE_SIZE = (0xffff & ~7) - 12 - sizeof(struct sample),
	TIME_SHIFT = 4, /* the token bucket counts sixteenths of a nanosecond: finer than any packet
			   rate */
};

struct account {
	__u64 seen;
	__u64 filtered_out;
	__u64 not_sampled;
	__u64 lost;
	__u64 sampled;
};

/* The size of neither map is known here: capture sets one slot per CPU, and one per source. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__type(key, __u32);
	__type(value, __u32);
} samples SEC(".maps");

/* Per CPU, and XDP does not nest on one CPU: no atomics. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct account);
} accounts SEC(".maps");

/* The beginning of the packet at hand. */
struct head {
	__u8 bytes[FLOW_BYTES];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct head);
} heads SEC(".maps");

/* How many packets of a flow came so far. The flows that were silent longest are forgotten. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 17);
	__type(key, struct flow);
	__type(value, __u64);
} flows SEC(".maps");

/* The token bucket of all CPUs and sources: the time up to which packets have been paid for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} bucket SEC(".maps");

/* What is off costs nothing: the verifier removes it. */
volatile const __u32 source = 0;
volatile const enum limit snaplen = MAX_SAMPLE_SIZE;
volatile const __u32 verdict = XDP_PASS;
volatile const bool filtering = false;
/* A packet is kept when a random 32-bit number is not above this: all of them by default. */
volatile const __u32 keep_below = 0xffffffff;
/* A flow is kept when its hash is not above this. */
volatile const __u32 keep_flows_below = 0xffffffff;
volatile const __u64 flow_seed = 0;
/* This many packets of each flow are kept; 0 = all. */
volatile const __u64 first_packets = 0;
/* What a packet costs, in time; 0 = nothing. Sixteenths of a nanosecond: finer than any packet
 * rate. */
volatile const __u64 packet_cost = 0;
#define TIME_SHIFT 4
#define BURST	   (1000000000ULL << TIME_SHIFT)

/*
 * Package filter puts its program in place of this function's body. A load that the packet is too
 * short for is "no match" there.
 */
__noinline int filter(struct xdp_md *ctx, __u32 wire_len)
{
	int match = 1;

	/* Else the compiler would know the result, and callers would not set the arguments. */
	asm volatile("" : "+r"(match) : "r"(ctx), "r"(wire_len));
	return match;
}

/* Fails when another CPU was faster too often: then the rate is high enough. */
static __always_inline bool pay(void)
{
	__u32 zero = 0;
	__u64 *paid = bpf_map_lookup_elem(&bucket, &zero);

	if (!paid)
		return false;
	__u64 now = bpf_ktime_get_ns() << TIME_SHIFT;

	for (int i = 0; i < 8; i++) {
		__u64 before = *paid;
		__u64 from = before + BURST < now ? now - BURST : before;

		if (from + packet_cost > now)
			return false;
		if (__sync_val_compare_and_swap(paid, before, from + packet_cost) == before)
			return true;
	}
	return false;
}

static __always_inline bool is_among_first(const struct flow *f)
{
	__u64 *count = bpf_map_lookup_elem(&flows, f), one = 1;

	if (!count) {
		if (!bpf_map_update_elem(&flows, f, &one, BPF_NOEXIST))
			return true;
		count = bpf_map_lookup_elem(&flows, f); /* another CPU was faster */
		if (!count)
			return true;
	}
	return __sync_fetch_and_add(count, 1) < first_packets;
}

static __always_inline bool is_kept_flow(struct xdp_md *ctx, __u32 wire_len)
{
	__u32 zero = 0;
	__u64 length = wire_len;
	struct head *head = bpf_map_lookup_elem(&heads, &zero);
	struct flow f;

	/* The verifier must see both bounds on the very register that goes into the call. */
	asm volatile("" : "+r"(length));
	if (length > FLOW_BYTES)
		length = FLOW_BYTES;
	if (!head || length == 0 || bpf_xdp_load_bytes(ctx, 0, head->bytes, length))
		return false;
	find_flow(head->bytes, length, &f);
	if (hash_flow(&f, flow_seed) > keep_flows_below)
		return false;
	return !first_packets || is_among_first(&f);
}

/* The rate comes last: what it lets pass is captured. */
static __always_inline bool is_sampled(struct xdp_md *ctx, __u32 wire_len)
{
	if ((keep_flows_below != 0xffffffff || first_packets) && !is_kept_flow(ctx, wire_len))
		return false;
	if (keep_below != 0xffffffff && bpf_get_prandom_u32() > keep_below)
		return false;
	return !packet_cost || pay();
}

static __always_inline void sample(struct xdp_md *ctx, __u32 wire_len)
{
	__u32 slot = source;
	struct account *count = bpf_map_lookup_elem(&accounts, &slot);

	if (!count)
		return;
	count->seen++;

	if (filtering && !filter(ctx, wire_len)) {
		count->filtered_out++;
		return;
	}
	if (!is_sampled(ctx, wire_len)) {
		count->not_sampled++;
		return;
	}

	/* One byte more than the packet has would fail with -EFAULT. */
	__u64 length = wire_len < snaplen ? wire_len : snaplen;
	struct sample head = {
		.cookie = SAMPLE_COOKIE,
		.length = length,
		.wire_len = wire_len,
		.time_ns = bpf_ktime_get_ns(),
		.packet_id = (__u64)bpf_get_smp_processor_id() << 48 | count->seen,
		.ifindex = ctx->ingress_ifindex,
		.rx_queue = ctx->rx_queue_index,
		.source = slot,
		.lost = count->lost,
	};

	if (bpf_perf_event_output(ctx, &samples, BPF_F_CURRENT_CPU | length << 32, &head,
				  sizeof(head)))
		count->lost++;
	else
		count->sampled++;
}

SEC("xdp.frags")
int sample_xdp(struct xdp_md *ctx)
{
	sample(ctx, bpf_xdp_get_buff_len(ctx));
	return verdict;
}

char _license[] SEC("license") = "Dual BSD/GPL";
