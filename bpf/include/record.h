/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The record that capture reads: a struct facts, and the packet's bytes.
 */
#ifndef RECORD_H
#define RECORD_H

#include <linux/types.h>

#include "transport_perf.h"
#include "transport_ring.h"

/*
 * What is known about a packet. capture has the same type, Facts, and uses it on the record's
 * memory; a test compares the two. A program fills in what it knows, and the rest is 0. capture
 * overwrites the fields that mean something else to its users.
 */
struct facts {
	__u16 cookie;	 /* COOKIE: this record is ours and complete */
	__u16 source;	 /* index into accounts */
	__u32 length;	 /* bytes of the packet that follow */
	__u32 wire_len;	 /* bytes of the packet in all its buffers */
	__u32 verdict;	 /* return value of the program, or NO_VERDICT: see gso_size */
	__u64 time;	 /* CLOCK_MONOTONIC in ns, see enum stamping; capture's CLOCK_REALTIME */
	__u64 id;	 /* CPU, hook and number: see enum limit */
	__u64 dropped;	 /* account.lost so far; in capture since the previous packet */
	__u64 card_time; /* when the card received it, by the card's clock in ns; 0 = unknown */
	__u64 clock_set_back; /* by how many ns before this packet; only capture sets it */
	__u64 location;	      /* of a lost packet: address within the function that threw it away */
	__u32 weight;	      /* it was drawn at random from this many packets */
	__u32 queue;	      /* receive queue */
	__u32 hash;	      /* over the packet's addresses */
	__u32 hash_kind;      /* the kernel's enum xdp_rss_hash_type; 0 = there is no hash */
	/* The upper half is enum verdict_kind, which is 0 for most: see KIND_SHIFT. */
	__u32 gso_size; /* bytes of data per segment; 0 = the packet will not be segmented */
	__u32 to;	/* interface that sends it or has lost it, see enum limit; 0 = unknown */
	__u32 run_time; /* of the traced program, in ns; 0 = unknown: see note_entered */
	__u32 reason;	/* of a lost packet: see sample_lost, sample_failed, given_reason */
	__u32 unused;
	/*
	 * A VLAN tag that is kept beside the packet; both are 0 if there is none. They are last,
	 * because the addresses move to here when capture puts the tag back.
	 */
	__be16 tag_protocol;
	__u16 tag;
};
_Static_assert(sizeof(struct facts) == 104, "capture and the programs agree on the size");

/*
 * Where the parts of a packet id begin: the CPU in the upper 12 bits, then 12 bits for the hook,
 * and 40 bits for the sequence number of the hook's packets on that CPU. No two packets of a
 * session have the same id, except that a packet has one id at a program's entry and exit. The
 * number wraps after 2^40 packets: 30 hours at 10 million packets per second.
 */
enum limit {
	ID_HOOK_SHIFT = 40,
	ID_CPU_SHIFT = 52,
	KIND_SHIFT = 16, /* of enum verdict_kind in facts.gso_size */
	COOKIE = 0x7870, /* marks a complete record of ours */
	PERF_MAX_SAMPLE_SIZE = PERF_MAX_RECORD - sizeof(struct facts),
	RING_MAX_SAMPLE_SIZE = RING_MAX_PACKET,
	RING_RECORDS_AT = RING_RECORDS,
	TIME_SHIFT = 4, /* the token bucket's unit is 1/16 ns, finer than any packet rate */
	NO_VERDICT = 0xffffffff, /* no program has decided */
	MAX_VERDICTS = 16,	 /* most verdicts that can be selected */
	MAX_HOOKS = 1 << (ID_CPU_SHIFT - ID_HOOK_SHIFT),
	TO_OTHER_NETNS = 1U << 31, /* in facts.to: it is in another network namespace */
};

/* What facts.verdict means. Package packet has the same. */
enum verdict_kind {
	XDP_VERDICT,  /* enum xdp_action */
	TC_VERDICT,   /* TC_ACT_OK and the like, as a signed number */
	PLAIN_NUMBER, /* what a function has returned whose type is not that of a verdict */
};

/* When to read the clock for the stamps of packets. */
enum stamping {
	EVERY_PACKET,
	EVERY_POLL, /* of NAPI, see poll_time: there must be a ring */
	EVERY_TICK, /* of the kernel's clock, which is 1 to 10 ms */
	/* EVERY_POLL for packets that the card has stamped, EVERY_PACKET for the others. */
	EVERY_UNSTAMPED,
};

#endif
