/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Where the headers of a packet end, so that its payload can be cut: those that find_layers finds,
 * and after them one whose length is known. What a tunnel carries is payload.
 */
#ifndef HEADERS_H
#define HEADERS_H

#include <linux/if_ether.h>
#include <linux/in.h>

#include "packet.h"

#define ARP_BYTES 28 /* of a message about IPv4 on Ethernet */
#define TCP_BYTES 20 /* of a header without options */
#define TCP_SIZE  12 /* where a header of TCP has its size, in the upper four bits of a byte */

/* In the first byte of a header of GRE: which fields of 4 bytes follow its first 4 bytes. */
enum gre_flag {
	GRE_CHECKSUM = 1 << 7,
	GRE_KEY = 1 << 5,
	GRE_SEQUENCE = 1 << 4,
};

/*
 * header_end returns where the header at `at` ends that a packet of this class has there; it is
 * `at` if that is not known. `told` is the byte that says how long the header is, or 0. This is a
 * global function because the verifier knows nothing about its result. So it checks what comes
 * after the call once, and not for each kind of packet.
 */
__noinline int header_end(__u32 at, __u32 class, __u32 told)
{
	if (class == OTHER + ETH_P_ARP || class == OTHER + ETH_P_RARP)
		return at + ARP_BYTES;
	if (class >= TRUNCATED)
		return at;
	__u8 protocol = class;

	switch (protocol) {
	case IPPROTO_TCP:
		told = (told >> 4) * 4;
		return at + (told < TCP_BYTES ? TCP_BYTES : told);
	case IPPROTO_UDP:
	case IPPROTO_UDPLITE:
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
	case IPPROTO_IGMP:
	case IPPROTO_ESP:
		return at + 8;
	case IPPROTO_SCTP:
	case IPPROTO_DCCP:
		return at + 12;
	case IPPROTO_GRE:
		at += 4;
		at += told & GRE_CHECKSUM ? 4 : 0;
		at += told & GRE_KEY ? 4 : 0;
		at += told & GRE_SEQUENCE ? 4 : 0;
		return at;
	}
	return at;
}

/* headers_end returns where the last header of a packet ends, which may be truncated. */
static __always_inline __u32 headers_end(const struct packet *p, const struct layers *l)
{
	__u32 class = l->class, told = 0;

	if (class < TRUNCATED && !l->has_transport)
		class = TRUNCATED;
	if (class < TRUNCATED) {
		__u8 protocol = class, copy;
		__u64 at = protocol == IPPROTO_TCP ? l->end + TCP_SIZE : l->end;
		const __u8 *byte = bytes_at(p, at, &copy, sizeof(copy));

		if (byte)
			told = *byte;
	}
	return header_end(l->end, class, told);
}

#endif
