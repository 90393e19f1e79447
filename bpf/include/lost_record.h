/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The record of a packet that the stack throws away, and which of such packets are kept. Everything
 * here needs a struct lost with its skb, frame and scratch set.
 */
#ifndef LOST_RECORD_H
#define LOST_RECORD_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "frame.h"
#include "no_loss.h"
#include "record.h"

enum lost_limit {
	MAX_REASONS = 64, /* most reasons that can be selected */
};
enum lost_limit *const lost_limit_type; /* keeps the type in BTF, for bpf2go */

/*
 * Room for one packet. Each program has its own: others may interrupt it outside of softirqs, but
 * the kernel never lets a tracing program interrupt itself. The order matters: facts and the bytes
 * after them are sent as they are here, and see struct frame.
 */
struct scratch {
	struct facts facts;
	__u8 before[HEAD_BYTES];
	struct frame frame;
};

/* capture makes this map anew for each program that it loads. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* With an index that the compiler knows, the verifier of Linux 6.12 checks a seventh more. */
volatile const __u32 scratch_index = 0;

static __always_inline struct scratch *find_scratch(void)
{
	__u32 index = scratch_index;

	return bpf_map_lookup_elem(&scratches, &index);
}

/* Packets with one of the first reason_count reasons are kept; without any, all are. */
volatile const __u32 reasons[MAX_REASONS] = {};
volatile const __u32 reason_count = 0;

/* Whether there are perf's rings beside shared ones, for packets in fragments. */
volatile const bool perf_beside = false;

static __always_inline bool is_reason_wanted(__u32 reason)
{
	if (!reason_count)
		return true;
	for (int i = 0; i < MAX_REASONS; i++) {
		if (i < (int)reason_count && reasons[i] == reason)
			return true;
	}
	return false;
}

/*
 * send_lost_by_perf sends scratch->facts and `length` bytes of the frame. The kernel appends them
 * from skb->data on, with those in fragments; those before it are copied.
 */
static __always_inline long send_lost_by_perf(struct lost *p, __u64 length)
{
	struct scratch *s = p->scratch;
	__u64 before = p->before < length ? p->before : length;
	__u64 rest = length - before;

	if (before && !copy_lost(p, s->before, before, HEAD_BYTES - 1))
		return -1;
	asm volatile("" : "+r"(before));
	before &= 2 * HEAD_BYTES - 1;
	return bpf_skb_output((void *)p->skb, &samples, BPF_F_CURRENT_CPU | rest << 32, s,
			      sizeof(s->facts) + before);
}

#endif
