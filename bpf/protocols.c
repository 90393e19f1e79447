// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts packets and bytes per protocol, in three variants that must agree, and on request per
 * size and flow. Owner: Protocols in the Go package internal/meter.
 */
#include "include/build.h"
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "include/filter.h"
#include "include/flows.h"
#include "include/packet.h"
#include "include/traced.h"
#include "include/verdict.h"

enum limit {
	SIZES = 7, /* up to 64, 127, 255, 511, 1023, 1518 bytes, and jumbo */
};

/*
 * What is counted in addition to protocols. The bits are in one variable, so that a packet costs
 * one load of it if none is set.
 */
enum extra {
	WITH_SIZES = 1,
	WITH_FLOWS = 2,
};
enum extra *const extra_type; /* keeps the type in BTF, for bpf2go */
enum limit *const limit_type;
struct flow_entry *const flow_entry_type;

volatile const __u32 extras = 0;

/*
 * How packets are counted. The verifier removes the code of the other variants: what is left of
 * them is a load of this constant.
 */
enum variant {
	PERCPU,
	ULTRA,
	NAIVE,
};

volatile const enum variant chosen = PERCPU;

/* naive: one table for all CPUs, which is searched and updated atomically for every packet. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct tally);
} naive_tallies SEC(".maps");

/*
 * No atomics here and in all maps below: each CPU has its own entries, and neither XDP programs nor
 * their tracers interrupt each other on one CPU (xdp.Alone, xdp.CheckTracing).
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct tally);
} percpu_tallies SEC(".maps");

struct slots {
	struct tally by_class[SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slots);
} ultra_tallies SEC(".maps");

/* Counts the classes from OTHER on, which have no slots in the arrays of percpu and ultra. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct tally);
} ethertypes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SIZES);
	__type(key, __u32);
	__type(value, struct tally);
} sizes SEC(".maps");

/*
 * classify_rare classifies any packet. It is not inlined, so that classify stays short. It takes
 * ctx instead of a struct packet, because ctx fits in one register.
 */
static __noinline __u64 classify_rare(struct xdp_md *ctx)
{
	struct packet p = { .context = XDP_MD, .ctx = ctx };
	struct layers l;

	find_layers(&p, &l);
	return l.class;
}

/* classify_rare_sent is classify_rare at egress. */
static __noinline __u64 classify_rare_sent(struct __sk_buff *skb)
{
	struct packet p = { .context = SKB, .ctx = skb };
	struct layers l;

	find_layers(&p, &l);
	return l.class;
}

/*
 * classify_common finds the class of the most common packets in a few steps, and returns SLOTS for
 * all others.
 */
static __always_inline __u64 classify_common(const void *data, const void *end)
{
	/*
	 * One comparison is enough for IPv4 and IPv6: Ethernet pads a short IPv4 packet to 60
	 * bytes, and the Ethernet and IPv6 headers have 54.
	 */
	if (data + ETH_HLEN + sizeof(struct ipv6hdr) <= end) {
		__be16 type = *(__be16 *)(data + 2 * ETH_ALEN);

		if (type == bpf_htons(ETH_P_IP))
			return V4 + *(__u8 *)(data + ETH_HLEN + 9);
		if (type == bpf_htons(ETH_P_IPV6)) {
			__u8 next = *(__u8 *)(data + ETH_HLEN + 6);

			if (next == IPPROTO_TCP || next == IPPROTO_UDP)
				return V6 + next;
		}
	}
	return SLOTS;
}

/* classify finds the same class as find_layers, in fewer steps for the most common packets. */
static __always_inline __u64 classify(struct xdp_md *ctx)
{
	__u64 class = classify_common((void *)(long)ctx->data, (void *)(long)ctx->data_end);

	return class == SLOTS ? classify_rare(ctx) : class;
}

/* classify_sent is classify at egress. */
static __always_inline __u64 classify_sent(struct __sk_buff *skb)
{
	__u64 class = classify_common((void *)(long)skb->data, (void *)(long)skb->data_end);

	return class == SLOTS ? classify_rare_sent(skb) : class;
}

static __always_inline void count_naive(__u32 class, __u64 bytes)
{
	struct tally *tally = bpf_map_lookup_elem(&naive_tallies, &class);

	if (!tally) {
		struct tally none = {};

		/* It does not matter if another CPU has inserted the class meanwhile. */
		bpf_map_update_elem(&naive_tallies, &class, &none, BPF_NOEXIST);
		tally = bpf_map_lookup_elem(&naive_tallies, &class);
	}
	if (!tally) {
		class = NO_ROOM;
		tally = bpf_map_lookup_elem(&naive_tallies, &class); /* inserted by Protocols */
	}
	if (!tally)
		return;
	__sync_fetch_and_add(&tally->packets, 1);
	__sync_fetch_and_add(&tally->bytes, bytes);
}

/*
 * count_ethertype counts a class that has no slot, and returns SLOTS. If its table is full, it
 * counts nothing and returns NO_ROOM: the caller counts the packet in that slot.
 */
static __noinline __u64 count_ethertype(__u32 class, __u64 bytes)
{
	struct tally *tally = bpf_map_lookup_elem(&ethertypes, &class);

	if (!tally) {
		struct tally none = {};

		bpf_map_update_elem(&ethertypes, &class, &none, BPF_NOEXIST);
		tally = bpf_map_lookup_elem(&ethertypes, &class);
		if (!tally)
			return NO_ROOM;
	}
	add(tally, bytes);
	return SLOTS;
}

static __always_inline void count_percpu(__u64 class, __u64 bytes)
{
	__u32 slot = class;

	if (class >= SLOTS)
		slot = count_ethertype(class, bytes);

	struct tally *tally = bpf_map_lookup_elem(&percpu_tallies, &slot); /* NULL for SLOTS */

	if (tally)
		add(tally, bytes);
}

