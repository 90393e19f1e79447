// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Samples packets at the XDP hook. Owner: the Go package capture.
 *
 * The programs here run as XDP programs of their own, by fentry and fexit on a program that is
 * already running, at egress, or where the stack throws packets away. Each of them is a source of
 * packets and has its own account. Every packet of a source leaves through exactly one of the
 * account's counters. When no program runs, this holds for each account:
 *
 *	seen = filtered_out + not_sampled + lost + sampled
 *
 * The rest of an entry's account, if there is one, are entries that waited for an exit in vain.
 *
 * Each program can also run companions. These are other people's programs; they see every packet
 * that the account counts as seen.
 */
#include "include/build.h"
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <stdbool.h>

#include "include/card.h"
#include "include/datagram.h"
#include "include/filter.h"
#include "include/frame.h"
#include "include/headers.h"
#include "include/lost_record.h"
#include "include/outlet.h"
#include "include/packet.h"
#include "include/reason.h"
#include "include/record.h"
#include "include/traced.h"
#include "include/verdict.h"
#include "include/wait.h"

/* These keep the types in BTF, for bpf2go. */
struct facts *const facts_type;
struct ring *const ring_type;
enum verdict_kind *const verdict_kind_type;

/* A group is `one_in` consecutive packets on one CPU. One of them is kept. */
struct group {
	__u32 left;    /* packets of the group still to come */
	__u32 kept_at; /* the packet that brings `left` down to this is kept */
};

struct account {
	__u64 seen;
	__u64 filtered_out;
	__u64 not_sampled;
	__u64 lost;
	__u64 sampled;
	__u64 joined;	 /* packets in larger ones that were seen, but for one each */
	__u64 undecided; /* of filtered_out: later fragments whose first one was not seen */
	struct group group;
	__u64 cpu; /* whose account it is: capture writes it here, because to ask for it is a call
		    */
	__u64 missed; /* the sum of the weights of lost packets */
	__u64 weight; /* of the packet that was drawn last; capture writes one_in here */
	struct group by_verdict[VERDICT_UNKNOWN]; /* used if each verdict has its own rate */
};

/*
 * One account for each source; capture sets max_entries before it loads the program. No atomics:
 * each CPU has its own accounts, and a source's programs do not interrupt each other there
 * (xdp.Alone).
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct account);
} accounts SEC(".maps");

/*
 * How many packets of a flow have come to a hook; a full map drops the flows that were silent
 * longest. Each hook counts separately, so that all hooks keep the same packets of a flow that
 * comes to several. The ends of a flow are in ascending order, because both directions are one
 * flow. All fragments of a packet must be one flow, too: their class is the fragment header's in
 * IPv6, and their ports are 0, because later fragments have none.
 */
struct flow_at_hook {
	struct flow flow;
	__u64 hook;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 17);
	__type(key, struct flow_at_hook);
	__type(value, __u64);
} flows SEC(".maps");

/* The token bucket of all CPUs and sources: the time up to which packets have been paid for. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} bucket SEC(".maps");

/* Adaptive captures keep one of this many packets. capture changes it while programs run. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} rates SEC(".maps");

/* What fentry decided about the packet that fexit sees next on this CPU. */
enum decision {
	UNDECIDED,
	KEEP,
	FILTERED_OUT,
	NOT_SAMPLED,
};
struct passage {
	__u64 packets; /* packets that went through the traced program */
	__u64 decision;
	__u64 weight;	/* of a kept packet, if not all weights are equal */
	__u64 entered;	/* when the program began, if its exit is recorded */
	__u64 replaced; /* whether the packet is taken in by the hook that replaces this one */
};

/* One for each traced program; capture sets max_entries. No atomics, as for accounts. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct passage);
} passages SEC(".maps");

/* capture sets these before it loads a program. The verifier removes the code that is off. */
volatile const __u32 source = 0;  /* index into accounts */
volatile const __u32 hook = 0;	  /* which hook of the session: also an index into passages */
volatile const __u32 arrival = 0; /* differs between programs that have one `hook` in turn */
volatile const enum limit snaplen = PERF_MAX_SAMPLE_SIZE;
/* Whether packets are cut after their headers, and how many bytes after these are kept. */
volatile const bool cutting_payload = false;
volatile const __u32 payload_kept = 0;
volatile const __u32 verdict = XDP_PASS;
volatile const enum stamping stamping = EVERY_PACKET;
/* One of this many packets is kept; 0 = not all of them have the same rate. */
volatile const __u32 one_in = 1;
/* If one_in is 0: whether each verdict has its own rate, or all use the one in `rates`. */
volatile const bool drawing_by_verdict = false;
volatile const __u32 one_in_of[VERDICT_UNKNOWN] = {};
/* Whether flows are distinguished. */
volatile const bool choosing_flows = false;
/* A flow is kept if its hash is at most this. */
volatile const __u32 keep_flows_below = 0xffffffff;
volatile const __u64 flow_seed = 0;
/* How many packets of each flow to keep; 0 = all. */
volatile const __u64 first_packets = 0;
/* The time that a packet costs, in units of 2^-TIME_SHIFT ns; 0 = any rate is kept. */
volatile const __u64 packet_cost = 0;
/* The bucket holds one second, so that a burst may have as many packets as a whole second. */
#define BURST (1000000000ULL << TIME_SHIFT)

/* Packets with one of the first verdict_count verdicts are kept; without any, all are. */
volatile const __u32 verdicts[MAX_VERDICTS] = {};
volatile const __u32 verdict_count = 0;

/* At an exit, packets are kept for which the traced program ran at least so many ns; 0 = all. */
volatile const __u32 slower_than = 0;

/* Whether there are companions. */
volatile const bool accompanied = false;

/* Only the tracers read these. */
volatile const bool recording_entry = false;
volatile const bool recording_exit = false;
static __always_inline struct account *find_account(void)
{
	__u32 index = source;

	return bpf_map_lookup_elem(&accounts, &index);
}

/*
 * Package capture replaces the bodies of these two functions by calls of companions. They are
 * static, because Linux 6.1's verifier lets no global function have the context of a tracer. A
 * companion changes nothing here, and its return value is ignored.
 */
static __noinline int run_first(void *ctx)
{
	int done = 0;

	asm volatile("" : "+r"(done) : "r"(ctx) : "memory");
	return done;
}

static __noinline int run_last(void *ctx)
{
	int done = 1; /* differs from run_first's, or the compiler would merge the two */

	asm volatile("" : "+r"(done) : "r"(ctx) : "memory");
	return done;
}

