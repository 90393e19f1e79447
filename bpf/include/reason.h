/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Why a traced program drops a packet, as the program itself says: before it returns, it writes a
 * number into an array of its own that has an entry for each CPU.
 */
#ifndef REASON_H
#define REASON_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

/* The loader puts the traced program's array in its place. Only the entry of key 0 is read. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} given_reasons SEC(".maps");

/* Whether the traced program's array is in that place. */
volatile const bool reading_reasons = false;

/* is_dropped tells whether the program has dropped the packet, or failed. */
static __always_inline bool is_dropped(__u32 returned)
{
	return returned == XDP_DROP || returned == XDP_ABORTED;
}

/*
 * given_reason is the number that the program has written for the packet that it returned last on
 * this CPU; 0 = none. What is there for other verdicts was written for an earlier packet.
 */
static __always_inline __u32 given_reason(__u32 returned)
{
	__u32 zero = 0;

	if (!reading_reasons || !is_dropped(returned))
		return 0;
	__u32 *reason = bpf_map_lookup_elem(&given_reasons, &zero);

	return reason ? *reason : 0;
}

#endif
