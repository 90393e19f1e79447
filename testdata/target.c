// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * A host's own XDP programs, for tests of the capture beside one. Owner: internal/testnet.
 *
 * What a program does with a packet depends on the UDP destination port. rewriting_target_program
 * also changes what it passes: it sets another source MAC address and inserts a VLAN tag.
 * slow_target takes its time for packets from one UDP port. reasoning_target says why it drops a
 * packet, for --reason-map. redirecting_target sends packets on in every way that there is. The
 * last ones run one after the other on one interface, the way libxdp does it: a dispatcher whose
 * functions are replaced by the programs.
 */
#include "../bpf/include/build.h"
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../bpf/include/verdict.h"

/* internal/testnet/target.go has the same ports. */
enum port {
	DROP_PORT = 9,
	ABORT_PORT = 10,
	TX_PORT = 11,
	UNKNOWN_PORT = 12,
	SLOW_PORT = 13, /* a source port */
};

#define SLOW_NS 2000000 /* SlowTime in Go */

/* Ends the wait of a test that hangs, before the kernel reports a stuck CPU (some 20 seconds). */
#define WAIT_NS 15000000000ULL

/* NoVerdict in Go: a number that the kernel knows no verdict for. */
#define NO_VERDICT 77

/* Packets by verdict; the last one is for all others. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, VERDICT_SLOTS);
	__type(key, __u32);
	__type(value, __u64);
} verdicts SEC(".maps");

/* At most one program for each verdict, which is called before that verdict is returned. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, VERDICT_UNKNOWN);
	__type(key, __u32);
	__type(value, __u32);
} hook SEC(".maps");

static __always_inline int count(int verdict)
{
	__u32 slot = slot_of(verdict);
	__u64 *n = bpf_map_lookup_elem(&verdicts, &slot);

	if (n)
		(*n)++;
	return verdict;
}

static __always_inline struct udphdr *find_udp(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct udphdr *udp = (void *)(ip + 1);

	if ((void *)(udp + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP) ||
	    ip->protocol != IPPROTO_UDP)
		return NULL;
	return udp;
}

static __always_inline int judge(struct xdp_md *ctx)
{
	struct udphdr *udp = find_udp(ctx);

	if (!udp)
		return XDP_PASS;
	switch (bpf_ntohs(udp->dest)) {
	case DROP_PORT:
		return XDP_DROP;
	case ABORT_PORT:
		return XDP_ABORTED;
	case TX_PORT:
		return XDP_TX;
	case UNKNOWN_PORT:
		return NO_VERDICT;
	}
	return XDP_PASS;
}

SEC("xdp.frags")
int rewriting_target_program(struct xdp_md *ctx)
{
	int verdict = judge(ctx);

	if (verdict != XDP_PASS || bpf_xdp_adjust_head(ctx, -4))
		return count(verdict);
	__u8 *data = (void *)(long)ctx->data;

	if ((void *)(data + 18) <= (void *)(long)ctx->data_end) {
		/* The addresses move to the front, the gap behind them becomes the tag. */
		__builtin_memmove(data, data + 4, 12);
		data[6] ^= 0x40;
		data[12] = 0x81;
		data[13] = 0;
		data[14] = 0;
		data[15] = 7;
	}
	return count(verdict);
}

/*
 * Calls the hook map's program for its verdict, which sees the packet before the verdict is
 * returned.
 */
SEC("xdp")
int hooked_target(struct xdp_md *ctx)
{
	int verdict = count(judge(ctx));

	bpf_tail_call(ctx, &hook, verdict);
	return verdict;
}

SEC("xdp.frags")
int hooked_target_frags(struct xdp_md *ctx)
{
	int verdict = count(judge(ctx));

	bpf_tail_call(ctx, &hook, verdict);
	return verdict;
}

/* Runs in an entry of a devmap: what it passes leaves through the device of that entry. */
SEC("xdp.frags/devmap")
int devmap_target(struct xdp_md *ctx)
{
	return count(judge(ctx));
}

/* Runs in an entry of a cpumap: what it passes goes to the stack on the CPU of that entry. */
SEC("xdp.frags/cpumap")
int cpumap_target(struct xdp_md *ctx)
{
	return count(judge(ctx));
}