/* copy_tagged_head is copy_head for a packet whose VLAN tag the card has removed. */
static __always_inline struct head *copy_tagged_head(struct xdp_md *ctx, const struct facts *facts,
						     __u32 *length)
{
	__u32 zero = 0;
	struct head *head = bpf_map_lookup_elem(&heads, &zero);

	if (!head || !reach)
		return head;
	__u64 n = ctx->data_end - ctx->data, most = reach;

	if (n > most)
		n = most;
	if (!n)
		return head;
	asm volatile("" : "+r"(n));
	n = ((n - 1) & (HEAD_BYTES - 1)) + 1;
	if (bpf_xdp_load_bytes(ctx, 0, head->bytes + TAG_BYTES, n))
		return head;
	put_tag_back(head, facts->tag_protocol, facts->tag);
	n += TAG_BYTES;
	*length = n > most ? most : n;
	return head;
}

/*
 * pay takes one packet's cost out of the bucket. It returns false if the bucket has too little, or
 * if other CPUs changed the bucket eight times in a row between its look and its exchange: at such
 * a rate there are more than enough other packets to keep.
 */
static __always_inline bool pay(void)
{
	__u32 zero = 0;
	__u64 *paid = bpf_map_lookup_elem(&bucket, &zero);

	if (!paid)
		return false;
	__u64 now = bpf_ktime_get_ns() << TIME_SHIFT;

	for (int i = 0; i < 8; i++) {
		__u64 before = *paid;
		__u64 from = before + BURST < now ? now - BURST : before;

		if (from + packet_cost > now)
			return false;
		if (__sync_val_compare_and_swap(paid, before, from + packet_cost) == before)
			return true;
	}
	return false;
}

static __always_inline bool is_among_first(const struct flow_at_hook *f)
{
	__u64 *packets = bpf_map_lookup_elem(&flows, f), one = 1;

	if (!packets) {
		if (!bpf_map_update_elem(&flows, f, &one, BPF_NOEXIST))
			return true;
		/* Another CPU has inserted the flow since the look-up. */
		packets = bpf_map_lookup_elem(&flows, f);
		if (!packets)
			return true;
	}
	return __sync_fetch_and_add(packets, 1) < first_packets;
}

/* sort_ends puts the lower end first, by address and then by port. */
static __always_inline void sort_ends(struct flow *f)
{
	__u64 *a = f->source, *b = f->destination;
	__u16 port = f->source_port;

	if (a[0] < b[0] ||
	    (a[0] == b[0] && (a[1] < b[1] || (a[1] == b[1] && port <= f->destination_port))))
		return;
	for (int i = 0; i < 2; i++) {
		__u64 word = a[i];

		a[i] = b[i];
		b[i] = word;
	}
	f->source_port = f->destination_port;
	f->destination_port = port;
}

/* hash_flow makes every bit of the result depend on every bit of the flow and of the seed. */
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

/*
 * find_lost_layers finds the headers of a packet that was thrown away: the scratch has its first
 * head_length bytes. It is not inlined, for the same reason as is_above.
 */
__noinline int find_lost_layers(__u32 head_length, struct layers *l)
{
	struct scratch *scratch = find_scratch();

	if (!scratch || !l)
		return 0;
	struct lost lost = { .head = scratch->frame.head.bytes, .head_length = head_length };
	struct packet p = { .context = LOST, .ctx = &lost };

	walk(&p, l);
	return 0;
}

/* find_headers is find_layers, whatever the context. */
static __always_inline void find_headers(const struct packet *p, struct layers *l)
{
	if (p->context == LOST)
		find_lost_layers(((struct lost *)p->ctx)->head_length, l);
	else
		find_layers(p, l);
}

static __always_inline bool is_kept_flow(void *ctx, enum context context)
{
	struct packet p = { .context = context, .ctx = ctx };
	struct flow_at_hook at = { .hook = (__u64)arrival << 32 | hook };
	struct flow *f = &at.flow;
	struct layers l = {};

	find_headers(&p, &l);
	if (l.is_fragment && l.class < TRUNCATED) {
		l.has_transport = false;
		if (l.class >= V6)
			l.class = V6 + IPPROTO_FRAGMENT;
	}
	read_flow(&p, &l, f);
	sort_ends(f);
	if (hash_flow(f, flow_seed) > keep_flows_below)
		return false;
	return !first_packets || is_among_first(&at);
}

/*
 * is_kept_lost_flow is is_kept_flow for a packet that was thrown away: the scratch has so many
 * bytes of its beginning. It is not inlined, for the same reason as is_above.
 */
__noinline int is_kept_lost_flow(__u32 head_length)
{
	struct scratch *scratch = find_scratch();

	if (!scratch)
		return false;
	struct lost lost = { .head = scratch->frame.head.bytes, .head_length = head_length };

	return is_kept_flow(&lost, LOST);
}

/* is_of_kept_flow is is_kept_flow, whatever the context. */
static __always_inline bool is_of_kept_flow(void *ctx, enum context context)
{
	if (context == LOST)
		return is_kept_lost_flow(((struct lost *)ctx)->head_length);
	return is_kept_flow(ctx, context);
}

/*
 * is_drawn keeps exactly one random packet of every `size`, and draws one random number per group
 * instead of one per packet.
 */
static __always_inline bool is_drawn(struct group *group, __u32 size)
{
	if (!group->left) {
		group->left = size;
		group->kept_at = (__u64)bpf_get_prandom_u32() * size >> 32;
	}
	return --group->left == group->kept_at;
}

/*
 * is_drawn_adaptively draws at the rate that capture has chosen last. A group larger than that
 * ends early, so that a lower rate takes effect at once, however few packets come. Each packet of
 * such a group was still kept with the probability that its weight says, because the rate does not
 * depend on which packets were kept.
 */
static __always_inline bool is_drawn_adaptively(struct account *account)
{
	__u32 zero = 0;
	__u32 *rate = bpf_map_lookup_elem(&rates, &zero);
	__u32 size = rate ? *rate : 1;

	if (!account->group.left || size < account->weight) {
		account->group.left = 0;
		account->weight = size;
	}
	return account->weight <= 1 || is_drawn(&account->group, account->weight);
}

static __always_inline bool is_drawn_by_verdict(struct account *account, __u32 returned)
{
	account->weight = 1;
	if (returned >= VERDICT_UNKNOWN)
		return true;
	__u32 size = one_in_of[returned];

	account->weight = size;
	return size <= 1 || is_drawn(&account->by_verdict[returned], size);
}