static __always_inline void count_ultra(__u64 class, __u64 bytes)
{
	__u32 zero = 0;
	struct slots *slots = bpf_map_lookup_elem(&ultra_tallies, &zero);

	if (!slots)
		return;
	if (class >= SLOTS) {
		class = count_ethertype(class, bytes);
		if (class >= SLOTS)
			return;
	}
	add(&slots->by_class[class], bytes);
}

static __always_inline void count_size(__u64 bytes)
{
	__u32 slot = 0;

	if (bytes > 1518)
		slot = 6;
	else if (bytes > 1023)
		slot = 5;
	else if (bytes > 511)
		slot = 4;
	else if (bytes > 255)
		slot = 3;
	else if (bytes > 127)
		slot = 2;
	else if (bytes > 64)
		slot = 1;

	struct tally *tally = bpf_map_lookup_elem(&sizes, &slot);

	if (tally)
		add(tally, bytes);
}

static __always_inline void count_extras(const struct packet *p, __u64 bytes, __u32 verdict)
{
	if (extras & WITH_SIZES)
		count_size(bytes);
	if (extras & WITH_FLOWS)
		count_flow(p, bytes, verdict);
}

static __noinline int count_xdp_extras(struct xdp_md *ctx, __u64 bytes, __u32 verdict)
{
	struct packet p = { .context = XDP_MD, .ctx = ctx };

	count_extras(&p, bytes, verdict);
	return 0;
}

static __noinline int count_sent_extras(struct __sk_buff *skb, __u64 bytes)
{
	struct packet p = { .context = SKB, .ctx = skb };

	count_extras(&p, bytes, WITHOUT_VERDICT);
	return 0;
}

static __always_inline void count(__u64 class, __u64 bytes)
{
	if (chosen == NAIVE)
		count_naive(class, bytes);
	else if (chosen == PERCPU)
		count_percpu(class, bytes);
	else
		count_ultra(class, bytes);
}

SEC("xdp.frags")
int xdpcap_count(struct xdp_md *ctx)
{
	__u64 bytes = bpf_xdp_get_buff_len(ctx);

	if (filtering && !is_match(ctx, XDP_MD, bytes))
		return XDP_PASS;
	count(classify(ctx), bytes);
	if (extras)
		count_xdp_extras(ctx, bytes, WITHOUT_VERDICT);
	return XDP_PASS;
}

SEC("fentry/xdp")
int xdpcap_entry(__u64 *args)
{
	struct xdp_buff *xdp = (void *)args[0];
	struct packet p = { .context = XDP_BUFF, .ctx = xdp };
	__u64 bytes = length_of(xdp);
	struct layers l;

	if (!is_from_traced(xdp) || (filtering && !is_match(xdp, XDP_BUFF, bytes)))
		return 0;
	find_layers(&p, &l);
	count(l.class, bytes);
	if (extras & WITH_SIZES)
		count_size(bytes);
	return 0;
}

/*
 * What fentry finds out about the traced program's packet, for fexit to count it by its verdict.
 * The program may change the packet, so fexit could find something else.
 */
struct passage {
	__u64 bytes; /* 0: no packet, or one that the filter does not take */
	__u32 class;
	struct flow flow; /* of IP, if flows are counted */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct passage);
} passages SEC(".maps");

/* The verdicts to count: a bit for each slot. */
volatile const __u32 verdicts = (1 << VERDICT_SLOTS) - 1;

static __always_inline struct passage *find_passage(const struct xdp_buff *xdp)
{
	__u32 zero = 0;

	return is_from_traced(xdp) ? bpf_map_lookup_elem(&passages, &zero) : NULL;
}

SEC("fentry/xdp")
int xdpcap_filter(__u64 *args)
{
	struct xdp_buff *xdp = (void *)args[0];
	struct packet p = { .context = XDP_BUFF, .ctx = xdp };
	struct passage *passage = find_passage(xdp);
	struct layers l;

	if (!passage)
		return 0;
	passage->bytes = 0;

	__u64 bytes = length_of(xdp);

	if (filtering && !is_match(xdp, XDP_BUFF, bytes))
		return 0;
	find_layers(&p, &l);
	passage->bytes = bytes;
	passage->class = l.class;
	if (extras & WITH_FLOWS && l.class < TRUNCATED)
		read_flow(&p, &l, &passage->flow);
	return 0;
}

/* args[0] is the traced program's only argument, args[1] is what it returned. */
SEC("fexit/xdp")
int xdpcap_exit(__u64 *args)
{
	struct passage *passage = find_passage((void *)args[0]);
	__u32 verdict = slot_of(args[1]);

	/* A packet that entered before fentry was attached is not counted. */
	if (!passage || !passage->bytes)
		return 0;

	__u64 bytes = passage->bytes;

	passage->bytes = 0;
	if (!(verdicts & 1 << verdict))
		return 0;
	count(passage->class, bytes);
	if (extras & WITH_SIZES)
		count_size(bytes);
	if (extras & WITH_FLOWS && passage->class < TRUNCATED)
		add_flow(&passage->flow, verdict, bytes);
	return 0;
}

/*
 * xdpcap_tc counts packets as the stack hands them over: before they are segmented, and including
 * a VLAN tag that the interface may have to insert.
 */
SEC("tc")
int xdpcap_tc(struct __sk_buff *skb)
{
	__u64 bytes = sent_length(skb);

	if (filtering && !is_match(skb, SKB, bytes))
		return TC_ACT_UNSPEC;
	count(classify_sent(skb), bytes);
	if (extras)
		count_sent_extras(skb, bytes);
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual BSD/GPL";
