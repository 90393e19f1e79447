/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Finds a packet's headers: find_layers determines the kind of packet and where its headers are,
 * read_flow reads the addresses and ports. Every program that parses packets uses both.
 */
#ifndef PACKET_H
#define PACKET_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "lost.h"
#include "traced.h"

#define MAX_TAGS       2    /* VLAN tags that are skipped */
#define MAX_EXTENSIONS 6    /* extension headers of IPv6 that are skipped */
#define MAX_OFFSET     1024 /* headers that begin at a later byte are not read */

/*
 * A packet's class: the number of the IP protocol plus V4 or V6 (for IPv6 the protocol after the
 * extension headers), or the EtherType plus OTHER.
 */
enum class {
	V4 = 0,
	V6 = 256,
	TRUNCATED = 512, /* the packet ends before its protocol is known */
	NO_ROOM,	 /* an EtherType that found the table of EtherTypes full */
	SLOTS,		 /* classes below this one have slots in arrays */
	OTHER = 1 << 16, /* alone: IEEE 802.3, with a length instead of a type */
};

enum class *const class_type; /* keeps the type in BTF, for bpf2go */

/*
 * Where the headers are, in bytes from the packet's beginning. `end` is where the headers end that
 * were found; the last of them may be truncated. If there is a transport header, it begins there.
 * Later fragments have none.
 */
struct layers {
	__u32 class;
	__u32 network;
	__u32 end;
	bool has_transport;
	bool is_fragment;
};

/* A packet's two ends. The struct is a map's key, so it must have no padding. */
struct flow {
	__u64 source[2], destination[2]; /* addresses as in the packet; unused bytes are 0 */
	__be16 source_port, destination_port;
	__u32 class;
};
_Static_assert(sizeof(struct flow) == 40, "a map's key has no padding");

/* The type that a program's ctx points to. */
enum context {
	XDP_MD,	  /* of an XDP program */
	XDP_BUFF, /* of fentry and fexit: bytes must be copied to be read */
	SKB,	  /* struct __sk_buff, of a program at egress */
	LOST,	  /* struct lost, which has a copy of the packet's beginning */
};

/*
 * A packet to parse: an XDP program or one at egress reads it in place, a tracing program reads
 * copies of its bytes. `context` must be a constant, so that only one kind of access is compiled.
 */
struct packet {
	enum context context;
	void *ctx;
};

static __always_inline const void *traced_bytes_at(const struct xdp_buff *xdp, __u64 at, void *copy,
						   __u64 size)
{
	const void *from = xdp->data + at;

	if (from + size > xdp->data_end || bpf_probe_read_kernel(copy, size, from))
		return NULL;
	return copy;
}

static __always_inline const void *sent_bytes_at(struct __sk_buff *skb, __u64 at, void *copy,
						 __u64 size)
{
	const volatile struct __sk_buff *ctx = skb;
	const void *from = (const void *)(long)ctx->data + at;

	if (from + size <= (const void *)(long)ctx->data_end)
		return from;
	return bpf_skb_load_bytes(skb, at, copy, size) ? NULL : copy;
}

static __always_inline const void *lost_bytes_at(const struct lost *lost, __u64 at, __u64 size)
{
	return at + size <= lost->head_length ? lost->head + at : NULL;
}

/*
 * bytes_at returns where `size` bytes at offset `at` can be read, in the packet or in `copy`, or
 * NULL if the packet ends before. The first of several buffers may be empty: then the kernel
 * copies the bytes, but not for tracers. A VLAN tag beside the packet is ignored, except for LOST.
 */
static __always_inline const void *bytes_at(const struct packet *p, __u64 at, void *copy,
					    __u64 size)
{
	/* The verifier wants a limit for an offset that is added to a packet's address. */
	if (at > MAX_OFFSET)
		return NULL;
	if (p->context == XDP_BUFF)
		return traced_bytes_at(p->ctx, at, copy, size);
	if (p->context == SKB)
		return sent_bytes_at(p->ctx, at, copy, size);
	if (p->context == LOST)
		return lost_bytes_at(p->ctx, at, size);

	/*
	 * The address is loaded again for each header. If it were kept, the verifier would check
	 * the following code once for each range that earlier comparisons have given the address.
	 */
	const volatile struct xdp_md *ctx = p->ctx;
	const void *from = (const void *)(long)ctx->data + at;

	if (from + size <= (const void *)(long)ctx->data_end)
		return from;
	return bpf_xdp_load_bytes(p->ctx, at, copy, size) ? NULL : copy;
}

/* header_at is bytes_at for the next header, which has at least `size` bytes. */
static __always_inline const void *header_at(const struct packet *p, struct layers *l, __u64 at,
					     void *copy, __u64 size)
{
	l->end = at + size;
	return bytes_at(p, at, copy, size);
}

static __always_inline bool is_tag(__be16 type)
{
	return type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD);
}

