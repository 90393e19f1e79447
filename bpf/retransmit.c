// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Says of the segments that TCP sends again whether this machine had lost them, and why. Owner:
 * retransmits in the Go package internal/drops, which loads one program for each of the two
 * tracepoints: skb:kfree_skb tells the losses, which are kept for a while, and
 * tcp:tcp_retransmit_skb what is sent again.
 */
#include "include/build.h"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "include/lost.h"
#include "include/no_loss.h"

/* Bytes of TCP's sequence that were lost at once. */
struct hole {
	__u64 flow; /* see hash_of; 0 = all of them have been sent again */
	__u64 time; /* CLOCK_MONOTONIC, ns */
	__u32 from, to;
	struct cause why;
};

#define HOLES	128 /* of a bucket */
#define BUCKETS 512 /* a flow's hash chooses one */

/*
 * The latest losses of the flows that have this hash. The newest takes the place of the oldest.
 *
 * No locks, which the kernel refuses to programs of tracepoints. The loss of a segment and its
 * retransmission are a round trip apart, so that nobody reads a hole while it is written, except to
 * see that it is another flow's: while a hole changes, it has no flow.
 */
struct bucket {
	__u64 next;	 /* place of the next loss, not limited to HOLES */
	__u64 forgotten; /* time of the last loss that another one's place was taken from */
	struct hole holes[HOLES];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BUCKETS);
	__type(key, __u32);
	__type(value, struct bucket);
} buckets SEC(".maps");

/* Segments that were sent again, and that were lost here before, by the reason. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct cause);
	__type(value, __u64);
} causes SEC(".maps");

/* Segments that were sent again. The rest was lost here. */
struct totals {
	__u64 segments;	 /* all, as the kernel counts them: TcpRetransSegs */
	__u64 elsewhere; /* not lost here */
	__u64 unknown;	 /* lost before counting began, or the loss was forgotten */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct totals);
} sent_again SEC(".maps");

volatile const __u64 began_ns = 0;		/* when counting began, CLOCK_MONOTONIC */
volatile const __u64 longest_ns = 120000000000; /* TCP_RTO_MAX: no older loss is believed */

/* The fields of the kernel's types that are read, in addition to those in lost.h. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sk_buff___cb {
	char cb[48];
};
struct tcp_skb_cb {
	__u32 seq, end_seq;
	__u16 tcp_gso_segs, tcp_gso_size;
};
struct in6_addr___words {
	struct {
		__be32 u6_addr32[4];
	} in6_u;
};
struct sock_common___flow {
	__be32 skc_daddr, skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num; /* the source port, in the host's order */
	struct in6_addr___words skc_v6_daddr, skc_v6_rcv_saddr;
};
struct sock___route {
	struct dst_entry *sk_dst_cache;
};
struct inet_connection_sock {
	__u8 icsk_backoff;
};
struct tcp_sock {
	__u64 tcp_clock_cache;
	__u32 snd_nxt;
	__u32 srtt_us; /* eight times that */
	__u32 rttvar_us;
};
#pragma clang attribute pop

/* The two ends of a connection as they are in a packet. The bytes of IPv4 come first. */
struct ends {
	__u32 source[4], destination[4];
	__be16 source_port, destination_port;
	__u32 unused;
};

/*
 * hash_of stands for a flow: that two flows share all 64 bits, and sequence numbers, does not
 * happen. The namespace is not in it, because a packet may be lost in another one than its
 * socket's.
 */
static __always_inline __u64 hash_of(const struct ends *e)
{
	const __u64 *words = (const __u64 *)e;
	__u64 hash = 0;

	for (int i = 0; i < (int)(sizeof(*e) / sizeof(*words)); i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 32;
	}
	return hash ?: 1;
}

static __always_inline struct bucket *bucket_of(__u64 flow)
{
	__u32 at = flow % BUCKETS;

	return bpf_map_lookup_elem(&buckets, &at);
}

/*
 * find_hole reads the flow and the sequence numbers of a packet. It is false if the packet is not
 * TCP's, or nothing that would be sent again, such as an acknowledgement. The stack notes where the
 * IP header is when it receives or makes a packet. Until then, network_header is 0 and the data
 * begin with the header.
 */
