// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Samples packets at the XDP hook into per-CPU perf rings. Owner: the Go package capture.
 *
 * Either as an XDP program of our own, or by fentry and fexit on one that runs already. Each of
 * these is a source with an account of its own, and every packet leaves through exactly one of its
 * counters: for each source and at any time with no program running
 *
 *	seen = filtered_out + not_sampled + lost + sampled
 */
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <stdbool.h>

#include "include/flow.h"
#include "include/traced.h"

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
	__u32 source;  /* index into accounts */
	__u32 verdict; /* what the program returned, where that is known */
	__u64 lost;    /* account.lost of this source on this CPU so far */
};
_Static_assert(sizeof(struct sample) == 48, "the record's head is part of the ABI");
_Static_assert(sizeof(struct sample) % 8 == 0, "no implicit padding at the end");
struct sample *const sample_type; /* keeps the type in BTF, for bpf2go */

/*
 * A perf record counts its size in 16 bits, in steps of 8: of that, 8 bytes are perf's header and 4
 * the raw size. The helper reports success for anything longer, and the record vanishes.
 */
enum limit {
	SAMPLE_COOKIE = 0x7870,
	MAX_SAMPLE_SIZE = (0xffff & ~7) - 12 - sizeof(struct sample),
	HEAD_BYTES = 4096, /* a buffer's first page: more than a packet has in one piece */
	TIME_SHIFT = 4, /* the token bucket counts sixteenths of a nanosecond: finer than any packet
			   rate */
};

/* Of every `one_in` packets in a row one is kept, drawn when the first of them comes. */
struct lot {
	__u32 left;  /* how many of them are still to come */
	__u32 drawn; /* how many are when the one to keep has come */
};

struct account {
	__u64 seen;
	__u64 filtered_out;
	__u64 not_sampled;
	__u64 lost;
	__u64 sampled;
	struct lot lot;
};

/* How many CPUs and sources there are, capture knows. */
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
	__u8 bytes[HEAD_BYTES];
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

/* What fentry decided about the packet that fexit sees next on this CPU. */
enum decision {
	UNDECIDED,
	KEEP,
	FILTERED_OUT,
	NOT_SAMPLED,
};
struct passage {
	__u64 packets; /* their running number */
	__u64 decision;
};

/* One for each traced program. Per CPU, and XDP does not nest on one CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct passage);
} passages SEC(".maps");

/* What is off costs nothing: the verifier removes it. */
volatile const __u32 source = 0;
volatile const enum limit snaplen = MAX_SAMPLE_SIZE;
volatile const __u32 verdict = XDP_PASS;
volatile const bool filtering = false;
/* Whether the filter asks for a packet's length. */
volatile const bool filtering_length = false;
/* One packet of so many is kept. */
volatile const __u32 one_in = 1;
/* A flow is kept when its hash is not above this. */
volatile const __u32 keep_flows_below = 0xffffffff;
volatile const __u64 flow_seed = 0;
/* This many packets of each flow are kept; 0 = all. */
volatile const __u64 first_packets = 0;
/* What a packet costs in time, in units of TIME_SHIFT; 0 = nothing. */
volatile const __u64 packet_cost = 0;
#define BURST (1000000000ULL << TIME_SHIFT)

/* A bit for each verdict to keep; the last one is for all from there on. */
volatile const __u64 verdicts = ~0ULL;

/* Of fentry and fexit: */
volatile const __u32 passage = 0;
volatile const bool recording_entry = false;
volatile const bool deciding_at_exit = false;
/* How much of the packet filter_head may ask for. */
volatile const __u32 reach = HEAD_BYTES;

/* Which kind of program the body below is in: what is a constant there costs nothing. */
enum hook {
	IN_XDP,	 /* ctx is struct xdp_md */
	TRACING, /* ctx is struct xdp_buff, and bytes must be copied to be looked at */
};