/* is_extension is true for headers that name the next header (RFC 8200, 6275). */
static __always_inline bool is_extension(__u8 protocol)
{
	switch (protocol) {
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

static __always_inline bool has_ports(__u8 protocol)
{
	switch (protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_DCCP:
	case IPPROTO_SCTP:
	case IPPROTO_UDPLITE:
		return true;
	}
	return false;
}

/* Every extension header starts like this, and has at least 8 bytes. */
struct extension {
	__u8 next, length;
	__be16 offset; /* of fragments: the position in units of 8 bytes, and three bits of flags */
	__u32 rest;
};
#define FRAGMENT_OFFSET bpf_htons(0xfff8)
#define MORE_FRAGMENTS	bpf_htons(1)

static __always_inline void find_ipv6_layers(const struct packet *p, struct layers *l)
{
	struct ipv6hdr ip_copy;
	const struct ipv6hdr *ip = header_at(p, l, l->network, &ip_copy, sizeof(ip_copy));
	__u64 at = l->network + sizeof(ip_copy);
	bool is_first = true;

	if (!ip)
		return;
	__u8 protocol = ip->nexthdr;

	/* The bytes after the header of a later fragment are data, not headers. */
	for (int i = 0; i < MAX_EXTENSIONS && is_first && is_extension(protocol); i++) {
		struct extension copy;
		const struct extension *e = header_at(p, l, at, &copy, sizeof(copy));

		if (!e)
			return;
		if (protocol == IPPROTO_FRAGMENT) {
			/* A packet that is whole in spite of its fragment header is not a fragment
			 * (RFC 6946). */
			is_first = !(e->offset & FRAGMENT_OFFSET);
			l->is_fragment = e->offset & (FRAGMENT_OFFSET | MORE_FRAGMENTS);
			at += sizeof(copy);
		} else if (protocol == IPPROTO_AH) {
			at += (e->length + 2) * 4;
		} else {
			at += (e->length + 1) * 8;
		}
		protocol = e->next;
	}
	l->class = V6 + protocol;
	l->end = at;
	l->has_transport = is_first;
}

static __always_inline void find_ipv4_layers(const struct packet *p, struct layers *l)
{
	struct iphdr copy;
	const struct iphdr *ip = header_at(p, l, l->network, &copy, sizeof(copy));

	if (!ip)
		return;
	l->class = V4 + ip->protocol;
	l->is_fragment = ip->frag_off & bpf_htons(0x3fff); /* the position, and "more fragments" */
	if (ip->ihl < sizeof(copy) / 4)
		return;
	l->end = l->network + ip->ihl * 4;
	l->has_transport = !(ip->frag_off & bpf_htons(0x1fff));
}

static __always_inline void walk(const struct packet *p, struct layers *l)
{
	struct tag {
		__be16 id, type;
	} copy;
	__u64 at = 2 * ETH_ALEN;

	*l = (struct layers){ .class = TRUNCATED };
	const __be16 *found = header_at(p, l, at, &copy, sizeof(*found));

	if (!found)
		return;
	__be16 type = *found;

	at += sizeof(type);
	for (int i = 0; i < MAX_TAGS && is_tag(type); i++) {
		const struct tag *tag = header_at(p, l, at, &copy, sizeof(copy));

		if (!tag)
			return;
		type = tag->type;
		at += sizeof(copy);
	}
	l->network = at;
	if (type == bpf_htons(ETH_P_IP))
		find_ipv4_layers(p, l);
	else if (type == bpf_htons(ETH_P_IPV6))
		find_ipv6_layers(p, l);
	else if (bpf_ntohs(type) >= ETH_P_802_3_MIN)
		l->class = OTHER + bpf_ntohs(type);
	else
		l->class = OTHER;
}

/* find_xdp_layers is not inlined, so that the verifier checks it once and not for each use. */
__noinline int find_xdp_layers(struct xdp_md *ctx, struct layers *l)
{
	struct packet p = { .context = XDP_MD, .ctx = ctx };

	if (!l)
		return 0;
	walk(&p, l);
	return 0;
}

__noinline int find_skb_layers(struct __sk_buff *ctx, struct layers *l)
{
	struct packet p = { .context = SKB, .ctx = ctx };

	if (!l)
		return 0;
	walk(&p, l);
	return 0;
}

static __always_inline void find_layers(const struct packet *p, struct layers *l)
{
	if (p->context == XDP_BUFF || p->context == LOST)
		walk(p, l);
	else if (p->context == SKB)
		find_skb_layers(p->ctx, l);
	else
		find_xdp_layers(p->ctx, l);
}

/* read_addresses reads two addresses of `size` bytes each, the source first. */
static __always_inline bool read_addresses(const struct packet *p, __u64 at, __u64 size,
					   struct flow *f)
{
	__u8 copy[2 * sizeof(f->source)];
	const __u8 *addresses = bytes_at(p, at, copy, 2 * size);

	if (!addresses)
		return false;
	__builtin_memcpy(f->source, addresses, size);
	__builtin_memcpy(f->destination, addresses + size, size);
	return true;
}

/*
 * read_flow reads the addresses of IP, and the ports if the layers have a transport header that
 * the packet contains. Without IP, the flow has MAC addresses.
 */
static __always_inline void read_flow(const struct packet *p, const struct layers *l,
				      struct flow *f)
{
	__be16 copy[2];

	__builtin_memset(f, 0, sizeof(*f));
	f->class = l->class;
	if (l->class >= TRUNCATED) {
		/* In the packet, the destination comes first. */
		__u8 macs[2 * ETH_ALEN];
		const __u8 *found = bytes_at(p, 0, macs, sizeof(macs));

		if (found) {
			__builtin_memcpy(f->source, found + ETH_ALEN, ETH_ALEN);
			__builtin_memcpy(f->destination, found, ETH_ALEN);
		}
		return;
	}
	if (l->class < V6)
		read_addresses(p, l->network + 12, 4, f);
	else
		read_addresses(p, l->network + 8, 16, f);
	if (!l->has_transport || !has_ports(l->class))
		return;
	const __be16 *ports = bytes_at(p, l->end, copy, sizeof(copy));

	if (ports) {
		f->source_port = ports[0];
		f->destination_port = ports[1];
	}
}

#endif
