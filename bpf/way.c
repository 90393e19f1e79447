// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts the packets of an interface at two points of their way: where the interface hands them to
 * the stack, and where the stack hands them to a socket. Owner: wayMeter in the Go package
 * internal/drops.
 */
#include "include/build.h"
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "include/filter.h"
#include "include/lost.h"
#include "include/verdict.h"

enum point {
	AT_STACK,
	AT_SOCKET,
	POINTS,
};
enum point *const point_type; /* keeps the type in BTF, for bpf2go */

/* No atomics: each CPU has its own entries, and neither program interrupts itself (xdp.Alone). */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, POINTS);
	__type(key, __u32);
	__type(value, struct tally);
} came SEC(".maps");

/*
 * count_packet counts as segments_of does: a buffer of GSO or GRO holds several packets. `length`
 * is that from the IP header on, `header` what the frame has before it.
 */
static __always_inline void count_packet(struct __sk_buff *skb, __u32 point, __u32 length,
					 __u32 header)
{
	struct tally *tally = bpf_map_lookup_elem(&came, &point);
	__u32 size = skb->gso_size, segments = skb->gso_segs;

	if (!tally)
		return;
	if (!size)
		segments = 1;
	else if (!segments)
		segments = (length + size - 1) / size;
	tally->packets += segments;
	tally->bytes += length + header;
}

/* xdpcap_at_stack runs after XDP and GRO, and before what else is at tc, and the stack. */
SEC("tc")
int xdpcap_at_stack(struct __sk_buff *skb)
{
	__u32 length = sent_length(skb);

	if (!filtering || is_match(skb, SKB, length))
		count_packet(skb, AT_STACK, length - ETH_HLEN, ETH_HLEN);
	return TC_ACT_UNSPEC;
}

/*
 * is_in_our_netns reads the network namespace of the packet's socket. For the verifier the socket
 * has no such field; what a helper reads is a number to it.
 */
static __always_inline bool is_in_our_netns(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	const struct sock *socket;

	if (bpf_probe_read_kernel(&socket, sizeof(socket), &sk))
		return false;
	return BPF_CORE_READ(socket, __sk_common.skc_net.net, ns.inum) == traced_netns;
}

/*
 * is_for_our_socket tells whether the packet came in on the interface or on one above it, and its
 * socket is in the interface's namespace: elsewhere, others may have the same indexes.
 */
static __always_inline bool is_for_our_socket(struct __sk_buff *skb)
{
	__u32 incoming = skb->ifindex;

	return (incoming == traced_ifindex || came_from_above(incoming)) && is_in_our_netns(skb);
}

#define SOCKET_BYTES 2048 /* most bytes from the IP header on that the filter reads */

/*
 * copy_socket_head is copy_sent_head for a packet of which only the part from the IP header on is
 * shown. The MAC header before it still exists.
 */
static __always_inline struct head *copy_socket_head(struct __sk_buff *skb, __u32 *length)
{
	__u32 zero = 0;
	struct head *head = bpf_map_lookup_elem(&heads, &zero);
	__u64 n = skb->len, most = reach;

	if (!head || !most)
		return head;
	if (bpf_skb_load_bytes_relative(skb, 0, head->bytes, ETH_HLEN, BPF_HDR_START_MAC))
		return head;
	*(__be16 *)(head->bytes + 2 * ETH_ALEN) = skb->protocol;
	*length = ETH_HLEN;
	if (n + ETH_HLEN > most)
		n = most > ETH_HLEN ? most - ETH_HLEN : 0;
	if (n > SOCKET_BYTES)
		n = SOCKET_BYTES;
	if (!n)
		return head;
	asm volatile("" : "+r"(n));
	n = ((n - 1) & (SOCKET_BYTES - 1)) + 1;
	if (!bpf_skb_load_bytes(skb, 0, head->bytes + ETH_HLEN, n))
		*length += n;
	return head;
}

/* xdpcap_at_sock runs before a packet is put into its socket's queue. It refuses none. */
SEC("cgroup_skb/ingress")
int xdpcap_at_sock(struct __sk_buff *skb)
{
	__u32 length = 0;

	if (!is_for_our_socket(skb))
		return 1;
	if (filtering) {
		struct head *head = copy_socket_head(skb, &length);

		if (!head || !filter_head(head, skb->len + ETH_HLEN, length))
			return 1;
	}
	count_packet(skb, AT_SOCKET, skb->len, ETH_HLEN);
	return 1;
}

char _license[] SEC("license") = "Dual BSD/GPL";