static __always_inline bool find_hole(const struct sk_buff *skb, struct hole *g)
{
	__u64 data = (__u64)BPF_CORE_READ(skb, data), network = data, transport;
	__u64 end = data + skb->len; /* as if the packet were in one piece */
	struct ends ends = {};
	struct tcphdr tcp;

	if (skb->network_header)
		network = (__u64)BPF_CORE_READ(skb, head) + skb->network_header;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr ip;

		if (bpf_probe_read_kernel(&ip, sizeof(ip), (void *)network) || ip.version != 4 ||
		    ip.protocol != IPPROTO_TCP || ip.frag_off & bpf_htons(0x1fff))
			return false;
		ends.source[0] = ip.saddr;
		ends.destination[0] = ip.daddr;
		transport = network + ip.ihl * 4;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr ip;

		if (bpf_probe_read_kernel(&ip, sizeof(ip), (void *)network) || ip.version != 6 ||
		    ip.nexthdr != IPPROTO_TCP)
			return false;
		__builtin_memcpy(ends.source, &ip.saddr, sizeof(ends.source));
		__builtin_memcpy(ends.destination, &ip.daddr, sizeof(ends.destination));
		transport = network + sizeof(ip);
	} else {
		return false;
	}
	if (bpf_probe_read_kernel(&tcp, sizeof(tcp), (void *)transport) ||
	    transport + tcp.doff * 4 > end)
		return false;
	ends.source_port = tcp.source;
	ends.destination_port = tcp.dest;
	g->flow = hash_of(&ends);
	g->from = bpf_ntohl(tcp.seq);
	g->to = g->from + (end - transport - tcp.doff * 4) + tcp.syn + tcp.fin;
	return g->from != g->to;
}

/*
 * sender_of returns the socket that is sending the packet now, or NULL. While TCP sends, the packet
 * has a socket, and came in on no interface.
 */
static __always_inline const struct tcp_sock *sender_of(const struct sk_buff *skb)
{
	const struct sock *sk = sk_of(skb);

	return skb->skb_iif || !IS_KERNEL(sk) || !is_ip(sk) ? NULL : (const void *)sk;
}

/* Losses that follow each other are one hole if they are no more apart. */
#define BURST_NS 1000000

/* How many places of holes that are no longer needed are taken back at a time. */
#define TAKEN_BACK 8

/*
 * keep adds a hole, or to the last one. What one call of TCP has sent after `since` is one hole,
 * and no more: how often a segment is lost counts.
 */
static __always_inline void keep(struct bucket *b, const struct hole *g, __u64 since)
{
	struct hole *to = NULL;

	for (int i = 0; i < TAKEN_BACK; i++) {
		to = &b->holes[(b->next - 1) % HOLES];
		if (to->flow)
			break;
		b->next--;
	}
	if (to->flow == g->flow && to->time >= since && to->why.location == g->why.location &&
	    to->why.reason == g->why.reason && to->why.at.ifindex == g->why.at.ifindex) {
		if (to->to == g->from) {
			to->to = g->to;
			return;
		}
		if (to->from == g->to) { /* a queue frees what it refuses, the last one first */
			to->from = g->from;
			return;
		}
	}
	to = &b->holes[__sync_fetch_and_add(&b->next, 1) % HOLES];
	if (to->flow && to->time > b->forgotten)
		b->forgotten = to->time;
	/* An exchange is a full barrier on every machine. */
	__sync_lock_test_and_set(&to->flow, 0);
	to->time = g->time;
	to->from = g->from;
	to->to = g->to;
	to->why = g->why;
	__sync_lock_test_and_set(&to->flow, g->flow);
}

/* Like is_above, it is not inlined. */
__noinline int forget_refused(struct hole *g, __u64 flow, __u32 next, __u64 since)
{
	if (g && g->flow == flow && (__s32)(g->from - next) >= 0 && g->time < since)
		g->flow = 0;
	return 0;
}

/*
 * thrown_away keeps what is lost of TCP's data: losses of the interface, if there is one. If a
 * queue refuses what TCP sends for the first time, TCP tries again, which is no retransmission: so
 * what was refused before is forgotten.
 */