/* is_drawn_otherwise is not part of programs that draw at one rate: see one_in. */
static __noinline bool is_drawn_otherwise(struct account *account, __u32 returned)
{
	if (drawing_by_verdict)
		return is_drawn_by_verdict(account, returned);
	return is_drawn_adaptively(account);
}

static __always_inline bool is_chosen(struct account *account, __u32 returned)
{
	__u32 size = one_in;

	if (size == 1)
		return true;
	return size ? is_drawn(&account->group, size) : is_drawn_otherwise(account, returned);
}

/* The rate is the last test, so that only packets that pass all others use it up. */
static __always_inline bool is_sampled(void *ctx, enum context context, struct account *account,
				       __u32 returned)
{
	if (choosing_flows && !is_of_kept_flow(ctx, context))
		return false;
	if (!is_chosen(account, returned))
		return false;
	return !packet_cost || pay();
}

static __always_inline __u32 length_to_filter(void *ctx, enum context context)
{
	if (!filtering_length)
		return 0;
	if (context == SKB)
		return sent_length(ctx);
	if (context == LOST) {
		const struct lost *lost = ctx;

		return whole_length(lost) + (lost->is_tagged ? TAG_BYTES : 0);
	}
	return context == XDP_MD ? received_length(ctx) : length_of(ctx);
}

/* is_fragment_match is is_match_of_datagram for a packet about which the filter says `match`. */
static __always_inline bool is_fragment_match(void *ctx, enum context context,
					      struct account *account, bool match)
{
	struct packet p = { .context = context, .ctx = ctx };
	struct layers l = {};

	if (!following_fragments)
		return match;
	find_headers(&p, &l);
	return is_match_of_datagram(&p, &l, (__u64)arrival << 32 | hook, match,
				    &account->undecided);
}

static __always_inline bool is_filtered_out(void *ctx, enum context context,
					    struct account *account)
{
	if (!filtering)
		return false;
	return !is_fragment_match(ctx, context, account,
				  is_match(ctx, context, length_to_filter(ctx, context)));
}

static __always_inline enum decision decide(void *ctx, enum context context,
					    struct account *account, __u32 returned)
{
	if (is_filtered_out(ctx, context, account))
		return FILTERED_OUT;
	return is_sampled(ctx, context, account, returned) ? KEEP : NOT_SAMPLED;
}

static __always_inline __u64 make_id(__u64 cpu, __u64 number)
{
	return cpu << ID_CPU_SHIFT | (__u64)hook << ID_HOOK_SHIFT |
	       (number & ((1ULL << ID_HOOK_SHIFT) - 1));
}

/*
 * stamp returns the time of a record. `ring` is the CPU's ring, if it exists. A tracer's records
 * may go by two rings; the stamps must give their order, so each gets its own stamp.
 */
static __always_inline __u64 stamp(struct ring *ring, enum context context,
				   const struct facts *facts)
{
	if (stamping == EVERY_TICK)
		return bpf_ktime_get_coarse_ns();
	if (stamping == EVERY_POLL && ring)
		return poll_time(ring, context == XDP_BUFF || context == LOST);
	if (stamping == EVERY_UNSTAMPED && ring)
		return poll_time(ring, !facts->card_time);
	return bpf_ktime_get_ns();
}

/*
 * complete fills in what all sources determine in the same way. It reads the time as late as
 * possible, so that few records are older than those before them.
 */
static __always_inline void complete(struct facts *facts, const struct account *account,
				     __u64 length, __u64 time)
{
	facts->cookie = COOKIE;
	facts->source = source;
	facts->length = length;
	facts->time = time;
	facts->dropped = account->lost;
	facts->weight = account->weight;
}

/* copy copies the part of the packet that the record has. */
static __always_inline bool copy(void *ctx, enum context context, void *to, __u64 length)
{
	if (context == XDP_MD)
		return copy_packet(ctx, to, length);
	if (context == SKB)
		return copy_sent(ctx, to, length);
	if (context == LOST)
		return copy_lost(ctx, to, length, MAX_COPY);
	struct xdp_buff *xdp = ctx;

	asm volatile("" : "+r"(length));
	return length <= MAX_COPY && !bpf_probe_read_kernel(to, length, xdp->data);
}

/* in_one_piece is how many bytes of a lost packet a program can copy by itself. */
static __always_inline __u64 in_one_piece(const struct lost *lost)
{
	__u64 length = lost->made + lost->linear;

	return length < MAX_COPY ? length : MAX_COPY;
}

/* Only tracers have both kinds of rings: see is_for_ring. */
static __always_inline bool is_tracer(enum context context)
{
	return context == XDP_BUFF || context == LOST;
}

/*
 * is_for_ring tells whether a ring can carry the record: a tracer can copy only one buffer, and a
 * ring takes one record at a time.
 */
static __always_inline bool is_for_ring(void *ctx, enum context context,
					const struct account *account, __u64 length)
{
	if (is_tracer(context) && interruptible && is_filling(account->cpu))
		return false;
	if (context == LOST)
		return length <= in_one_piece(ctx);
	if (context != XDP_BUFF)
		return true;
	struct xdp_buff *xdp = ctx;

	return length <= (__u64)(xdp->data_end - xdp->data);
}

static __always_inline bool send_by_ring(void *ctx, enum context context,
					 const struct account *account, const struct facts *known,
					 __u64 length)
{
	struct ring *ring = find_ring(account->cpu);

	if (!ring)
		return false;
	struct facts *facts = reserve(ring, sizeof(*facts) + length);

	if (!facts)
		return false;
	*facts = *known;
	complete(facts, account, length, stamp(ring, context, known));
	if (!copy(ctx, context, facts + 1, length)) {
		cancel(ring);
		return false;
	}
	publish(ring, sizeof(*facts) + length);
	return true;
}

static __always_inline bool send_record_by_perf(void *ctx, enum context context,
						const struct account *account,
						const struct facts *known, __u64 length)
{
	bool both = is_tracer(context) && ring_size, sent;
	struct ring *shown = both ? show_other(account->cpu) : NULL;

	if (length > PERF_MAX_SAMPLE_SIZE)
		length = PERF_MAX_SAMPLE_SIZE;
	if (context == LOST) {
		struct lost *lost = ctx;

		complete(&lost->scratch->facts, account, length, stamp(shown, context, known));
		sent = !send_lost_by_perf(lost, length);
	} else {
		struct facts facts = *known;

		complete(&facts, account, length, stamp(shown, context, known));
		sent = !send_by_perf(ctx, context == XDP_BUFF, &facts, sizeof(facts), length);
	}
	if (shown)
		hide_other(shown);
	return sent;
}