/* Entry 0: packets that waiting_target has begun with. Entry 1: not 0 = it may end. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} gate SEC(".maps");

static int wait_at_gate(__u32 round, void *unused)
{
	__u32 end = 1;
	__u64 *is_open = bpf_map_lookup_elem(&gate, &end);

	return !is_open || *(volatile __u64 *)is_open;
}

static int wait_longer(__u32 round, __u64 *until)
{
	bpf_loop(1 << 16, wait_at_gate, NULL, 0);
	return wait_at_gate(round, NULL) || bpf_ktime_get_ns() >= *until;
}

/*
 * Keeps a packet until the test opens the gate, or for WAIT_NS by the kernel's clock. bpf_loop
 * needs a limit of rounds, which is so high that WAIT_NS ends first.
 */
SEC("xdp.frags")
int waiting_target(struct xdp_md *ctx)
{
	__u32 begin = 0;
	__u64 *begun = bpf_map_lookup_elem(&gate, &begin);
	__u64 until = bpf_ktime_get_ns() + WAIT_NS;

	if (begun)
		__sync_fetch_and_add(begun, 1);
	bpf_loop(1 << 20, wait_longer, &until, 0);
	return count(XDP_PASS);
}

static int take_time(__u32 round, __u64 *until)
{
	return bpf_ktime_get_ns() >= *until;
}

/* Runs for at least SLOW_NS, by the kernel's clock, for a packet from SLOW_PORT. */
SEC("xdp.frags")
int slow_target(struct xdp_md *ctx)
{
	struct udphdr *udp = find_udp(ctx);

	if (udp && udp->source == bpf_htons(SLOW_PORT)) {
		__u64 until = bpf_ktime_get_ns() + SLOW_NS;

		bpf_loop(1 << 20, take_time, &until, 0);
	}
	return count(judge(ctx));
}

/* The ports of reasoning_target; internal/testnet/target.go has the same. */
enum reason_port {
	BLOCKED_PORT = 1,
	NO_BACKEND_PORT,
	SILENT_PORT,
	NUMBER_PORT = 1000, /* and all above */
};

/* xdpcap prints these names, because they are the type of the map's value. 0 is no reason. */
enum drop_reason {
	REASON_NONE,
	REASON_BLOCKED,
	REASON_NO_BACKEND,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, enum drop_reason);
} reasons SEC(".maps");

/* The reason is written before every drop, or the packet would get the reason of an earlier one. */
static __always_inline int drop(int verdict, enum drop_reason why)
{
	__u32 zero = 0;
	enum drop_reason *reason = bpf_map_lookup_elem(&reasons, &zero);

	if (reason)
		*reason = why;
	return verdict;
}

SEC("xdp.frags")
int reasoning_target(struct xdp_md *ctx)
{
	struct udphdr *udp = find_udp(ctx);

	if (!udp)
		return XDP_PASS;
	__u16 port = bpf_ntohs(udp->dest);

	switch (port) {
	case BLOCKED_PORT:
		return drop(XDP_DROP, REASON_BLOCKED);
	case NO_BACKEND_PORT:
		return drop(XDP_ABORTED, REASON_NO_BACKEND);
	case SILENT_PORT:
		return drop(XDP_DROP, REASON_NONE);
	}
	if (port >= NUMBER_PORT) /* a reason for which the enum has no name */
		return drop(XDP_DROP, (enum drop_reason)port);
	return XDP_PASS;
}

volatile const __u32 outlet = 0; /* the index of the interface for INDEX_PORT, below */

/*
 * The functions of functions_target. Tracers can have the packet at those that are passed it: at
 * judge_packet with a verdict, at measure_packet with a number. The kernel does not know the
 * arguments of note_packet, which returns nothing, and of hash_port, from which the compiler
 * removes one.
 */

__noinline enum xdp_action judge_packet(struct xdp_md *ctx)
{
	return judge(ctx);
}

static __noinline int measure_packet(struct xdp_md *ctx, __u32 port, __u32 factor)
{
	if (port == DROP_PORT)
		return -22;
	return (ctx->data_end - ctx->data) * factor;
}

static __noinline void note_packet(struct xdp_md *ctx)
{
	__u32 slot = slot_of(ctx->data_end - ctx->data > 1000 ? XDP_DROP : XDP_PASS);
	__u64 *n = bpf_map_lookup_elem(&verdicts, &slot);

	if (n)
		__sync_fetch_and_add(n, 0);
}

static __noinline int hash_port(struct xdp_md *ctx, __u32 port)
{
	return port * 2654435761U;
}

static __noinline int double_port(__u32 port)
{
	return port * 2 + bpf_get_smp_processor_id();
}

SEC("xdp.frags")
int functions_target(struct xdp_md *ctx)
{
	struct udphdr *udp = find_udp(ctx);

	if (!udp)
		return XDP_PASS;
	__u32 port = bpf_ntohs(udp->dest);

	note_packet(ctx);
	if (measure_packet(ctx, port, outlet + 3) == hash_port(ctx, port) + double_port(port))
		return XDP_ABORTED;
	return count(judge_packet(ctx));
}

