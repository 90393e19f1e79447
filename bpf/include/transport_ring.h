/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sends records to user space through shared memory: a ring for each CPU, with the program as its
 * only writer and one reader. Everything that depends on that memory is in this file.
 */
#ifndef TRANSPORT_RING_H
#define TRANSPORT_RING_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

/* The kernel copies at most this many bytes of a packet at once. A record has room for two copies.
 * */
#define MAX_COPY	0xffff
#define RING_MAX_PACKET (2 * MAX_COPY)

/*
 * The beginning of one CPU's memory. The records begin at RING_RECORDS. After them there is room
 * for one more record, so that no record continues at the beginning. Positions are bytes since the
 * ring was made. Each side writes its own cache line.
 */
struct ring {
	__u64 head;	 /* records are complete up to here */
	__u64 filling;	 /* not 0 while a record of this CPU is being written, here or elsewhere */
	__u64 woken_at;	 /* the last wake_at for which the reader was woken */
	__u64 poll;	 /* the stamp of the current poll, see poll_time; 0 = none */
	__u64 poll_tick; /* the tick of the kernel's clock in which it was taken */
	__u64 unused[3];
	__u64 tail;    /* the reader has finished up to here */
	__u64 wake_at; /* wake the reader when head gets here; 0 = never yet */
	__u64 unused_too[6];
};
#define RING_RECORDS 128
_Static_assert(sizeof(struct ring) == RING_RECORDS, "two cache lines");

/* capture sets both sizes before it makes the map: a value per CPU, as long as its ring. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 4096);
} rings SEC(".maps");

/*
 * Its records mean nothing: it only wakes the reader. Each CPU uses it at most once while the
 * reader sleeps, so there is always room, or the reader is already being woken.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} doorbell SEC(".maps");

/* Bytes of records that a ring holds, a power of two; 0 = records do not go by these rings. */
volatile const __u64 ring_size = 0;
/*
 * Whether programs of this session may interrupt each other at a record, and perf's rings are there
 * for what interrupts.
 */
volatile const bool interruptible = false;
/* Whether other CPUs see a CPU's stores in order, as on x86: see publish. */
volatile const bool stores_in_order = false;

static __always_inline __u64 padded(__u64 size)
{
	return (size + 7) & ~7ULL;
}

/* find_ring returns NULL for a CPU that did not exist when the rings were made. */
static __always_inline struct ring *find_ring(__u32 cpu)
{
	return bpf_map_lookup_elem(&rings, &cpu);
}

/*
 * reserve returns where to write a record of `size` bytes, or NULL if there is no room. It returns
 * NULL, too, while is_filling.
 */
static __always_inline void *reserve(struct ring *r, __u64 size)
{
	volatile struct ring *shared = r;

	if (shared->filling)
		return NULL;
	shared->filling = 1;
	__u64 head = shared->head;

	if (head + padded(size) - shared->tail > ring_size) {
		shared->filling = 0;
		return NULL;
	}
	return (void *)r + RING_RECORDS + (head & (ring_size - 1));
}

/*
 * is_filling tells whether a record of this CPU is being written. A program finds that if it has
 * interrupted the one that writes it: an interrupt receives packets while the stack throws one away
 * for a process, or while BPF_PROG_RUN runs a program.
 */
static __always_inline bool is_filling(__u32 cpu)
{
	volatile struct ring *shared = find_ring(cpu);

	return shared && shared->filling;
}

/* cancel gives back what reserve returned. */
static __always_inline void cancel(struct ring *r)
{
	((volatile struct ring *)r)->filling = 0;
}

/*
 * poll_time returns the time of the first record in the current NAPI poll on this CPU; end_poll
 * ends the poll. Reading the clock takes longer than everything else for a short record. Outside
 * of polls, for example when a process sends, nothing ends it, so the clock is read again in the
 * next tick, and whenever `now` is set. While the reader sees r->poll it waits for records with
 * this stamp. Call poll_time after reserve or show_other, which make the reader wait until r->poll
 * is set.
 */
static __always_inline __u64 poll_time(struct ring *r, bool now)
{
	volatile struct ring *shared = r;
	__u64 tick = bpf_jiffies64(), time = shared->poll;

	if (!now && time && shared->poll_tick == tick)
		return time;
	time = bpf_ktime_get_ns();
	shared->poll_tick = tick;
	shared->poll = time;
	return time;
}

/*
 * show_other makes the reader wait for a record of this CPU that goes by another ring, from before
 * its stamp is taken until hide_other. It returns NULL if there is nothing to hide, as for a
 * record inside another one. The exchange is a full barrier: the record is in its ring before it.
 */