/*
 * Package filter puts its program in place of these functions' bodies. A load that the packet is
 * too short for is "no match" there. The assembler hides the result from the compiler, and makes
 * callers set the arguments.
 */
__noinline int filter(struct xdp_md *ctx, __u32 wire_len)
{
	int match = 1;

	asm volatile("" : "+r"(match) : "r"(ctx), "r"(wire_len));
	return match;
}

__noinline int filter_head(struct head *head, __u32 wire_len, __u32 length)
{
	int match = 1;

	asm volatile("" : "+r"(match) : "r"(head), "r"(wire_len), "r"(length));
	return match;
}

/* Copies the packet's first bytes, at most `most`, and returns them; *length is how many they are.
 */
static __always_inline struct head *look(void *ctx, enum hook hook, __u64 most, __u64 *length)
{
	__u32 zero = 0;
	struct head *head = bpf_map_lookup_elem(&heads, &zero);
	struct xdp_buff *xdp = ctx;
	__u64 n = hook == IN_XDP ? bpf_xdp_get_buff_len(ctx) : xdp->data_end - xdp->data;
	long err;

	if (!head)
		return NULL;
	if (n > most)
		n = most;
	/*
	 * 1 to HEAD_BYTES, which it is anyway: Linux 6.1's verifier understands it when it is said
	 * like this, on the very register that goes into the call.
	 */
	asm volatile("" : "+r"(n));
	n = ((n - 1) & (HEAD_BYTES - 1)) + 1;
	if (hook == IN_XDP)
		err = bpf_xdp_load_bytes(ctx, 0, head->bytes, n);
	else
		err = bpf_probe_read_kernel(head->bytes, n, xdp->data);
	*length = n;
	return err ? NULL : head;
}

