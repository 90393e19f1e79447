// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts packets and bytes per protocol, in three variants that must agree, and on request per size
 * and flow. Owner: Protocols in the Go package internal/meter.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "include/traced.h"

/* A packet's class is one of these, or an IP protocol's number above V4 or V6, or above OTHER an
 * EtherType. */
enum class {
	V4 = 0,
	V6 = 256,
	TRUNCATED = 512, /* the packet ends before its protocol is known */
	NO_ROOM,	 /* an EtherType that found the map full */
	SLOTS,		 /* classes below have slots in arrays */
	OTHER = 1 << 16,
};
enum class *const class_type; /* keeps the type in BTF, for bpf2go */

enum limit {
	SIZES = 7,    /* up to 64, 127, 255, 511, 1023, 1518 bytes, and jumbo */
	MAX_TAGS = 2, /* VLAN tags that are looked behind */
	MAX_EXTENSIONS = 6,
};

/* What is counted besides protocols. One word: the common packet pays one load for all of them. */
enum extra {
	WITH_SIZES = 1,
	WITH_FLOWS = 2,
};
enum extra *const extra_type;
enum limit *const limit_type;

struct tally {
	__u64 packets;
	__u64 bytes; /* of whole packets, all their buffers included */
};

/* The flows that were not in the table: pushed out of it or never in. */
struct overflow {
	__u64 inserted; /* entries made, some of which were pushed out again */
	struct tally all;
};

struct flow {
	__u32 source[4], destination[4]; /* network byte order; IPv4 in the first word */
	__be16 source_port, destination_port;
	__u16 class; /* of IP */
	__u16 zero;
};
_Static_assert(sizeof(struct flow) == 40, "a map's key has no padding");
struct flow *const flow_type;

volatile const __u32 extras = 0;

/* naive: one table for all CPUs, searched for every packet, and every update locks the bus. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct tally);
} naive_tallies SEC(".maps");

/* Per CPU, as all maps below, and neither XDP nor a trace of it nests on one CPU: no atomics. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, __u32);
	__type(value, struct tally);
} percpu_tallies SEC(".maps");

struct slots {
	struct tally by_class[SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct slots);
} ultra_tallies SEC(".maps");

/* What has no slot: EtherTypes, of percpu and ultra. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct tally);
} ethertypes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SIZES);
	__type(key, __u32);
	__type(value, struct tally);
} sizes SEC(".maps");

/* Go sets its size. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_PERCPU_HASH);
	__uint(max_entries, 1);
	__type(key, struct flow);
	__type(value, struct tally);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct overflow);
} overflows SEC(".maps");

/*
 * A packet under examination. XDP programs look at it directly; those that trace one cannot, and
 * copy out what they want to see: that is `traced`, a constant wherever it is used.
 */
struct packet {
	void *data, *end;
};

/* Where the layers are, in bytes from the start. */
struct layers {
	__u64 class;
	__u64 network, transport; /* 0 = there is none */
};

/* read copies `size` bytes at `at`, provided that there are `need` from there on. */
static __always_inline bool read(const struct packet *p, bool traced, __u64 at, __u64 need,
				 void *to, __u64 size)
{
	if (traced)
		return p->data + at + need <= p->end &&
		       !bpf_probe_read_kernel(to, size, p->data + at);

	/* The verifier wants a bound for what is added to a packet's address. */
	if (at > 1024)
		return false;

	void *from = p->data + at;

	if (from + need > p->end)
		return false;
	__builtin_memcpy(to, from, size);
	return true;
}

static __always_inline bool is_tag(__be16 type)
{
	return type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD);
}

static __always_inline bool is_extension(__u8 next)
{
	switch (next) {
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_FRAGMENT:
	case IPPROTO_DSTOPTS:
	case IPPROTO_AH:
	case IPPROTO_MH:
		return true;
	}
	return false;
}

/* parse_v6 follows the extension headers to the upper layer. */
static __always_inline void parse_v6(const struct packet *p, bool traced, struct layers *l)
{
	struct ipv6hdr ip;

	if (!read(p, traced, l->network, sizeof(ip), &ip, sizeof(ip)))
		return;

	__u8 next = ip.nexthdr;
	__u64 at = l->network + sizeof(ip);
	bool first = true;

	for (int i = 0; i < MAX_EXTENSIONS && is_extension(next); i++) {
		struct {
			__u8 next, length;
			__be16 offset;
		} head;

		if (!read(p, traced, at, 8, &head, sizeof(head)))
			return;
		if (next == IPPROTO_FRAGMENT) {
			first = !(head.offset & bpf_htons(0xfff8));
			at += 8;
		} else if (next == IPPROTO_AH) {
			at += (head.length + 2) * 4;
		} else {
			at += (head.length + 1) * 8;
		}
		next = head.next;
		/* Behind a later fragment's header there is no other that could be followed. */
		if (!first)
			break;
	}
	l->class = V6 + next;
	l->transport = first ? at : 0;
}