/*
 * A program at tc: what it passes leaves it with another source address, and a VLAN tag beside the
 * packet.
 */
SEC("tc")
int rewriting_tc_target(struct __sk_buff *skb)
{
	__u8 head[ETH_HLEN + sizeof(struct iphdr) + sizeof(struct udphdr)];
	struct ethhdr *eth = (void *)head;
	struct udphdr *udp = (void *)(head + ETH_HLEN + sizeof(struct iphdr));

	if (bpf_skb_load_bytes(skb, 0, head, sizeof(head)) || eth->h_proto != bpf_htons(ETH_P_IP) ||
	    head[ETH_HLEN + 9] != IPPROTO_UDP)
		return TC_ACT_OK;
	switch (bpf_ntohs(udp->dest)) {
	case DROP_PORT:
		return TC_ACT_SHOT;
	case ABORT_PORT:
		return TC_ACT_STOLEN;
	case TX_PORT:
		return TC_ACT_UNSPEC;
	case UNKNOWN_PORT:
		return NO_VERDICT;
	}
	eth->h_source[0] ^= 0x40;
	bpf_skb_store_bytes(skb, ETH_ALEN, eth->h_source, ETH_ALEN, 0);
	bpf_skb_vlan_push(skb, bpf_htons(ETH_P_8021Q), 7);
	return TC_ACT_OK;
}

static __noinline int judge_at_tc(struct __sk_buff *skb, __u32 most)
{
	return skb->len > most ? TC_ACT_SHOT : TC_ACT_OK;
}

/* Calls the first program of its map, and if there is none a function. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} calls_at_tc SEC(".maps");

SEC("tc")
int calling_tc_target(struct __sk_buff *skb)
{
	bpf_tail_call(skb, &calls_at_tc, 0);
	return judge_at_tc(skb, 1000);
}

SEC("tc")
int called_tc_target(struct __sk_buff *skb)
{
	return judge_at_tc(skb, 200);
}

/* The ports of redirecting_target; internal/systest/trace/outlet_test.go has the same. */
enum redirect_port {
	BACK_PORT = 1,
	INDEX_PORT,
	DEVMAP_PORT,
	HASH_PORT,
	NAMESPACE_PORT,
	BROADCAST_PORT,
	CPU_PORT,
	UNSAID_PORT,
};

/* The second entry is in another network namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} hashed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} cpus SEC(".maps");

SEC("xdp.frags")
int redirecting_target(struct xdp_md *ctx)
{
	struct udphdr *udp = find_udp(ctx);

	if (!udp)
		return XDP_PASS;
	switch (bpf_ntohs(udp->dest)) {
	case BACK_PORT:
		return XDP_TX;
	case INDEX_PORT:
		return bpf_redirect(outlet, 0);
	case DEVMAP_PORT:
		return bpf_redirect_map(&devices, 0, 0);
	case HASH_PORT:
		return bpf_redirect_map(&hashed, 0, 0);
	case NAMESPACE_PORT:
		return bpf_redirect_map(&devices, 1, 0);
	case BROADCAST_PORT:
		return bpf_redirect_map(&devices, 0, BPF_F_BROADCAST);
	case CPU_PORT:
		return bpf_redirect_map(&cpus, 0, 0);
	case UNSAID_PORT:
		return XDP_REDIRECT;
	}
	return XDP_PASS;
}

#define STUB(name)                                                                                 \
	__noinline int name(struct xdp_md *ctx)                                                    \
	{                                                                                          \
		int verdict = XDP_PASS;                                                            \
                                                                                                   \
		asm volatile("" : "+r"(verdict) : "r"(ctx));                                       \
		return verdict;                                                                    \
	}

STUB(prog0)
STUB(prog1)
STUB(prog2)

SEC("xdp")
int xdp_dispatcher(struct xdp_md *ctx)
{
	int verdict = prog0(ctx);

	if (verdict == XDP_PASS)
		verdict = prog1(ctx);
	if (verdict == XDP_PASS)
		verdict = prog2(ctx);
	return verdict;
}

/* The names are longer than the 15 characters that the kernel itself keeps. */
SEC("freplace/prog0")
int firewall_component(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("freplace/prog1")
int load_balancer_component(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("freplace/prog2")
int statistics_component(struct xdp_md *ctx)
{
	return XDP_DROP;
}

char _license[] SEC("license") = "Dual BSD/GPL";