static __always_inline bool matches(void *ctx, enum hook hook)
{
	__u32 wire_len = filtering_length ? bpf_xdp_get_buff_len(ctx) : 0;
	__u64 length = 0;

	if (hook == IN_XDP)
		return filter(ctx, wire_len);
	struct head *head = look(ctx, hook, reach, &length);

	return head && filter_head(head, wire_len, length);
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

static __always_inline bool is_kept_flow(void *ctx, enum hook hook)
{
	__u64 length = 0;
	struct head *head = look(ctx, hook, FLOW_BYTES, &length);
	struct flow f;

	if (!head)
		return false;
	find_flow(head->bytes, length, &f);
	if (hash_flow(&f, flow_seed) > keep_flows_below)
		return false;
	return !first_packets || is_among_first(&f);
}

/* As random as a number drawn for each packet, without its cost, and no lot goes without. */
static __always_inline bool is_drawn(struct lot *lot)
{
	if (!lot->left) {
		lot->left = one_in;
		lot->drawn = (__u64)bpf_get_prandom_u32() * one_in >> 32;
	}
	return --lot->left == lot->drawn;
}

/* The rate comes last: what it lets pass is captured. */
static __always_inline bool is_sampled(void *ctx, enum hook hook, struct account *count)
{
	if ((keep_flows_below != 0xffffffff || first_packets) && !is_kept_flow(ctx, hook))
		return false;
	if (one_in > 1 && !is_drawn(&count->lot))
		return false;
	return !packet_cost || pay();
}

static __always_inline enum decision decide(void *ctx, enum hook hook, struct account *count)
{
	if (filtering && !matches(ctx, hook))
		return FILTERED_OUT;
	return is_sampled(ctx, hook, count) ? KEEP : NOT_SAMPLED;
}

/* Takes its place, interface and length from `head` and sends the record. */
static __always_inline void emit(void *ctx, enum hook hook, struct account *count,
				 struct sample *head)
{
	/* One byte more than the packet has would fail with -EFAULT. */
	__u64 length = head->wire_len < snaplen ? head->wire_len : snaplen;
	__u64 flags = BPF_F_CURRENT_CPU | length << 32;
	long err;

	head->cookie = SAMPLE_COOKIE;
	head->length = length;
	head->time_ns = bpf_ktime_get_ns();
	head->source = source;
	head->lost = count->lost;
	if (hook == IN_XDP)
		err = bpf_perf_event_output(ctx, &samples, flags, head, sizeof(*head));
	else
		err = bpf_xdp_output(ctx, &samples, flags, head, sizeof(*head));
	if (err)
		count->lost++;
	else
		count->sampled++;
}

/* Counts the packets that are not to be sent; true for the others. */
static __always_inline bool is_to_be_sent(struct account *count, enum decision decision)
{
	if (decision == FILTERED_OUT)
		count->filtered_out++;
	else if (decision == NOT_SAMPLED)
		count->not_sampled++;
	return decision == KEEP;
}

static __always_inline bool is_wanted(__u32 returned)
{
	return verdicts & 1ULL << (returned < 63 ? returned : 63);
}

static __always_inline __u64 make_id(__u64 number)
{
	return (__u64)bpf_get_smp_processor_id() << 48 | number;
}

/* At the hook, or called by another program that is about to return the verdict. */
SEC("xdp.frags")
int sample_xdp(struct xdp_md *ctx)
{
	__u32 slot = source;
	struct account *count = bpf_map_lookup_elem(&accounts, &slot);

	if (!count)
		return verdict;
	count->seen++;
	if (!is_wanted(verdict))
		count->filtered_out++;
	else if (is_to_be_sent(count, decide(ctx, IN_XDP, count))) {
		struct sample head = {
			.wire_len = bpf_xdp_get_buff_len(ctx),
			.packet_id = make_id(count->seen),
			.ifindex = ctx->ingress_ifindex,
			.rx_queue = ctx->rx_queue_index,
			.verdict = verdict,
		};

		emit(ctx, IN_XDP, count, &head);
	}
	return verdict;
}

static __always_inline void emit_traced(struct xdp_buff *xdp, struct account *count, __u64 number,
					__u32 returned)
{
	struct sample head = {
		.wire_len = bpf_xdp_get_buff_len((void *)xdp),
		.packet_id = make_id(number),
		.ifindex = xdp->rxq->dev->ifindex,
		.rx_queue = xdp->rxq->queue_index,
		.verdict = returned,
	};

	emit(xdp, TRACING, count, &head);
}

static __always_inline struct passage *find_passage(struct xdp_buff *xdp)
{
	__u32 slot = passage;

	if (!is_from_traced(xdp))
		return NULL;
	return bpf_map_lookup_elem(&passages, &slot);
}

/* Decides for fexit, too, and is therefore attached also where only exits are recorded. */
SEC("fentry/xdp")
int BPF_PROG(sample_fentry, struct xdp_buff *xdp)
{
	__u32 slot = source;
	struct passage *p = find_passage(xdp);
	struct account *count = bpf_map_lookup_elem(&accounts, &slot);

	if (!p || !count)
		return 0;
	p->packets++;
	p->decision = deciding_at_exit ? KEEP : decide(xdp, TRACING, count);
	if (!recording_entry)
		return 0;
	count->seen++;
	if (is_to_be_sent(count, p->decision))
		emit_traced(xdp, count, p->packets, 0);
	return 0;
}

SEC("fexit/xdp")
int BPF_PROG(sample_fexit, struct xdp_buff *xdp, int returned)
{
	__u32 slot = source;
	struct passage *p = find_passage(xdp);
	struct account *count = bpf_map_lookup_elem(&accounts, &slot);
	enum decision decision;

	/* The entry of this packet was before fentry was attached: it belongs to no capture. */
	if (!p || !count || p->decision == UNDECIDED)
		return 0;
	count->seen++;
	decision = p->decision;
	p->decision = UNDECIDED;
	if (!is_wanted(returned) && decision == KEEP)
		decision = FILTERED_OUT;
	else if (deciding_at_exit)
		decision = decide(xdp, TRACING, count);
	if (is_to_be_sent(count, decision))
		emit_traced(xdp, count, p->packets, returned);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
