/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Fragments of IP: only the first one has the ports, so a filter for them takes no other. With
 * `following_fragments`, later fragments go the way of their datagram's first one.
 */
#ifndef DATAGRAM_H
#define DATAGRAM_H

#include "packet.h"

/* The loader sets this. The verifier removes the rest where it is false. */
volatile const bool following_fragments = false;

/* What the fragments of a datagram have in common. It is a map's key, so it must have no padding.
 */
struct datagram {
	__u64 source[2], destination[2];
	__be32 id;
	__u32 protocol; /* of IPv4; that of IPv6 is only in the first fragment */
	__u64 hook;	/* each hook decides by its own first fragments */
};
_Static_assert(sizeof(struct datagram) == 48, "a map's key has no padding");

/* Whether the filter takes a datagram's first fragment. A full map forgets the oldest. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 14);
	__type(key, struct datagram);
	__type(value, __u32);
} datagrams SEC(".maps");

/*
 * read_ipv6_datagram returns false if the packet ends before, and if other headers are between
 * those of IPv6 and of the fragment: then the filter does not find the ports of the first one,
 * either.
 */
static __always_inline bool read_ipv6_datagram(const struct packet *p, const struct layers *l,
					       struct datagram *d)
{
	struct ipv6hdr copy;
	struct extension fragment_copy;
	const struct ipv6hdr *ip = bytes_at(p, l->network, &copy, sizeof(copy));

	if (!ip || ip->nexthdr != IPPROTO_FRAGMENT)
		return false;
	__builtin_memcpy(d->source, &ip->saddr, sizeof(d->source));
	__builtin_memcpy(d->destination, &ip->daddr, sizeof(d->destination));
	const struct extension *e =
		bytes_at(p, l->network + sizeof(copy), &fragment_copy, sizeof(fragment_copy));

	if (!e)
		return false;
	d->id = e->rest;
	return true;
}

static __always_inline bool read_ipv4_datagram(const struct packet *p, const struct layers *l,
					       struct datagram *d)
{
	struct iphdr copy;
	const struct iphdr *ip = bytes_at(p, l->network, &copy, sizeof(copy));

	if (!ip)
		return false;
	d->source[0] = ip->saddr;
	d->destination[0] = ip->daddr;
	d->id = ip->id;
	d->protocol = ip->protocol;
	return true;
}

/*
 * is_match_of_datagram returns whether a fragment is taken, and `match` for other packets. match is
 * what the filter says of the packet alone. It adds to *undecided if that is all that is known of a
 * later fragment, and the filter does not take it.
 */
static __always_inline bool is_match_of_datagram(const struct packet *p, const struct layers *l,
						 __u64 hook, bool match, __u64 *undecided)
{
	struct datagram d = { .hook = hook };

	if (!l->is_fragment || l->class >= TRUNCATED)
		return match;
	if (!(l->class >= V6 ? read_ipv6_datagram(p, l, &d) : read_ipv4_datagram(p, l, &d)))
		return match;
	if (l->has_transport) {
		__u32 takes = match;

		bpf_map_update_elem(&datagrams, &d, &takes, BPF_ANY);
		return match;
	}
	__u32 *taken = bpf_map_lookup_elem(&datagrams, &d);

	if (taken)
		return *taken;
	if (!match)
		++*undecided;
	return match;
}

#endif