/*
 * length_of_headers is how many bytes are kept of a packet whose payload is cut. A tag of a lost
 * packet is in the copy of its beginning, but not yet in the packet.
 */
static __always_inline __u64 length_of_headers(void *ctx, enum context context)
{
	struct packet p = { .context = context, .ctx = ctx };
	struct layers l = {};

	find_headers(&p, &l);
	__u64 length = headers_end(&p, &l);

	if (context == LOST && ((struct lost *)ctx)->is_tagged)
		length -= TAG_BYTES;
	return length + payload_kept;
}

/* traced_length_of_headers is not inlined, so that copies of headers have a stack of their own. */
static __noinline __u64 traced_length_of_headers(struct xdp_buff *xdp)
{
	return length_of_headers(xdp, XDP_BUFF);
}

/* length_to_keep is how many bytes of a packet a record has, if they can be copied. */
static __always_inline __u64 length_to_keep(void *ctx, enum context context, __u32 wire_len)
{
	/* The kernel refuses to send more bytes than the packet has. */
	__u64 length = wire_len < snaplen ? wire_len : snaplen;

	if (!cutting_payload)
		return length;
	__u64 most = 0;

	if (context == XDP_BUFF)
		most = traced_length_of_headers(ctx);
	else
		most = length_of_headers(ctx, context);
	return length < most ? length : most;
}

/* count_record counts a record that was sent, or lost since there was no room for it. */
static __always_inline void count_record(struct account *account, bool sent)
{
	if (sent) {
		account->sampled++;
		return;
	}
	account->lost++;
	if (!one_in)
		account->missed += account->weight;
}

/* emit sends a record of a packet, and counts it. The facts of a lost packet are in its scratch. */
static __always_inline void emit(void *ctx, enum context context, struct account *account,
				 const struct facts *known)
{
	__u64 length = length_to_keep(ctx, context, known->wire_len);
	bool sent;

	if (context == LOST && ring_size && !perf_beside && length > in_one_piece(ctx))
		length = in_one_piece(ctx);
	if (ring_size && is_for_ring(ctx, context, account, length))
		sent = send_by_ring(ctx, context, account, known, length);
	else
		sent = send_record_by_perf(ctx, context, account, known, length);
	count_record(account, sent);
}

/* is_to_be_sent counts the packets that are not sent, and returns true for the others. */
static __always_inline bool is_to_be_sent(struct account *account, enum decision decision)
{
	if (decision == FILTERED_OUT)
		account->filtered_out++;
	else if (decision == NOT_SAMPLED)
		account->not_sampled++;
	return decision == KEEP;
}

static __always_inline bool is_wanted(__u32 returned)
{
	if (!verdict_count)
		return true;
	for (int i = 0; i < MAX_VERDICTS; i++) {
		if (i < (int)verdict_count && returned == verdicts[i])
			return true;
	}
	return false;
}

/* The first comparison lets the verifier remove the second one where every run time is wanted. */
static __always_inline bool is_slow_enough(__u32 run_time)
{
	return !slower_than || run_time >= slower_than;
}

static __always_inline void sample_packet(struct xdp_md *ctx, struct account *account,
					  __u32 returned)
{
	account->seen++;
	if (!is_wanted(returned)) {
		account->filtered_out++;
		return;
	}
	if (!is_to_be_sent(account, decide(ctx, XDP_MD, account, returned)))
		return;
	struct facts facts = {
		.wire_len = received_length(ctx),
		.verdict = returned,
		.id = make_id(account->cpu, account->seen),
		.queue = ctx->rx_queue_index,
	};

	emit(ctx, XDP_MD, account, &facts);
}

/* xdpcap_xdp runs at the hook, or is called by a program that is about to return `verdict`. */
SEC("xdp.frags")
int xdpcap_xdp(struct xdp_md *ctx)
{
	struct account *account = find_account();
	__u32 returned = verdict;

	if (account) {
		if (accompanied)
			run_first(ctx);
		sample_packet(ctx, account, returned);
	}
	return returned;
}

/* is_match_of_card lets the filter see a VLAN tag that the card has removed. */
static __always_inline bool is_match_of_card(struct xdp_md *ctx, const struct facts *facts)
{
	if (!asking_tag || !facts->tag_protocol)
		return is_match(ctx, XDP_MD, length_to_filter(ctx, XDP_MD));
	__u32 wire_len = filtering_length ? received_length(ctx) + TAG_BYTES : 0;
	__u32 length = 0;
	struct head *head = copy_tagged_head(ctx, facts, &length);

	return head && filter_head(head, wire_len, length);
}

static __always_inline enum decision decide_with_card(struct xdp_md *ctx, struct account *account,
						      struct facts *facts)
{
	if (filtering) {
		ask_tag(ctx, facts);
		if (!is_fragment_match(ctx, XDP_MD, account, is_match_of_card(ctx, facts)))
			return FILTERED_OUT;
	}
	return is_sampled(ctx, XDP_MD, account, NO_VERDICT) ? KEEP : NOT_SAMPLED;
}

static __always_inline void sample_with_card(struct xdp_md *ctx, struct account *account,
					     __u32 returned)
{
	struct facts facts = {};

	account->seen++;
	if (!is_to_be_sent(account, decide_with_card(ctx, account, &facts)))
		return;
	if (!filtering)
		ask_tag(ctx, &facts);
	ask_rest(ctx, &facts);
	facts.wire_len = received_length(ctx);
	facts.verdict = returned;
	facts.id = make_id(account->cpu, account->seen);
	facts.queue = ctx->rx_queue_index;
	emit(ctx, XDP_MD, account, &facts);
}

/* xdpcap_card is xdpcap_xdp bound to its device, and asks that device's card. */
SEC("xdp.frags")
int xdpcap_card(struct xdp_md *ctx)
{
	struct account *account = find_account();
	__u32 returned = verdict;

	if (account) {
		if (accompanied)
			run_first(ctx);
		sample_with_card(ctx, account, returned);
	}
	return returned;
}

