// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * send_frame sends frames for tests and benchmarks. count_packets receives and counts them, so
 * that a rate with a capture can be compared with the rate without one. copy_packet copies them,
 * which is the least that any capture does. Owner: the Go package internal/testnet.
 */
#include "include/build.h"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/*
 * The longest wait in one run of send_frame: softirqs are off meanwhile, and nothing else can use
 * the CPU. User space runs the program more often instead.
 */
#define MAX_WAIT_NS 1000000

/* The most clock reads of one run: far more than are possible in MAX_WAIT_NS. */
#define MAX_POLLS (1 << 20)

/* Unpaced traffic reads the clock once in this many frames. */
#define CLOCK_FRAMES 64

/* An untagged IPv4 header without options, UDP, and the frame's number. */
struct frame {
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
	__be64 seq;
} __attribute__((packed, aligned(2)));

_Static_assert(__builtin_offsetof(struct frame, seq) == 42, "SequenceOffset in Go");

struct orders {
	__u64 limit;	   /* frames to send in this run */
	__u64 interval_ps; /* from frame to frame; 0: no pacing */
	__u32 ifindex;	   /* the interface to send on */
	__u32 flows;	   /* number of source ports to use in turn, at least 1 */
	__u32 port;	   /* first source port */
	__u32 raw;	   /* not 0: send the frame unchanged */
};

struct progress {
	__u64 seq; /* number of the next frame */
	__u64 sent;
	__u64 start_ns; /* 0: the run has not begun */
	__u64 last_ns;
};

/* Only one thread on one CPU runs the program at a time: no atomics. */
struct orders run;
struct progress done;
/* Not in `run`, because user space writes it while the program runs. */
volatile __u32 stop;

struct wait {
	__u64 until_ns, now_ns;
};

static long poll_clock(__u32 i __attribute__((unused)), struct wait *w)
{
	w->now_ns = bpf_ktime_get_ns();
	return w->now_ns >= w->until_ns;
}

/*
 * Waits until the next frame is due, and returns false if that is later than MAX_WAIT_NS. It uses
 * bpf_loop, because the verifier would walk through every round of a plain loop.
 */
static bool wait_slot(void)
{
	struct wait w = { .now_ns = bpf_ktime_get_ns() };
	__u64 slot;

	if (!done.start_ns)
		done.start_ns = w.now_ns;
	/* Counted from the start and not from the frame before, so that delays do not add up. */
	slot = done.start_ns + done.sent * run.interval_ps / 1000;
	if (w.now_ns < slot) {
		w.until_ns = w.now_ns + MAX_WAIT_NS;
		if (w.until_ns > slot)
			w.until_ns = slot;
		bpf_loop(MAX_POLLS, poll_clock, &w, 0);
	}
	done.last_ns = w.now_ns;
	return w.now_ns >= slot;
}

static void note_time(void)
{
	if (done.sent % CLOCK_FRAMES && done.sent + 1 < run.limit)
		return;
	done.last_ns = bpf_ktime_get_ns();
	if (!done.start_ns)
		done.start_ns = done.last_ns;
}

SEC("xdp")
int send_frame(struct xdp_md *ctx)
{
	struct frame *f = (void *)(long)ctx->data;
	__u64 seq = done.seq;

	if (stop || done.sent >= run.limit)
		return XDP_DROP;
	if (!run.interval_ps)
		note_time();
	else if (!wait_slot())
		return XDP_DROP;

	if (!run.raw) {
		if ((void *)(f + 1) > (void *)(long)ctx->data_end)
			return XDP_DROP;
		/*
		 * The kernel reuses buffers in the state in which they came back, so every field
		 * that changes is written each time.
		 */
		f->udp.source = bpf_htons(run.port + seq % run.flows);
		f->udp.check = 0; /* legal in IPv4: no checksum */
		f->seq = bpf_cpu_to_be64(seq);
	}
	done.seq = seq + 1;
	done.sent++;
	return bpf_redirect(run.ifindex, 0);
}

struct counts {
	__u64 packets;
	__u64 bytes;
	__u64 gaps;	/* numbers that did not follow the one before */
	__u64 next_seq; /* the number expected next */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counts);
} counters SEC(".maps");

volatile const __u32 verdict = XDP_PASS;
volatile const bool check_seq;

SEC("xdp.frags")
int count_packets(struct xdp_md *ctx)
{
	struct frame *f = (void *)(long)ctx->data;
	struct counts *c;
	__u32 key = 0;
	__u64 seq;

	c = bpf_map_lookup_elem(&counters, &key);
	if (!c)
		return verdict;
	/* NAPI does not interrupt itself: the CPU's slot needs no atomics. */
	if (check_seq && (void *)(f + 1) <= (void *)(long)ctx->data_end) {
		seq = bpf_be64_to_cpu(f->seq);
		if (c->packets && seq != c->next_seq)
			c->gaps++;
		c->next_seq = seq + 1;
	}
	c->packets++;
	c->bytes += bpf_xdp_get_buff_len(ctx);
	return verdict;
}

/*
 * copy_packet writes packets here, one after the other, and then starts over. A packet that begins
 * near the end of the ring ends in the slack after it.
 */
#define COPY_RING  (8 << 20)
#define COPY_SLACK (1 << 16)
#define COPY_LINE  64

struct copies {
	__u64 packets;
	__u64 head;   /* bytes copied so far, each packet's rounded up to lines */
	__u64 pad[6]; /* packets begin at the start of a cache line */
	__u8 bytes[COPY_RING + COPY_SLACK];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct copies);
} copies SEC(".maps");

/*
 * The whole words of a short packet are copied by direct access, because the helper takes longer
 * for them. Packets of more than 65,535 bytes, which the helper refuses, are not copied. It must
 * run on one CPU only.
 */
SEC("xdp.frags")
int copy_packet(struct xdp_md *ctx)
{
	__u64 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u64 length = bpf_xdp_get_buff_len(ctx);
	struct copies *c;
	__u32 key = 0;
	__u8 *to;

	c = bpf_map_lookup_elem(&copies, &key);
	if (!c)
		return verdict;
	to = c->bytes + (c->head & (COPY_RING - COPY_LINE));
	if (length <= COPY_LINE) {
		for (int i = 0; i < COPY_LINE / 8 && data + i + 1 <= end; i++)
			((__u64 *)to)[i] = data[i];
	} else if (length < COPY_SLACK) {
		bpf_xdp_load_bytes(ctx, 0, to, length);
	}
	c->packets++;
	c->head += (length + COPY_LINE - 1) & ~(COPY_LINE - 1ULL);
	return verdict;
}

char _license[] SEC("license") = "Dual BSD/GPL";
