// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * How long an XDP program runs, per verdict: measured at its entry and exit. Owner: Latency in the
 * Go package internal/meter.
 */
#include "include/build.h"
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "include/traced.h"
#include "include/verdict.h"

/*
 * A histogram's buckets are 1 ns wide below 2 * SUB_BUCKETS. Above, there are SUB_BUCKETS of equal
 * width from each power of two to the next, so that a bucket's width is at most 1/32 of its lower
 * bound, and its middle is within 1.6 % of every value in it.
 */
enum limit {
	SUB_BITS = 5,
	SUB_BUCKETS = 1 << SUB_BITS,
	MAX_BITS = 34, /* values of 2^34 ns, 17 s, and more are counted in the last bucket */
	BUCKETS = (MAX_BITS - SUB_BITS + 1) * SUB_BUCKETS,
};
enum limit *const limit_type; /* keeps the type in BTF, for bpf2go */

struct histogram {
	__u64 count;
	__u64 sum_ns;
	__u64 min_ns;
	__u64 max_ns;
	__u64 buckets[BUCKETS];
};

/*
 * The histogram of each verdict. No atomics: each CPU has its own, and neither XDP programs nor
 * their tracers interrupt each other on one CPU (xdp.Alone, xdp.CheckTracing).
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, VERDICT_SLOTS);
	__type(key, __u32);
	__type(value, struct histogram);
} histograms SEC(".maps");

/* The time at which the traced program was entered; 0 before the first entry and after an exit. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} entries SEC(".maps");

static __always_inline __u32 log2_of(__u64 v)
{
	__u32 n = 0;

	if (v >> 32) {
		v >>= 32;
		n = 32;
	}
	if (v >> 16) {
		v >>= 16;
		n += 16;
	}
	if (v >> 8) {
		v >>= 8;
		n += 8;
	}
	if (v >> 4) {
		v >>= 4;
		n += 4;
	}
	if (v >> 2) {
		v >>= 2;
		n += 2;
	}
	return n + (v >> 1);
}

static __always_inline __u32 bucket_of(__u64 ns)
{
	__u32 shift;

	if (ns < SUB_BUCKETS)
		return ns;
	if (ns >> MAX_BITS)
		return BUCKETS - 1;
	shift = log2_of(ns) - SUB_BITS;
	return shift * SUB_BUCKETS + (ns >> shift);
}

static __always_inline void count(__u32 returned, __u64 ns)
{
	__u32 slot = slot_of(returned);
	struct histogram *h = bpf_map_lookup_elem(&histograms, &slot);
	__u64 bucket = bucket_of(ns);

	/*
	 * bucket_of always returns less than BUCKETS. clang knows that and would remove the test
	 * below, but the verifier refuses the program without it: barrier_var hides the value from
	 * clang.
	 */
	barrier_var(bucket);
	if (!h || bucket >= BUCKETS)
		return;
	if (!h->count || ns < h->min_ns)
		h->min_ns = ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
	h->count++;
	h->sum_ns += ns;
	h->buckets[bucket]++;
}

SEC("fentry/xdp")
int BPF_PROG(xdpcap_entry, struct xdp_buff *xdp)
{
	__u32 zero = 0;
	__u64 *entry = bpf_map_lookup_elem(&entries, &zero);

	if (entry && is_from_traced(xdp))
		*entry = bpf_ktime_get_ns(); /* last, so that xdpcap_entry itself is not measured */
	return 0;
}

SEC("fexit/xdp")
int BPF_PROG(xdpcap_exit, void *packet, int verdict)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 zero = 0;
	__u64 *entry = bpf_map_lookup_elem(&entries, &zero);

	if (!entry || !*entry)
		return 0;
	count(verdict, now - *entry);
	*entry = 0;
	return 0;
}

/* MeasureProbeCost runs the probes on this program to measure their cost. */
SEC("xdp")
int xdpcap_nothing(struct xdp_md *ctx)
{
	return XDP_PASS;
}

/* xdpcap_replay is for tests: it counts a value like a measured one, and returns its bucket. */
struct replayed {
	__u64 took_ns;
	__u64 verdict;
};
struct replayed *const replayed_type;

SEC("syscall")
int xdpcap_replay(struct replayed *r)
{
	count(r->verdict, r->took_ns);
	return bucket_of(r->took_ns);
}

char _license[] SEC("license") = "Dual BSD/GPL";
