/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Which flow a packet belongs to, by the bytes at its beginning. Both directions are one flow.
 */
#ifndef XDPCAP_FLOW_H
#define XDPCAP_FLOW_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Ethernet, two VLAN tags, IPv6, and extension headers of the usual kind, then ports. */
#define FLOW_BYTES	    256
#define MAX_VLAN_TAGS	    2
#define MAX_IPV6_EXTENSIONS 6

struct endpoint {
	__u64 addr[2]; /* an IP address, or the MAC address of what is not IP */
	__u16 port;    /* 0 where there is none, or where fragments do not have it */
	__u16 zero[3];
};

struct flow {
	struct endpoint end[2]; /* in ascending order */
	__u16 ether_type;
	__u8 protocol; /* of the IP payload */
	__u8 zero[5];
};
_Static_assert(sizeof(struct flow) == 56, "a hash key without holes");

/* Whether n bytes at `at` are among the `length` bytes there are; says so to the verifier, too. */
#define HAS(at, n, length) ((at) <= FLOW_BYTES - (n) && (at) + (n) <= (length))

static __always_inline void set_address(struct endpoint *e, const __u8 *bytes, __u32 n)
{
	__builtin_memcpy(e->addr, bytes, n);
}

static __always_inline void set_ports(struct flow *f, const __u8 *b, __u32 at, __u32 length)
{
	if (f->protocol != IPPROTO_TCP && f->protocol != IPPROTO_UDP &&
	    f->protocol != IPPROTO_SCTP && f->protocol != IPPROTO_UDPLITE)
		return;
	if (!HAS(at, 4, length))
		return;
	f->end[0].port = b[at] << 8 | b[at + 1];
	f->end[1].port = b[at + 2] << 8 | b[at + 3];
}

static __always_inline bool set_ipv4(struct flow *f, const __u8 *b, __u32 at, __u32 length)
{
	if (!HAS(at, 20, length))
		return false;
	set_address(&f->end[0], b + at + 12, 4);
	set_address(&f->end[1], b + at + 16, 4);
	f->protocol = b[at + 9];
	/* More fragments, or not the first. */
	if (!((b[at + 6] & 0x3f) | b[at + 7]))
		set_ports(f, b, at + (b[at] & 0xf) * 4, length);
	return true;
}

static __always_inline bool set_ipv6(struct flow *f, const __u8 *b, __u32 at, __u32 length)
{
	if (!HAS(at, 40, length))
		return false;
	set_address(&f->end[0], b + at + 8, 16);
	set_address(&f->end[1], b + at + 24, 16);
	f->protocol = b[at + 6];
	at += 40;
	for (int i = 0; i < MAX_IPV6_EXTENSIONS; i++) {
		if (!HAS(at, 8, length))
			return true;
		__u8 next = b[at], units = b[at + 1];
		switch (f->protocol) {
		case IPPROTO_HOPOPTS:
		case IPPROTO_ROUTING:
		case IPPROTO_DSTOPTS:
			at += (units + 1) * 8;
			break;
		case IPPROTO_AH:
			at += (units + 2) * 4;
			break;
		case IPPROTO_FRAGMENT: /* by their addresses: only the first has ports */
			return true;
		default:
			set_ports(f, b, at, length);
			return true;
		}
		f->protocol = next;
	}
	return true;
}

static __always_inline bool after(const struct endpoint *a, const struct endpoint *b)
{
	if (a->addr[0] != b->addr[0])
		return a->addr[0] > b->addr[0];
	if (a->addr[1] != b->addr[1])
		return a->addr[1] > b->addr[1];
	return a->port > b->port;
}

/* b has FLOW_BYTES bytes, of which `length` are the packet's. */
static __always_inline void find_flow(const __u8 *b, __u32 length, struct flow *f)
{
	__u32 at = ETH_HLEN;

	__builtin_memset(f, 0, sizeof(*f));
	if (!HAS(0, ETH_HLEN, length))
		return;
	f->ether_type = b[12] << 8 | b[13];
	for (int i = 0; i < MAX_VLAN_TAGS; i++) {
		if (f->ether_type != ETH_P_8021Q && f->ether_type != ETH_P_8021AD)
			break;
		if (!HAS(at, 4, length))
			return;
		f->ether_type = b[at + 2] << 8 | b[at + 3];
		at += 4;
	}
	bool ip = f->ether_type == ETH_P_IP	? set_ipv4(f, b, at, length)
		  : f->ether_type == ETH_P_IPV6 ? set_ipv6(f, b, at, length)
						: false;
	if (!ip) {
		set_address(&f->end[0], b + ETH_ALEN, ETH_ALEN);
		set_address(&f->end[1], b, ETH_ALEN);
	}
	if (after(&f->end[0], &f->end[1])) {
		struct endpoint e = f->end[0];

		f->end[0] = f->end[1];
		f->end[1] = e;
	}
}

/* Every bit of the result depends on every bit of the flow and of the seed. */
static __always_inline __u32 hash_flow(const struct flow *f, __u64 seed)
{
	const __u64 *words = (const __u64 *)f;
	__u64 h = seed;

	for (int i = 0; i < (int)(sizeof(*f) / sizeof(__u64)); i++) {
		h ^= words[i];
		h *= 0xff51afd7ed558ccdULL;
		h ^= h >> 33;
	}
	h *= 0xc4ceb9fe1a85ec53ULL;
	return h >> 32;
}

#endif
