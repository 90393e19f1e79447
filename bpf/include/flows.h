/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The table of flows: packets and bytes of the flows with the most traffic, by verdict or another
 * label, in memory of a fixed size. Each CPU has its own table of buckets with WAYS entries; a hash
 * of flow and label chooses the bucket. A flow without an entry takes that of the flow with the
 * least traffic in its bucket, as in "space saving" (Metwally and others, 2005).
 *
 * The counts of a flow are exact since it got its entry. What it may have had before is bounded:
 * when a flow loses its entry, `missed` of its bucket rises to at least what that flow can have
 * had until then. So no flow without an entry in the bucket has had more than `missed`, and the
 * next one that takes an entry has had at most `missed` before. This holds whichever entry is
 * taken, for packets and for bytes.
 */
#ifndef FLOWS_H
#define FLOWS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "packet.h"
#include "verdict.h"

#define WAYS	     8		 /* entries of a bucket */
#define TAKEN	     0x80000000U /* set in the tag of an entry that has a flow */
#define HALVING_TIME 14 /* traffic is halved every 2^14 jiffies: 66 s where a second has 250 */
#define SEEDS	     11

/* The slot of packets without a verdict, after the slots of all verdicts. */
#define WITHOUT_VERDICT VERDICT_SLOTS

struct flow_entry {
	struct flow flow;
	__u32 label; /* a slot of enum verdict, WITHOUT_VERDICT, or why the packets were lost */
	__u32 unused;
	struct tally counted; /* since the flow got this entry */
	struct tally error;   /* the most that it may have had before */
};

/*
 * The tags are in the first cache line and the traffic in the second, so that searching them does
 * not touch the entries of other flows.
 */
struct flow_bucket {
	__u64 version;	      /* odd while an entry changes its flow */
	__u64 halved;	      /* last time that the traffic was halved, in 2^HALVING_TIME jiffies */
	struct tally missed;  /* the most that a flow without an entry here may have had */
	__u32 tags[WAYS];     /* hashes of the flows; 0: no flow had this entry yet */
	__u64 traffic[WAYS];  /* recent bytes, or lost packets; the entry with the least is taken */
	struct tally evicted; /* packets counted in entries that other flows took */
	__u64 evictions;
	__u64 unused;
	struct flow_entry entries[WAYS];
};
_Static_assert(sizeof(struct flow_bucket) == 800, "three cache lines and a half, and the entries");

/*
 * flow_buckets for each CPU, one CPU after the other; meter.SizeFlows sets max_entries. It is not a
 * per-CPU map, because those cannot be mapped into the memory of the reader. The reader uses
 * `version` to read entries that do not change their flow meanwhile. No atomics, as in per-CPU
 * maps: neither XDP programs, nor their tracers, nor programs at egress interrupt each other on
 * one CPU, and a tracepoint's program does not interrupt itself.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow_bucket);
} flows SEC(".maps");

volatile const __u32 flow_buckets = 1;	     /* a power of two */
volatile const __u64 flow_seeds[SEEDS] = {}; /* random, so that nobody can aim at a bucket */

/*
 * hash_flow is the upper half of a multilinear hash (Lemire and Kaser 2014, "multilinear-HM"): two
 * different flows have the same value with a probability of 2^-32 over the seeds.
 */
static __always_inline __u32 hash_flow(const struct flow *f, __u32 label)
{
	const __u64 *words = (const __u64 *)f;
	__u64 sum = flow_seeds[SEEDS - 1];

	for (int i = 0; i < 4; i++)
		sum += (flow_seeds[2 * i] + (__u32)words[i]) *
		       (flow_seeds[2 * i + 1] + (words[i] >> 32));
	/* The class of IP has 9 bits. */
	sum += (flow_seeds[8] + (__u32)words[4]) *
	       (flow_seeds[9] + (words[4] >> 32) + ((__u64)label << 16));
	return sum >> 32;
}