static __always_inline void parse_v4(const struct packet *p, bool traced, struct layers *l)
{
	struct iphdr ip;

	if (!read(p, traced, l->network, sizeof(ip), &ip, sizeof(ip)))
		return;
	l->class = V4 + ip.protocol;
	if (!(ip.frag_off & bpf_htons(0x1fff)))
		l->transport = l->network + (ip.ihl & 0xf) * 4;
}

/* parse finds the class of any packet. */
static __always_inline void parse(const struct packet *p, bool traced, struct layers *l)
{
	__u64 at = 2 * ETH_ALEN;
	__be16 type;

	l->class = TRUNCATED;
	l->network = l->transport = 0;
	if (!read(p, traced, at, sizeof(type), &type, sizeof(type)))
		return;
	for (int i = 0; i < MAX_TAGS && is_tag(type); i++) {
		at += 4;
		if (!read(p, traced, at, sizeof(type), &type, sizeof(type)))
			return;
	}
	l->network = at + sizeof(type);
	if (type == bpf_htons(ETH_P_IP))
		parse_v4(p, traced, l);
	else if (type == bpf_htons(ETH_P_IPV6))
		parse_v6(p, traced, l);
	else if (bpf_ntohs(type) >= ETH_P_802_3_MIN)
		l->class = OTHER + bpf_ntohs(type);
	else
		l->class = OTHER; /* IEEE 802.3: a length, not a type */
}

static __always_inline struct packet packet_of(const struct xdp_md *ctx)
{
	struct packet p = { (void *)(long)ctx->data, (void *)(long)ctx->data_end };

	return p;
}

/*
 * classify_rare is not inlined, so that the common packet does not run past it. Functions like this
 * take the context: what is to be kept across calls has to find a register.
 */
static __noinline __u64 classify_rare(struct xdp_md *ctx)
{
	struct packet p = packet_of(ctx);
	struct layers l;

	parse(&p, false, &l);
	return l.class;
}

/* classify finds the same as parse, and at once for the commonest kinds of packets. */
static __always_inline __u64 classify(struct xdp_md *ctx)
{
	struct packet p = packet_of(ctx);

	/* One comparison for both: Ethernet's 14 bytes and IPv6's 40. Short IPv4 packets are
	 * padded. */
	if (p.data + ETH_HLEN + sizeof(struct ipv6hdr) <= p.end) {
		__be16 type = *(__be16 *)(p.data + 2 * ETH_ALEN);

		if (type == bpf_htons(ETH_P_IP))
			return V4 + *(__u8 *)(p.data + ETH_HLEN + 9);
		if (type == bpf_htons(ETH_P_IPV6)) {
			__u8 next = *(__u8 *)(p.data + ETH_HLEN + 6);

			if (next == IPPROTO_TCP || next == IPPROTO_UDP)
				return V6 + next;
		}
	}
	return classify_rare(ctx);
}

static __always_inline void add(struct tally *tally, __u64 bytes)
{
	tally->packets++;
	tally->bytes += bytes;
}

static __always_inline void count_naive(__u32 class, __u64 bytes)
{
	struct tally *tally = bpf_map_lookup_elem(&naive_tallies, &class);

	if (!tally) {
		struct tally none = {};

		/* Another CPU may be faster: then there is one, too. */
		bpf_map_update_elem(&naive_tallies, &class, &none, BPF_NOEXIST);
		tally = bpf_map_lookup_elem(&naive_tallies, &class);
	}
	if (!tally) {
		class = NO_ROOM;
		tally = bpf_map_lookup_elem(&naive_tallies, &class); /* Go has made it */
	}
	if (!tally)
		return;
	__sync_fetch_and_add(&tally->packets, 1);
	__sync_fetch_and_add(&tally->bytes, bytes);
}

/* count_ethertype counts a class that has no slot, and returns the slot to count in if it cannot.
 */
static __noinline __u64 count_ethertype(__u32 class, __u64 bytes)
{
	struct tally *tally = bpf_map_lookup_elem(&ethertypes, &class);

	if (!tally) {
		struct tally none = {};

		bpf_map_update_elem(&ethertypes, &class, &none, BPF_NOEXIST);
		tally = bpf_map_lookup_elem(&ethertypes, &class);
		if (!tally)
			return NO_ROOM;
	}
	add(tally, bytes);
	return SLOTS;
}

static __always_inline void count_percpu(__u64 class, __u64 bytes)
{
	__u32 slot = class;

	if (class >= SLOTS)
		slot = count_ethertype(class, bytes);

	struct tally *tally = bpf_map_lookup_elem(&percpu_tallies, &slot); /* none for SLOTS */

	if (tally)
		add(tally, bytes);
}

static __always_inline void count_ultra(__u64 class, __u64 bytes)
{
	__u32 zero = 0;
	struct slots *slots = bpf_map_lookup_elem(&ultra_tallies, &zero);

	if (!slots)
		return;
	if (class >= SLOTS) {
		class = count_ethertype(class, bytes);
		if (class >= SLOTS)
			return;
	}
	add(&slots->by_class[class], bytes);
}