static __always_inline struct ring *show_other(__u32 cpu)
{
	struct ring *r = find_ring(cpu);
	volatile struct ring *shared = r;

	if (!r || shared->filling)
		return NULL;
	shared->filling = 1;
	return r;
}

static __always_inline void hide_other(struct ring *r)
{
	__sync_lock_test_and_set(&r->filling, 0);
}

/*
 * show_head makes the records up to here visible to the reader; they must be complete before head
 * moves. On machines that keep the order of stores, a plain store is enough. Others need an
 * exchange, which is a full barrier, because clang cannot emit a store-release. It takes 7 ns on
 * x86.
 */
static __always_inline void show_head(struct ring *r, __u64 head)
{
	if (!stores_in_order) {
		__sync_lock_test_and_set(&r->head, head);
		return;
	}
	asm volatile("" : : : "memory");
	((volatile struct ring *)r)->head = head;
}

/*
 * publish shows a record to the reader, and wakes it if head has reached wake_at. After a plain
 * store, the program may read wake_at before others see its head. The reader sets wake_at and then
 * reads head: it can miss this record while the program misses the new wake_at. So the next record
 * wakes the reader, wherever head is by then, and only once, because of woken_at. If no record
 * follows, the reader looks once more by itself: see arm in transport_ring.go.
 */
static __always_inline void publish(struct ring *r, __u64 size)
{
	volatile struct ring *shared = r;
	__u64 head = shared->head + padded(size), word = 0;

	show_head(r, head);
	shared->filling = 0;
	__u64 at = shared->wake_at;

	if (head < at || at == shared->woken_at)
		return;
	shared->woken_at = at;
	bpf_ringbuf_output(&doorbell, &word, sizeof(word), BPF_RB_FORCE_WAKEUP);
}

/*
 * copy_ends copies between `block` and twice as many bytes: the first and the last `block` of
 * them, which may overlap. It reads the packet directly, and returns false if that is not
 * possible.
 */
static __always_inline bool copy_ends(const void *from, const void *end, void *to, __u64 length,
				      const int block)
{
	__u64 rest = length - block;

	/* Hides where rest comes from, because the verifier does not know the bounds of length. */
	asm volatile("" : "+r"(rest));
	if (rest > (__u64)block || from + block > end || from + rest + block > end)
		return false;
	__u64 *first = to, *last = to + rest;
	const __u64 *first_from = from, *last_from = from + rest;

	for (int i = 0; i < block / 8; i++)
		first[i] = first_from[i];
	for (int i = 0; i < block / 8; i++)
		last[i] = last_from[i];
	return true;
}

/*
 * copy_short copies 32 to 512 of the bytes between `from` and `end` by direct access, which XDP
 * programs and programs at egress have: a call of a helper takes as long as copying some 500
 * bytes.
 */
static __always_inline bool copy_short(const void *from, const void *end, void *to, __u64 length)
{
	if (length >= 32 && length <= 64)
		return copy_ends(from, end, to, length, 32);
	if (length > 64 && length <= 128)
		return copy_ends(from, end, to, length, 64);
	if (length > 128 && length <= 256)
		return copy_ends(from, end, to, length, 128);
	if (length > 256 && length <= 512)
		return copy_ends(from, end, to, length, 256);
	return false;
}

/*
 * copy_part copies 1 to MAX_COPY bytes with a helper; is_skb chooses which. Linux 6.1's verifier
 * knows these bounds only if the length is masked in the very register that goes into the call.
 */
static __always_inline bool copy_part(void *ctx, bool is_skb, __u32 offset, void *to, __u64 length)
{
	asm volatile("" : "+r"(length));
	length = ((length - 1) & MAX_COPY) + 1;
	if (is_skb)
		return !bpf_skb_load_bytes(ctx, offset, to, length);
	return !bpf_xdp_load_bytes(ctx, offset, to, length);
}

static __always_inline bool copy_long(void *ctx, bool is_skb, void *to, __u64 length)
{
	if (length <= MAX_COPY)
		return copy_part(ctx, is_skb, 0, to, length);
	return copy_part(ctx, is_skb, 0, to, MAX_COPY) &&
	       copy_part(ctx, is_skb, MAX_COPY, to + MAX_COPY, length - MAX_COPY);
}

/* copy_packet copies the first 1 to RING_MAX_PACKET bytes of a packet. */
static __always_inline bool copy_packet(struct xdp_md *ctx, void *to, __u64 length)
{
	const void *from = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;

	return copy_short(from, end, to, length) || copy_long(ctx, false, to, length);
}

/* copy_sent is copy_packet for a program at egress. */
static __always_inline bool copy_sent(struct __sk_buff *skb, void *to, __u64 length)
{
	const void *from = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

	return copy_short(from, end, to, length) || copy_long(skb, true, to, length);
}

#endif
