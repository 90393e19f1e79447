/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Entries that wait: if packets are chosen by what the traced program decides, the record of an
 * entry is made at the entry, and sent or discarded at the exit.
 *
 * The entries that wait on a CPU are a stack, because a packet that interrupts the traced program
 * has left its own program before that one goes on. The kernel skips the exit of a packet in rare
 * cases, for example if another tracer is attached to the program meanwhile. Such an entry stays
 * until a packet that entered before it leaves, or until one enters in the same memory.
 *
 * No atomics: what interrupts changes only levels above those in use, and restores the depth.
 */
#ifndef WAIT_H
#define WAIT_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "record.h"

enum wait_limit {
	MAX_WAITS = 8,	      /* entries that wait on a CPU at a time */
	MAX_IMAGE = MAX_COPY, /* bytes of a packet for which an image can have room */
};
enum wait_limit *const wait_limit_type; /* keeps the type in BTF, for bpf2go */

/* No program runs this long for a packet, or the kernel would report a stuck CPU. */
#define STUCK_NS 30000000000ULL

struct wait {
	__u64 packet;	/* the address of its xdp_buff; 0 at and above the depth */
	__u64 owner;	/* which program it has entered: arrival and hook */
	__u64 entered;	/* when the program began */
	__u64 number;	/* of the packet, for its id */
	__u64 decision; /* about the entry, by the filter */
};

struct waits {
	__u64 depth;
	struct wait stack[MAX_WAITS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct waits);
} waits SEC(".maps");

/* An image is the record of an entry. */
struct image {
	struct facts facts;
	__u8 bytes[];
};

/*
 * MAX_WAITS images for each CPU. capture sets both sizes before it makes the map. It is not a
 * per-CPU array, whose values can have only 32 KiB.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 4096);
} images SEC(".maps");

/* Bytes of a packet for which an image has room. */
volatile const __u32 image_room = 0;

static __always_inline struct image *find_image(__u32 cpu, __u32 level)
{
	__u32 index = cpu * MAX_WAITS + level;

	return bpf_map_lookup_elem(&images, &index);
}

static __always_inline struct waits *find_waits(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&waits, &zero);
}

/*
 * The next three functions are not inlined, so that the verifier checks the code after them for any
 * level and not for each.
 *
 * find_level returns the level at which a packet waits, or -1.
 */
__noinline int find_level(__u64 packet, __u64 owner)
{
	const struct waits *w = find_waits();

	if (!w)
		return -1;
	for (int i = 0; i < MAX_WAITS; i++) {
		if (i >= (int)w->depth)
			break;
		if (w->stack[i].packet == packet && w->stack[i].owner == owner)
			return i;
	}
	return -1;
}

/* leave_level ends the wait at a level and at those above, whose exits the kernel has skipped. */
__noinline int leave_level(__u32 level)
{
	volatile struct waits *w = find_waits();

	if (!w)
		return 0;
	for (__u32 i = 0; i < MAX_WAITS; i++) {
		if (i >= level && i < (__u32)w->depth)
			w->stack[i].packet = 0;
	}
	w->depth = level;
	return 0;
}

/*
 * enter_level returns the level at which a packet waits from now on, or -1 if there is none left.
 * The depth is set before the packet, so that a packet that interrupts this takes the next level.
 */
__noinline int enter_level(__u64 packet, __u64 owner)
{
	volatile struct waits *w = find_waits();

	if (!w)
		return -1;
	int level = find_level(packet, owner);

	if (level >= 0)
		leave_level(level);
	else
		level = w->depth;
	if (level >= MAX_WAITS) {
		if (bpf_ktime_get_ns() - w->stack[0].entered < STUCK_NS)
			return -1;
		level = 0;
		leave_level(level);
	}
	w->depth = level + 1;
	w->stack[level & (MAX_WAITS - 1)].owner = owner;
	w->stack[level & (MAX_WAITS - 1)].packet = packet;
	return level;
}

/*
 * wait_at returns NULL for a level of -1. The verifier wants the bounds of what is added to an
 * address in that very register, so they are hidden from the compiler, which would move them.
 */
static __always_inline struct wait *wait_at(struct waits *w, int level)
{
	if (!w || level < 0)
		return NULL;
	__u64 at = level;

	asm volatile("" : "+r"(at));
	return &w->stack[at & (MAX_WAITS - 1)];
}

#endif