static __always_inline void emit_traced(struct xdp_buff *xdp, struct account *account, __u64 number,
					__u32 returned, __u32 run_time)
{
	struct facts facts = {
		.wire_len = length_of(xdp),
		.verdict = returned,
		.id = make_id(account->cpu, number),
		.queue = xdp->rxq->queue_index,
		.to = find_outlet(xdp, returned),
		.run_time = run_time,
		.reason = given_reason(returned),
	};

	emit(xdp, XDP_BUFF, account, &facts);
}

static __always_inline struct passage *find_passage(struct xdp_buff *xdp)
{
	__u32 index = hook;

	if (!is_from_traced(xdp))
		return NULL;
	return bpf_map_lookup_elem(&passages, &index);
}

/*
 * decide_at_entry also decides for the exit. If only exits are recorded, it only filters: the
 * packets to sample are those with a wanted verdict of the program. It returns true if the entry is
 * to be sent.
 */
static __always_inline bool decide_at_entry(void *ctx, enum context context,
					    struct passage *passage, struct account *account)
{
	passage->packets++;
	if (!recording_entry) {
		passage->decision = is_filtered_out(ctx, context, account) ? FILTERED_OUT : KEEP;
		return false;
	}
	passage->decision = decide(ctx, context, account, NO_VERDICT);
	if (!one_in)
		passage->weight = account->weight;
	account->seen++;
	return is_to_be_sent(account, passage->decision);
}

static __always_inline void sample_entry(struct xdp_buff *xdp, struct passage *passage,
					 struct account *account)
{
	if (decide_at_entry(xdp, XDP_BUFF, passage, account))
		emit_traced(xdp, account, passage->packets, NO_VERDICT, 0);
}

/*
 * note_entered is the last step at an entry, and run_time_since the first at an exit, so that our
 * own work is not part of the traced program's run time. The kernel's own way to and from our
 * programs is part of it, which takes some 50 ns.
 */
static __always_inline void note_entered(struct passage *passage)
{
	if (recording_exit && passage->decision == KEEP)
		passage->entered = bpf_ktime_get_ns();
}

/* A branch for a time above 32 bits would make the verifier check twice as much. */
static __always_inline __u32 run_time_since(const __u64 *entered)
{
	__u64 ns = bpf_ktime_get_ns() - *entered;
	__u64 is_more = ((ns >> 32) + 0xffffffff) >> 32;

	return ns | -is_more;
}

/*
 * Whether a traced program's packets are taken in, by hook; capture writes it. When a tracer is
 * detached, the kernel skips fexit for packets that are inside the traced program. So at its end
 * capture closes the gates, and waits until those are out; otherwise they would have an entry and
 * no exit. If another filter replaces one, the tracers of both are attached at the same time. The
 * kernel runs the one that was attached last first, and that one decides which of them takes the
 * packet.
 */
enum gate {
	OPEN,
	CLOSED,
	WAITING,   /* packets still go to the hook that this one will replace */
	REPLACING, /* packets no longer go to it */
};
enum gate *const gate_type;
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} gates SEC(".maps");

/* Whether filters may be replaced, and the hook that this one replaces. */
volatile const bool replaceable = false;
volatile const __u32 predecessor = 0;

/* takes_in tells whether a packet that enters the traced program is one of this hook. */
static __always_inline bool takes_in(const struct passage *passage)
{
	__u32 index = hook;
	volatile __u32 *at = bpf_map_lookup_elem(&gates, &index);
	__u32 gate = at ? *at : CLOSED;

	if (!replaceable || gate == CLOSED)
		return gate != CLOSED;
	if (gate == OPEN)
		return !passage->replaced;
	index = predecessor;
	struct passage *former = bpf_map_lookup_elem(&passages, &index);

	if (former)
		former->replaced = gate == REPLACING;
	return gate == REPLACING;
}

SEC("fentry/xdp")
int BPF_PROG(xdpcap_fentry, struct xdp_buff *xdp)
{
	struct passage *passage = find_passage(xdp);
	struct account *account = find_account();

	if (!passage || !account || !takes_in(passage))
		return 0;
	if (accompanied)
		run_first(ctx);
	sample_entry(xdp, passage, account);
	if (accompanied)
		run_last(ctx);
	note_entered(passage);
	return 0;
}

/* end_run is the first step at an exit: see note_entered. */
static __always_inline __u32 end_run(const struct passage *passage)
{
	return passage->decision == KEEP ? run_time_since(&passage->entered) : 0;
}

/*
 * decide_at_exit is what becomes of a packet that leaves a traced function or program. The decision
 * of its entry is used up. Without the exit's own sampling, the packet has the weight of its entry.
 */
static __always_inline enum decision decide_at_exit(void *ctx, enum context context,
						    struct passage *passage,
						    struct account *account, __u32 returned,
						    __u32 run_time)
{
	enum decision decision = passage->decision;

	account->seen++;
	passage->decision = UNDECIDED;
	if (decision == KEEP) {
		if (!is_slow_enough(run_time) || !is_wanted(returned))
			decision = FILTERED_OUT;
		else if (!recording_entry)
			decision = decide(ctx, context, account, returned);
	}
	if (recording_entry && !one_in)
		account->weight = passage->weight;
	return decision;
}

static __always_inline void sample_exit(struct xdp_buff *xdp, struct passage *passage,
					struct account *account, __u32 returned)
{
	__u32 run_time = end_run(passage);

	if (is_to_be_sent(account,
			  decide_at_exit(xdp, XDP_BUFF, passage, account, returned, run_time)))
		emit_traced(xdp, account, passage->packets, returned, run_time);
}

/*
 * With companions xdpcap_fexit runs even if exits are not recorded. Then `source` is not the
 * exit's. The first companions run for every exit, so that little time passes before they run.
 */
SEC("fexit/xdp")
int BPF_PROG(xdpcap_fexit, struct xdp_buff *xdp, int returned)
{
	struct passage *passage;
	struct account *account;

	if (accompanied)
		run_first(ctx);
	passage = find_passage(xdp);
	account = find_account();
	/* A packet that entered before fentry was attached belongs to no capture. */
	if (!passage || !account || passage->decision == UNDECIDED)
		return 0;
	if (recording_exit)
		sample_exit(xdp, passage, account, returned);
	else
		passage->decision = UNDECIDED;
	if (accompanied)
		run_last(ctx);
	return 0;
}

/* What a traced function or a program of tc returns: enum verdict_kind. */
volatile const __u32 returning = XDP_VERDICT;