static __always_inline void count_size(__u64 bytes)
{
	__u32 slot = 0;

	if (bytes > 1518)
		slot = 6;
	else if (bytes > 1023)
		slot = 5;
	else if (bytes > 511)
		slot = 4;
	else if (bytes > 255)
		slot = 3;
	else if (bytes > 127)
		slot = 2;
	else if (bytes > 64)
		slot = 1;

	struct tally *tally = bpf_map_lookup_elem(&sizes, &slot);

	if (tally)
		add(tally, bytes);
}

/* read_flow returns false for what is not IP. */
static __always_inline bool read_flow(const struct packet *p, bool traced, struct flow *f)
{
	struct layers l;

	parse(p, traced, &l);
	if (l.class >= TRUNCATED)
		return false;
	f->class = l.class;
	if (l.class < V6) {
		struct iphdr ip;

		if (!read(p, traced, l.network, sizeof(ip), &ip, sizeof(ip)))
			return false;
		f->source[0] = ip.saddr;
		f->destination[0] = ip.daddr;
	} else {
		struct ipv6hdr ip;

		if (!read(p, traced, l.network, sizeof(ip), &ip, sizeof(ip)))
			return false;
		__builtin_memcpy(f->source, &ip.saddr, sizeof(f->source));
		__builtin_memcpy(f->destination, &ip.daddr, sizeof(f->destination));
	}
	switch (l.class & 0xff) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
	case IPPROTO_DCCP:
	case IPPROTO_UDPLITE:
		if (l.transport) /* a packet that ends before its ports has none */
			read(p, traced, l.transport, 4, &f->source_port, 4);
	}
	return true;
}

static __always_inline void count_flow(const struct packet *p, bool traced, __u64 bytes)
{
	struct flow f = {};
	__u32 zero = 0;
	struct overflow *overflow = bpf_map_lookup_elem(&overflows, &zero);

	if (!overflow || !read_flow(p, traced, &f))
		return;

	struct tally *tally = bpf_map_lookup_elem(&flows, &f);

	if (!tally) {
		struct tally none = {};

		if (!bpf_map_update_elem(&flows, &f, &none, BPF_NOEXIST))
			overflow->inserted++;
		tally = bpf_map_lookup_elem(&flows, &f);
	}
	if (tally)
		add(tally, bytes);
	/* Last, and read first: a packet on its way never looks like one that was pushed out. */
	add(&overflow->all, bytes);
}

static __always_inline void count_extras(const struct packet *p, bool traced, __u64 bytes)
{
	if (extras & WITH_SIZES)
		count_size(bytes);
	if (extras & WITH_FLOWS)
		count_flow(p, traced, bytes);
}

static __noinline int count_xdp_extras(struct xdp_md *ctx, __u64 bytes)
{
	struct packet p = packet_of(ctx);

	count_extras(&p, false, bytes);
	return 0;
}

enum variant { NAIVE, PERCPU, ULTRA };

static __always_inline void count(enum variant variant, __u64 class, __u64 bytes)
{
	if (variant == NAIVE)
		count_naive(class, bytes);
	else if (variant == PERCPU)
		count_percpu(class, bytes);
	else
		count_ultra(class, bytes);
}

static __always_inline int count_xdp(struct xdp_md *ctx, enum variant variant)
{
	__u64 bytes = bpf_xdp_get_buff_len(ctx);

	count(variant, classify(ctx), bytes);
	if (extras)
		count_xdp_extras(ctx, bytes);
	return XDP_PASS;
}

SEC("xdp.frags")
int naive(struct xdp_md *ctx)
{
	return count_xdp(ctx, NAIVE);
}

SEC("xdp.frags")
int percpu(struct xdp_md *ctx)
{
	return count_xdp(ctx, PERCPU);
}

SEC("xdp.frags")
int ultra(struct xdp_md *ctx)
{
	return count_xdp(ctx, ULTRA);
}

/* What the bench subtracts: a program that does nothing. */
SEC("xdp.frags")
int empty(struct xdp_md *ctx __attribute__((unused)))
{
	return XDP_PASS;
}

static __always_inline int count_entry(__u64 *args, enum variant variant)
{
	struct xdp_buff *xdp = (void *)args[0];
	struct packet p = { xdp->data, xdp->data_end };
	__u64 bytes = bpf_xdp_get_buff_len((struct xdp_md *)xdp);
	struct layers l;

	if (!is_from_traced(xdp))
		return 0;
	parse(&p, true, &l);
	count(variant, l.class, bytes);
	count_extras(&p, true, bytes);
	return 0;
}

SEC("fentry/xdp")
int entry_naive(__u64 *args)
{
	return count_entry(args, NAIVE);
}

SEC("fentry/xdp")
int entry_percpu(__u64 *args)
{
	return count_entry(args, PERCPU);
}

SEC("fentry/xdp")
int entry_ultra(__u64 *args)
{
	return count_entry(args, ULTRA);
}

char _license[] SEC("license") = "Dual BSD/GPL";
