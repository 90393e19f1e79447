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

volatile const __u32 source = 0;
volatile const enum limit snaplen = MAX_SAMPLE_SIZE;
/* A packet is kept when a random 32-bit number is not above this: all of them by default. */
volatile const __u32 keep_below = 0xffffffff;
volatile const __u32 verdict = XDP_PASS;

static __always_inline void sample(void *ctx, __u32 wire_len, __u32 ifindex, __u32 rx_queue)
{
	__u32 slot = source;
	struct account *count = bpf_map_lookup_elem(&accounts, &slot);

	if (!count)
		return;
	count->seen++;

	if (keep_below != 0xffffffff && bpf_get_prandom_u32() > keep_below) {
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
		.ifindex = ifindex,
		.rx_queue = rx_queue,
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
	sample(ctx, bpf_xdp_get_buff_len(ctx), ctx->ingress_ifindex, ctx->rx_queue_index);
	return verdict;
}

char _license[] SEC("license") = "Dual BSD/GPL";