/* emit_returned is emit_traced for what may be no verdict, which XDP programs do without. */
static __always_inline void emit_returned(struct xdp_buff *xdp, struct account *account,
					  __u64 number, __u32 returned, __u32 run_time)
{
	struct facts facts = {
		.wire_len = length_of(xdp),
		.verdict = returned,
		.gso_size = returning << KIND_SHIFT,
		.id = make_id(account->cpu, number),
		.queue = xdp->rxq->queue_index,
		.run_time = run_time,
	};

	if (returning == XDP_VERDICT) {
		facts.to = find_outlet(xdp, returned);
		facts.reason = given_reason(returned);
	}
	emit(xdp, XDP_BUFF, account, &facts);
}

/*
 * xdpcap_fexit_fn is xdpcap_fexit for a function of an XDP program, which may have more
 * arguments: the first one is the packet. xdpcap_fentry does for its entry.
 */
SEC("fexit/xdp")
int BPF_PROG(xdpcap_fexit_fn, struct xdp_buff *xdp)
{
	struct passage *passage = find_passage(xdp);
	struct account *account = find_account();
	__u64 returned = 0;

	if (!passage || !account || passage->decision == UNDECIDED)
		return 0;
	__u32 run_time = end_run(passage);

	bpf_get_func_ret(ctx, &returned);
	if (is_to_be_sent(account,
			  decide_at_exit(xdp, XDP_BUFF, passage, account, returned, run_time)))
		emit_returned(xdp, account, passage->packets, returned, run_time);
	return 0;
}

/*
 * hold_entry makes the record of an entry that waits for its exit. Only the first buffer of a
 * packet can be copied here. Nothing but `seen` is counted: the exit may interrupt this program,
 * and counts what has become of the entry.
 */
static __always_inline struct wait *hold_entry(void *ctx, struct xdp_buff *xdp,
					       struct passage *passage, struct account *account)
{
	__u64 packet = 0;

	passage->packets++;
	if (recording_entry)
		account->seen++;
	bpf_get_func_arg(ctx, 0, &packet);
	int level = enter_level(packet, (__u64)arrival << 32 | hook);
	struct wait *wait = wait_at(find_waits(), level);

	if (!wait)
		return NULL;
	struct image *image = find_image(account->cpu, level);

	wait->number = passage->packets;
	wait->decision = is_filtered_out(xdp, XDP_BUFF, account) ? FILTERED_OUT : KEEP;
	if (wait->decision != KEEP || !recording_entry || !image)
		return wait;
	__u64 length = xdp->data_end - xdp->data, wire_len = length_of(xdp);
	__u64 most = length_to_keep(xdp, XDP_BUFF, wire_len);

	if (length > most)
		length = most;
	image->facts = (struct facts){
		.wire_len = wire_len,
		.verdict = NO_VERDICT,
		.id = make_id(account->cpu, passage->packets),
		.queue = xdp->rxq->queue_index,
	};
	asm volatile("" : "+r"(length));
	if (length > image_room)
		length = image_room;
	if (bpf_probe_read_kernel(image->bytes, length, xdp->data))
		length = 0;
	image->facts.length = length;
	return wait;
}

/*
 * xdpcap_hold is xdpcap_fentry if packets are chosen by what the traced program decides. With a
 * choice by its reasons, exits alone wait, too.
 */
SEC("fentry/xdp")
int BPF_PROG(xdpcap_hold, struct xdp_buff *xdp)
{
	struct passage *passage = find_passage(xdp);
	struct account *account = find_account();
	struct wait *wait;

	if (!passage || !account || !takes_in(passage))
		return 0;
	if (accompanied)
		run_first(ctx);
	wait = hold_entry(ctx, xdp, passage, account);
	if (accompanied)
		run_last(ctx);
	if (wait)
		wait->entered = bpf_ktime_get_ns();
	return 0;
}

/* entry_source is the source of entries: before that of exits, if exits are recorded. */
static __always_inline __u32 entry_source(void)
{
	return source - recording_exit;
}

/* complete_image is complete for an entry. Its stamp says when the packet came in. */
static __always_inline void complete_image(struct image *image, const struct account *account,
					   __u64 length, const struct wait *wait)
{
	__u64 time = stamping == EVERY_TICK ? bpf_ktime_get_coarse_ns() : wait->entered;

	complete(&image->facts, account, length, time);
	image->facts.source = entry_source();
}

static __always_inline bool send_image_by_ring(const struct account *account, struct image *image,
					       __u64 length, const struct wait *wait)
{
	struct ring *ring = find_ring(account->cpu);

	if (!ring)
		return false;
	__u64 size = sizeof(image->facts) + length;
	void *to = reserve(ring, size);

	if (!to)
		return false;
	complete_image(image, account, length, wait);
	if (bpf_probe_read_kernel(to, size, image)) {
		cancel(ring);
		return false;
	}
	publish(ring, size);
	return true;
}

static __always_inline bool send_image_by_perf(void *ctx, const struct account *account,
					       struct image *image, __u64 length,
					       const struct wait *wait)
{
	struct ring *shown = ring_size ? show_other(account->cpu) : NULL;

	if (length > PERF_MAX_SAMPLE_SIZE)
		length = PERF_MAX_SAMPLE_SIZE;
	complete_image(image, account, length, wait);
	long error = bpf_perf_event_output(ctx, &samples, BPF_F_CURRENT_CPU, image,
					   sizeof(image->facts) + length);

	if (shown)
		hide_other(shown);
	return !error;
}

/* emit_image sends the record of an entry, and counts it. */
static __always_inline void emit_image(void *ctx, struct account *account, const struct wait *wait,
				       struct image *image)
{
	__u64 length = image->facts.length;
	bool sent;

	if (length > image_room)
		length = image_room;
	if (ring_size && !(interruptible && is_filling(account->cpu)))
		sent = send_image_by_ring(account, image, length, wait);
	else
		sent = send_image_by_perf(ctx, account, image, length, wait);
	count_record(account, sent);
}

/* tell_end adds to an entry's record what is else in that of the exit, if that is not recorded. */
static __always_inline void tell_end(struct xdp_buff *xdp, struct image *image, __u32 returned,
				     __u32 run_time)
{
	image->facts.verdict = returned;
	image->facts.to = find_outlet(xdp, returned);
	image->facts.run_time = run_time;
	image->facts.reason = given_reason(returned);
}

/* is_given_reason_wanted is is_reason_wanted for what the traced program says. */
static __always_inline bool is_given_reason_wanted(__u32 returned)
{
	return !reading_reasons || !reason_count ||
	       (is_dropped(returned) && is_reason_wanted(given_reason(returned)));
}

