/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The record that capture reads: a struct sample, a struct extra where the cookie says so, and the
 * packet's bytes.
 */
#ifndef RECORD_H
#define RECORD_H

#include <linux/types.h>

#include "transport_perf.h"
#include "transport_ring.h"

struct sample {
	__u16 cookie;	 /* SAMPLE_COOKIE, or EXTRA_COOKIE: a struct extra follows */
	__u16 source;	 /* index into accounts */
	__u32 length;	 /* bytes that follow: struct extra and packet, see enum limit */
	__u32 wire_len;	 /* bytes of the packet in all its buffers */
	__u32 verdict;	 /* what the program returned, or NO_VERDICT */
	__u64 time_ns;	 /* CLOCK_MONOTONIC */
	__u64 packet_id; /* CPU, hook and number: see enum limit */
	__u32 weight;	 /* it was drawn at random as one of so many packets */
	__u32 rx_queue;
	__u64 lost; /* account.lost of this source on this CPU so far */
};
_Static_assert(sizeof(struct sample) == 48, "capture and the program agree on the size");
_Static_assert(sizeof(struct sample) % 8 == 0, "no implicit padding at the end");

/*
 * What only some sources know about a packet. The programs of the others send none, so that their
 * records stay short: see with_extra.
 */
struct extra {
	__u64 card_time_ns;  /* when the card received it, by the card's clock; 0 = unknown */
	__u32 hash;	     /* over the packet's addresses */
	__u32 hash_type;     /* the kernel's enum xdp_rss_hash_type; 0 = there is no hash */
	__u32 gso_size;	     /* bytes of data in a segment; 0 = the packet is not to be cut */
	__u32 to_ifindex;    /* the interface it is sent out of, see enum limit; 0 = unknown */
	__be16 tag_protocol; /* of a VLAN tag that is kept beside the packet; 0 = there is none */
	__u16 tag;	     /* that tag */
	__u32 room;	     /* where capture moves the addresses to, to put the tag back */
};
_Static_assert(sizeof(struct extra) == 32, "capture and the program agree on the size");

/*
 * Where the parts of a packet id begin: the CPU in the upper 12 bits, then 12 bits for the hook,
 * and 40 bits for the running number of the hook's packets on that CPU. No two packets of a session
 * have the same id, except the two that are one packet at a program's entry and exit. The number
 * begins again after 2^40 packets; 10 million packets per second take 30 hours for that.
 */
enum limit {
	ID_HOOK_SHIFT = 40,
	ID_CPU_SHIFT = 52,
	SAMPLE_COOKIE = 0x7870, /* tells a record that is whole and ours from anything else */
	EXTRA_COOKIE = 0x6578,	/* the same of a record with a struct extra */
	TAG_BYTES = 4,		/* of a VLAN tag, in a packet and as room in struct extra */
	PERF_MAX_SAMPLE_SIZE = PERF_MAX_RECORD - sizeof(struct sample),
	RING_MAX_SAMPLE_SIZE = RING_MAX_PACKET,
	RING_RECORDS_AT = RING_RECORDS,
	HEAD_BYTES = 4096, /* a page: more than the first buffer of a packet can have */
	TIME_SHIFT = 4,	   /* the token bucket's unit is 1/16 ns, finer than any packet rate */
	NO_VERDICT = 0xffffffff, /* where no program has decided */
	MAX_VERDICTS = 16,	 /* how many verdicts can be asked for */
	MAX_HOOKS = 1 << (ID_CPU_SHIFT - ID_HOOK_SHIFT),
	TO_OTHER_NETNS = 1U << 31, /* in to_ifindex: it is in another network namespace */
};

#endif