static __always_inline bool is_entry_of(const struct flow_entry *e, const struct flow *f,
					__u32 label)
{
	const __u64 *a = (const __u64 *)&e->flow, *b = (const __u64 *)f;

	for (int i = 0; i < (int)(sizeof(*f) / sizeof(*a)); i++)
		if (a[i] != b[i])
			return false;
	return e->label == label;
}

/*
 * halve_traffic makes traffic older than a minute count half as much, so that a flow that has
 * ended does not keep its entry for ever.
 */
static __always_inline void halve_traffic(struct flow_bucket *b)
{
	__u64 now = bpf_jiffies64() >> HALVING_TIME;
	__u64 times = now - b->halved;

	if (!times)
		return;
	b->halved = now;
	for (int i = 0; i < WAYS; i++)
		if (b->traffic[i])
			b->traffic[i] = (times < 64 ? b->traffic[i] >> times : 0) + 1;
}

static __always_inline void raise(struct tally *missed, const struct flow_entry *e)
{
	__u64 packets = e->counted.packets + e->error.packets;
	__u64 bytes = e->counted.bytes + e->error.bytes;

	if (packets > missed->packets)
		missed->packets = packets;
	if (bytes > missed->bytes)
		missed->bytes = bytes;
}

/* take_entry gives the entry with the least traffic to a flow, and counts its packets. */
static __always_inline void take_entry(struct flow_bucket *b, const struct flow *f, __u32 label,
				       __u32 tag, struct tally more, __u64 traffic)
{
	__u32 least = 0;

	halve_traffic(b);
	for (__u32 i = 1; i < WAYS; i++)
		if (b->traffic[i] < b->traffic[least & (WAYS - 1)])
			least = i;
	least &= WAYS - 1;

	struct flow_entry *e = &b->entries[least];

	/* An exchange is a full barrier on every machine. */
	__sync_lock_test_and_set(&b->version, b->version + 1);
	if (b->tags[least]) {
		raise(&b->missed, e);
		b->evictions++;
		b->evicted.packets += e->counted.packets;
		b->evicted.bytes += e->counted.bytes;
	}
	e->flow = *f;
	e->label = label;
	e->counted = more;
	e->error = b->missed;
	b->tags[least] = tag;
	b->traffic[least] += traffic;
	__sync_lock_test_and_set(&b->version, b->version + 1);
}

/* add_to_flow counts packets. Traffic is what decides which flows keep their entries. */
static __always_inline void add_to_flow(const struct flow *f, __u32 label, struct tally more,
					__u64 traffic)
{
	__u32 tag = hash_flow(f, label) | TAKEN;
	__u32 at = bpf_get_smp_processor_id() * flow_buckets + (tag & (flow_buckets - 1));
	struct flow_bucket *b = bpf_map_lookup_elem(&flows, &at);

	if (!b)
		return;
	for (int i = 0; i < WAYS; i++) {
		if (b->tags[i] != tag || !is_entry_of(&b->entries[i], f, label))
			continue;
		b->traffic[i] += traffic;
		b->entries[i].counted.packets += more.packets;
		b->entries[i].counted.bytes += more.bytes;
		return;
	}
	take_entry(b, f, label, tag, more, traffic);
}

/* add_flow counts a packet. It is not inlined, so that the verifier checks it only once. */
__noinline int add_flow(const struct flow *f, __u32 verdict, __u64 bytes)
{
	if (f)
		add_to_flow(f, verdict, (struct tally){ .packets = 1, .bytes = bytes }, bytes);
	return 0;
}

/*
 * count_flow counts IP packets by flow; the two directions of a conversation are two flows. Only
 * the first fragment of a packet has ports.
 */
static __always_inline void count_flow(const struct packet *p, __u64 bytes, __u32 verdict)
{
	struct layers l;
	struct flow f;

	find_layers(p, &l);
	if (l.class >= TRUNCATED)
		return;
	read_flow(p, &l, &f);
	add_flow(&f, verdict, bytes);
}

#endif