/* decide_pair decides about both images of a packet, by one account. */
static __always_inline enum decision decide_pair(struct xdp_buff *xdp, const struct wait *wait,
						 struct account *account, __u32 returned,
						 __u32 run_time)
{
	if (wait->decision != KEEP || !is_slow_enough(run_time) || !is_wanted(returned) ||
	    !is_given_reason_wanted(returned))
		return FILTERED_OUT;
	return decide(xdp, XDP_BUFF, account, returned);
}

/* release_image sends or discards the record of an entry. */
static __always_inline void release_image(void *ctx, struct xdp_buff *xdp,
					  const struct account *account, const struct wait *wait,
					  int level, enum decision decision, __u32 returned,
					  __u32 run_time)
{
	__u32 index = entry_source();
	struct account *of_entry = bpf_map_lookup_elem(&accounts, &index);

	if (!of_entry)
		return;
	if (!one_in)
		of_entry->weight = account->weight;
	if (!is_to_be_sent(of_entry, decision))
		return;
	struct image *image = find_image(of_entry->cpu, level);

	if (!image) {
		of_entry->lost++;
		return;
	}
	if (!recording_exit)
		tell_end(xdp, image, returned, run_time);
	emit_image(ctx, of_entry, wait, image);
}

/* release_entry ends a wait. `account` is that of entries if exits are not recorded. */
static __always_inline void release_entry(void *ctx, struct xdp_buff *xdp, struct account *account,
					  int level, __u32 returned)
{
	struct wait *wait = wait_at(find_waits(), level);

	if (!wait)
		return;
	__u32 run_time = run_time_since(&wait->entered);
	enum decision decision = decide_pair(xdp, wait, account, returned, run_time);

	if (recording_entry)
		release_image(ctx, xdp, account, wait, level, decision, returned, run_time);
	if (!recording_exit)
		return;
	account->seen++;
	if (is_to_be_sent(account, decision))
		emit_traced(xdp, account, wait->number, returned, run_time);
}

/*
 * xdpcap_release is xdpcap_fexit behind xdpcap_hold. An exit without an entry belongs to no
 * capture.
 */
SEC("fexit/xdp")
int BPF_PROG(xdpcap_release, struct xdp_buff *xdp, int returned)
{
	struct account *account;
	__u64 packet = 0;

	if (accompanied)
		run_first(ctx);
	account = find_account();
	bpf_get_func_arg(ctx, 0, &packet);
	int level = find_level(packet, (__u64)arrival << 32 | hook);

	if (!account || level < 0)
		return 0;
	release_entry(ctx, xdp, account, level, returned);
	leave_level(level);
	if (accompanied)
		run_last(ctx);
	return 0;
}

/* The kernel throws the packet away after it has returned this error. */
static __always_inline int sample_failed(void *ctx, struct xdp_buff *xdp, int error)
{
	struct account *account;

	if (!error || !is_from_traced(xdp))
		return 0;
	account = find_account();
	if (!account)
		return 0;
	account->seen++;
	if (!is_to_be_sent(account, decide(xdp, XDP_BUFF, account, XDP_REDIRECT)))
		return 0;
	struct facts facts = {
		.wire_len = length_of(xdp),
		.verdict = XDP_REDIRECT,
		.id = make_id(account->cpu, account->seen),
		.queue = xdp->rxq->queue_index,
		.location = bpf_get_func_ip(ctx),
		.reason = -error,
	};

	emit(xdp, XDP_BUFF, account, &facts);
	return 0;
}

SEC("fexit/xdp_do_redirect")
int BPF_PROG(xdpcap_redirect, void *dev, struct xdp_buff *xdp, void *prog, int error)
{
	return sample_failed(ctx, xdp, error);
}

SEC("fexit/xdp_do_generic_redirect")
int BPF_PROG(xdpcap_generic, void *dev, void *skb, struct xdp_buff *xdp, void *prog, int error)
{
	return sample_failed(ctx, xdp, error);
}

/*
 * How many more packets than one the kernel has joined (GRO), or left to be split (GSO), in what tc
 * sees. gso_segs is 0 if a virtual machine is the sender; the result then has those of the headers'
 * length, too.
 */
static __always_inline __u32 joined_in(const struct __sk_buff *skb)
{
	__u32 size = skb->gso_size;

	if (!size)
		return 0;
	return skb->gso_segs ? skb->gso_segs - 1 : skb->len / size;
}

/*
 * What tc sees. The queue of a packet is not known at egress, because it is chosen later. At
 * ingress the kernel has the queue plus 1, or 0 if the driver does not say it.
 */
static __always_inline void sample_skb(struct __sk_buff *skb, struct account *account,
				       bool received)
{
	account->seen++;
	account->joined += joined_in(skb);
	if (!is_to_be_sent(account, decide(skb, SKB, account, NO_VERDICT)))
		return;
	struct facts facts = {
		.wire_len = skb->len,
		.verdict = NO_VERDICT,
		.id = make_id(account->cpu, account->seen),
		.gso_size = skb->gso_size,
	};

	if (received) {
		__u32 recorded = skb->queue_mapping;

		facts.queue = recorded ? recorded - 1 : 0;
		if (asking_hash) {
			facts.hash = skb->hash;
			facts.hash_kind = facts.hash != 0;
		}
	}
	if (skb->vlan_present) {
		facts.tag_protocol = skb->vlan_proto;
		facts.tag = skb->vlan_tci;
	}
	emit(skb, SKB, account, &facts);
}

static __always_inline int sample_at_tc(struct __sk_buff *skb, bool received)
{
	struct account *account = find_account();

	if (account) {
		if (accompanied)
			run_first(skb);
		sample_skb(skb, account, received);
	}
	return TC_ACT_UNSPEC;
}

/*
 * xdpcap_egress runs before a packet goes to a queue of the interface. Later steps, ours or
 * others', decide what happens to the packet.
 */
SEC("tc")
int xdpcap_egress(struct __sk_buff *skb)
{
	return sample_at_tc(skb, false);
}

/*
 * xdpcap_ingress runs after the driver, generic XDP and GRO, and before what else is at tc: the
 * stack, bridges and OVS get the packet later.
 */
SEC("tc")
int xdpcap_ingress(struct __sk_buff *skb)
{
	return sample_at_tc(skb, true);
}