static __always_inline int thrown_away(const struct sk_buff *skb, __u64 location, __u32 reason,
				       const struct net *net)
{
	struct hole g = { .why = { .location = location, .reason = reason } };
	const struct net_device *dev;
	const struct tcp_sock *tp;
	struct bucket *b;
	__u64 since;

	if (!find_hole(skb, &g))
		return 0;
	dev = find_place(skb, net, &g.why.at);
	if (!is_ours(skb, &g.why.at, dev))
		return 0;
	g.why.kind = kind_of(skb, dev);
	b = bucket_of(g.flow);
	if (!b || is_no_loss(location, reason, g.why.kind))
		return 0;
	g.time = bpf_ktime_get_ns();
	since = g.time - BURST_NS;
	tp = sender_of(skb);
	if (tp) {
		__u32 next = BPF_CORE_READ(tp, snd_nxt);

		since = BPF_CORE_READ(tp, tcp_clock_cache);
		for (__u32 i = 0; i < HOLES && (__s32)(g.from - next) >= 0; i++)
			forget_refused(&b->holes[i], g.flow, next, since);
	}
	keep(b, &g, since);
	return 0;
}

/* Before Linux 5.17. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(xdpcap_hole_old, const struct sk_buff *skb, void *location)
{
	return thrown_away(skb, (__u64)location, 0, NULL);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(xdpcap_hole, const struct sk_buff *skb, void *location, __u32 reason)
{
	return thrown_away(skb, (__u64)location, reason, NULL);
}

/* Since Linux 6.11: see drops.c. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(xdpcap_hole_rx, const struct sk_buff *skb, void *location, __u32 reason,
	     const struct sock *rx_sk)
{
	return thrown_away(skb, (__u64)location, reason,
			   rx_sk ? BPF_CORE_READ(rx_sk, __sk_common.skc_net.net) : NULL);
}

/* What TCP sends again at once: one buffer. */
struct again {
	__u64 flow;
	__u64 time;    /* before it was sent now, and after the last time that it was sent */
	__u64 covered; /* a bit for each segment, or for several, whose loss is known */
	__u32 from, to;
	__u32 bit; /* bytes that a bit stands for, at least 1 */
	__u32 segments_of_bit;
	__u32 left;    /* segments whose loss is not known */
	__u32 unknown; /* segments whose loss is too old to be believed */
};

static __always_inline __u64 bits_from_to(__u32 first, __u32 last)
{
	return ((2ULL << (last & 63)) - 1) & ~((1ULL << (first & 63)) - 1);
}

static __always_inline __u32 count_bits(__u64 bits)
{
	__u32 n = 0;

	bits -= (bits >> 1) & 0x5555555555555555;
	bits = (bits & 0x3333333333333333) + ((bits >> 2) & 0x3333333333333333);
	n = (((bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0f) * 0x0101010101010101) >> 56;
	return n;
}

/*
 * add_cause counts segments. Causes name interfaces, of which containers make ever new ones: those
 * that find no room are counted without their interface.
 */
static __always_inline bool add_cause(const struct cause *c, __u64 segments)
{
	struct cause key = *c;
	static const __u64 none;

	for (int i = 0; i < 2; i++) {
		__u64 *sum = bpf_map_lookup_elem(&causes, &key);

		if (!sum) {
			bpf_map_update_elem(&causes, &key, &none, BPF_NOEXIST);
			sum = bpf_map_lookup_elem(&causes, &key);
		}
		if (sum) {
			*sum += segments;
			return true;
		}
		__builtin_memset(&key.at, 0, sizeof(key.at));
	}
	return false;
}

/*
 * match counts the segments that are in a hole, and takes them out of it, because the next time
 * they are sent again they will have been lost another time. Like is_above, it is not inlined.
 */
__noinline int match(struct hole *g, struct again *a, struct bucket *b)
{
	if (!g || !a || !b || g->flow != a->flow || (__s64)(g->time - a->time) > 0)
		return 0;
	__s32 first = g->from - a->from, end = g->to - a->from, length = a->to - a->from;
	__u64 bits;
	__u32 n;

	if (first >= length || end <= 0)
		return 0;
	bits = bits_from_to((first > 0 ? first : 0) / a->bit,
			    ((end < length ? end : length) - 1) / a->bit) &
	       ~a->covered;
	a->covered |= bits;
	n = count_bits(bits) * a->segments_of_bit;
	if (n > a->left)
		n = a->left;
	if (n) {
		a->left -= n;
		if (bpf_ktime_get_ns() - g->time > longest_ns || !add_cause(&g->why, n))
			a->unknown += n;
	}
	if (first >= 0 && end <= length) {
		g->flow = 0;
	} else if (first >= 0) {
		g->from = a->to;
	} else if (end <= length) {
		g->to = a->from;
	} else { /* two holes are left; the first of them is forgotten */
		g->from = a->to;
		if (g->time > b->forgotten)
			b->forgotten = g->time;
	}
	return 0;
}

/*
 * sent_ns is the earliest time at which what is sent again can have been sent before: TCP waits for
 * an answer, and the timer may be late.
 */
static __always_inline __u64 sent_ns(const struct sock *sk)
{
	const struct tcp_sock *tp = (const void *)sk;
	__u64 wait_us = (BPF_CORE_READ(tp, srtt_us) >> 3) + BPF_CORE_READ(tp, rttvar_us);
	__u8 backoff = BPF_CORE_READ((const struct inet_connection_sock *)sk, icsk_backoff);

	if (!BPF_CORE_READ(tp, srtt_us))
		wait_us = 1000000; /* TCP_TIMEOUT_INIT */
	return bpf_ktime_get_ns() - 1500 * (wait_us << (backoff & 31));
}

/*
 * goes_out_here tells whether a connection's route leads through the interface. Without one, the
 * connection has to be of the network namespace, or may be of any.
 */
static __always_inline bool goes_out_here(const struct sock *sk)
{
	const struct net_device *dev;

	if (!traced_ifindex)
		return !traced_netns ||
		       BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum) == traced_netns;
	dev = BPF_CORE_READ((const struct sock___route *)sk, sk_dst_cache, dev);
	return dev && (is_interface(dev) || is_above((__u64)dev));
}

