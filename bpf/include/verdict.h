/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The verdicts of XDP programs, and a pair of packets and bytes, for all programs that count.
 * Those of Go are in capture/packet/verdict.go, which TestVerdictsInC compares with them.
 */
#ifndef VERDICT_H
#define VERDICT_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* The kernel's enum xdp_action, and a slot for all other numbers that a program returns. */
enum verdict {
	VERDICT_ABORTED = XDP_ABORTED,
	VERDICT_DROP = XDP_DROP,
	VERDICT_PASS = XDP_PASS,
	VERDICT_TX = XDP_TX,
	VERDICT_REDIRECT = XDP_REDIRECT,
	VERDICT_UNKNOWN,
	VERDICT_SLOTS,
};

/* slot_of is the index of a program's return value in a table with VERDICT_SLOTS entries. */
static __always_inline __u32 slot_of(__u32 returned)
{
	return returned < VERDICT_UNKNOWN ? returned : VERDICT_UNKNOWN;
}

/* Packets, and the bytes of all their buffers. */
struct tally {
	__u64 packets;
	__u64 bytes;
};

/* add counts one packet. The tally must belong to this CPU: the addition is not atomic. */
static __always_inline void add(struct tally *tally, __u64 bytes)
{
	tally->packets++;
	tally->bytes += bytes;
}

#endif