/* A program that looks for headers reads no more than this. */
#define HEADERS_BYTES (MAX_OFFSET + 64)

/* copy_needed_head copies the beginning of a packet as far as something here reads it. */
static __always_inline void copy_needed_head(struct lost *p)
{
	if ((choosing_flows || cutting_payload || following_fragments) &&
	    (!filtering || reach < HEADERS_BYTES))
		copy_lost_head(p, HEADERS_BYTES);
	else if (filtering)
		copy_lost_head(p, reach);
}

/* The namespace is that of `net` where nothing better is known. */
static __always_inline int sample_lost(struct sk_buff *skb, __u64 location, __u32 reason,
				       const struct net *net)
{
	struct account *account = find_account();
	struct lost lost = { .skb = skb, .scratch = find_scratch() };
	struct place at = {};

	/* Drivers that are being set up test their own code with an empty packet. */
	if (!account || !lost.scratch || !skb->len)
		return 0;
	lost.frame = &lost.scratch->frame;
	const struct net_device *dev = find_place(skb, net, &at);

	if (!is_ours(skb, &at, dev) || is_no_loss(location, reason, kind_of(skb, dev)))
		return 0;
	if (!traced_ifindex && !at.netns)
		return 0; /* it may be of another namespace */
	account->seen++;
	if (!is_reason_wanted(reason)) {
		account->filtered_out++;
		return 0;
	}
	find_frame(&lost, is_ethernet(dev));
	copy_needed_head(&lost);
	if (!is_to_be_sent(account, decide(&lost, LOST, account, NO_VERDICT)))
		return 0;
	struct facts *facts = &lost.scratch->facts;

	*facts = (struct facts){
		.wire_len = whole_length(&lost),
		.verdict = NO_VERDICT,
		.id = make_id(account->cpu, account->seen),
		.gso_size = gso_size_of(skb),
		.location = location,
		.reason = reason,
	};
	if (!traced_ifindex)
		facts->to = at.ifindex ? at.ifindex : skb->skb_iif;
	if (lost.is_tagged) {
		facts->tag_protocol = skb->vlan_proto;
		facts->tag = skb->vlan_tci;
	}
	emit(&lost, LOST, account, facts);
	return 0;
}

/*
 * begin_at_tc makes a packet of a traced program at tc ready: its scratch, and a copy of its
 * beginning if something here reads that.
 */
static __always_inline bool begin_at_tc(struct lost *p)
{
	p->scratch = find_scratch();
	if (!p->scratch)
		return false;
	p->frame = &p->scratch->frame;
	find_frame_at_tc(p);
	copy_needed_head(p);
	return true;
}

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sk_buff___queued {
	__u16 queue_mapping;
};
#pragma clang attribute pop

/* Whether the program is at egress, where the queue is not known yet. */
volatile const bool sending = false;

static __always_inline void emit_at_tc(struct lost *p, struct account *account, __u64 number,
				       __u32 returned, __u32 kind, __u32 run_time)
{
	const struct sk_buff *skb = p->skb;
	struct facts *facts = &p->scratch->facts;
	const struct sk_buff___queued *queued = (const void *)skb;
	__u32 recorded = sending ? 0 : BPF_CORE_READ(queued, queue_mapping);

	*facts = (struct facts){
		.wire_len = whole_length(p),
		.verdict = returned,
		.id = make_id(account->cpu, number),
		.queue = recorded ? recorded - 1 : 0,
		.gso_size = gso_size_of(skb) | kind << KIND_SHIFT,
		.run_time = run_time,
	};
	if (p->is_tagged) {
		facts->tag_protocol = skb->vlan_proto;
		facts->tag = skb->vlan_tci;
	}
	emit(p, LOST, account, facts);
}

static __always_inline struct passage *passage_at_tc(const struct sk_buff *skb)
{
	__u32 index = hook;

	if (!is_traced(skb->dev))
		return NULL;
	return bpf_map_lookup_elem(&passages, &index);
}

/* xdpcap_tc_entry and xdpcap_tc_exit trace a program of tc, or a function of one. */
SEC("fentry/tc")
int BPF_PROG(xdpcap_tc_entry, struct sk_buff *skb)
{
	struct lost p = { .skb = skb };
	struct passage *passage = passage_at_tc(skb);
	struct account *account = find_account();

	if (!passage || !account || !takes_in(passage) || !begin_at_tc(&p))
		return 0;
	if (decide_at_entry(&p, LOST, passage, account))
		emit_at_tc(&p, account, passage->packets, NO_VERDICT, 0, 0);
	note_entered(passage);
	return 0;
}

SEC("fexit/tc")
int BPF_PROG(xdpcap_tc_exit, struct sk_buff *skb)
{
	struct lost p = { .skb = skb };
	struct passage *passage = passage_at_tc(skb);
	struct account *account = find_account();
	__u64 returned = 0;

	if (!passage || !account || passage->decision == UNDECIDED)
		return 0;
	__u32 run_time = end_run(passage);

	if (!begin_at_tc(&p))
		return 0;
	bpf_get_func_ret(ctx, &returned);
	if (is_to_be_sent(account, decide_at_exit(&p, LOST, passage, account, returned, run_time)))
		emit_at_tc(&p, account, passage->packets, returned, returning, run_time);
	return 0;
}

/* capture loads the one of these two whose arguments the running kernel's tracepoint has. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(xdpcap_lost, struct sk_buff *skb, void *location, __u32 reason)
{
	return sample_lost(skb, (__u64)location, reason, NULL);
}

/*
 * Since Linux 6.11. rx_sk is NULL for most packets, but some kernels let a program read it without
 * a check, and then crash.
 */
SEC("tp_btf/kfree_skb")
int BPF_PROG(xdpcap_lost_rx, struct sk_buff *skb, void *location, __u32 reason,
	     const struct sock *rx_sk)
{
	return sample_lost(skb, (__u64)location, reason,
			   rx_sk ? BPF_CORE_READ(rx_sk, __sk_common.skc_net.net) : NULL);
}

/*
 * xdpcap_end_poll runs on each CPU after a NAPI poll of any interface: see poll_time. A poll may
 * have interrupted a record (see is_filling), which may have the current stamp.
 */
SEC("tp_btf/napi_poll")
int xdpcap_end_poll(void *ctx)
{
	struct ring *ring = find_ring(bpf_get_smp_processor_id());
	volatile struct ring *shared = ring;

	if (ring && shared->poll && !shared->filling)
		shared->poll = 0;
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