static __always_inline __u64 flow_of(const struct sock *sk)
{
	const struct sock_common___flow *c = (const void *)&sk->__sk_common;
	struct ends e = {
		.source_port = bpf_htons(BPF_CORE_READ(c, skc_num)),
		.destination_port = BPF_CORE_READ(c, skc_dport),
	};

	if (bpf_core_field_exists(c->skc_v6_daddr)) {
		BPF_CORE_READ_INTO(&e.source, c, skc_v6_rcv_saddr.in6_u.u6_addr32);
		BPF_CORE_READ_INTO(&e.destination, c, skc_v6_daddr.in6_u.u6_addr32);
	}
	/* A socket of IPv6 may have a connection of IPv4. */
	if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET ||
	    (!e.destination[0] && !e.destination[1] && e.destination[2] == bpf_htonl(0xffff))) {
		__builtin_memset(e.source, 0, sizeof(e.source));
		__builtin_memset(e.destination, 0, sizeof(e.destination));
		e.source[0] = BPF_CORE_READ(c, skc_rcv_saddr);
		e.destination[0] = BPF_CORE_READ(c, skc_daddr);
	}
	return hash_of(&e);
}

/* Since Linux 6.17, there is an argument more. */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(xdpcap_again, const struct sock *sk, const struct sk_buff *skb)
{
	const struct tcp_skb_cb *cb = (const void *)((const struct sk_buff___cb *)skb)->cb;
	__u32 zero = 0, segments = BPF_CORE_READ(cb, tcp_gso_segs);
	struct totals *sum = bpf_map_lookup_elem(&sent_again, &zero);
	struct again a = {
		.flow = flow_of(sk),
		.time = BPF_CORE_READ((const struct tcp_sock *)sk, tcp_clock_cache),
		.from = BPF_CORE_READ(cb, seq),
		.to = BPF_CORE_READ(cb, end_seq),
		.left = segments,
	};
	struct bucket *b = bucket_of(a.flow);
	__u64 sent;

	if (!sum || !b || !goes_out_here(sk))
		return 0;
	a.segments_of_bit = (segments + 63) / 64;
	a.bit = BPF_CORE_READ(cb, tcp_gso_size) * a.segments_of_bit;
	if (segments <= 1 || !a.bit)
		a.bit = a.to - a.from ?: 1;
	for (__u32 i = 1; i <= HOLES; i++) /* the newest first */
		match(&b->holes[(b->next - i) % HOLES], &a, b);
	sum->segments += segments;
	sent = sent_ns(sk);
	if (sent < began_ns || sent < b->forgotten)
		a.unknown += a.left;
	else
		sum->elsewhere += a.left;
	sum->unknown += a.unknown;
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
