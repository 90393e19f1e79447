// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Counts what the kernel's xdp:* tracepoints report, with one program for each. Owner: Tracepoints
 * in the Go package internal/meter. It loads a program only if the running kernel has the
 * tracepoint, with the arguments that the program reads.
 *
 * The map `counts` has one entry for each case of an event that occurred: struct key identifies
 * the case.
 */
#include "include/build.h"
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "include/traced.h"
#include "include/verdict.h"

#define NAME_SIZE    16 /* IFNAMSIZ */
#define MESSAGE_SIZE 104

enum event {
	REDIRECT,
	REDIRECT_ERR,
	EXCEPTION,
	DEVMAP_XMIT,
	BULK_TX,
	CPUMAP_ENQUEUE,
	CPUMAP_KTHREAD,
	MEM_CONNECT,
	MEM_DISCONNECT,
	MEM_RETURN_FAILED,
	ATTACH_FAILED,
	EVENTS,
};

/* Fields that an event does not have are zero. */
struct key {
	__u32 event;
	__u32 code;	/* errno, slot of the verdict, or enum xdp_mem_type */
	__u32 map_id;	/* of the cpumap, or of the map that a redirect went through */
	__u16 map_type; /* enum bpf_map_type of the map that a redirect failed at */
	__u16 to_cpu;
	char from[NAME_SIZE]; /* the device that received, connected or, in a bulk, sent */
	char to[NAME_SIZE];   /* the device that a devmap sends to */
	__u32 netns;	      /* inode of from's network namespace, if told_netns; else 0 */
	__u32 unused;
};

/* How often an event occurred, and its packets, since the program was loaded. */
struct count {
	__u64 events;
	__u64 packets;
	__u64 drops;
	__u64 generic;			   /* exceptions: drops that skb:kfree_skb reports, too */
	__u64 foreign;			   /* the same of packets that another device redirected */
	__u64 sched;			   /* cpumap: runs that began with a wait for packets */
	__u64 passed, dropped, redirected; /* cpumap: verdicts of the program in the map's entry */
};

/* One event, sent to user space as it occurs if record_events is set. */
struct record {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u32 cpu;
	__u32 program; /* id; 0 if the tracepoint does not name it */
	struct key key;
	struct count count;
	__u32 index;  /* redirects: the interface or the map's entry; exceptions: the verdict */
	__u32 memory; /* memory models: their id */
	char message[MESSAGE_SIZE];
};
_Static_assert(sizeof(struct key) % 8 == 0 && sizeof(struct record) % 8 == 0,
	       "no implicit padding");
struct record *const record_type; /* keeps the type in BTF, for bpf2go */
enum event *const event_type;

/*
 * No atomics: each CPU has its own counts, tracepoints run with preemption off, and no program
 * here interrupts another one that counts for the same key.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 4096); /* Tracepoints removes old cases */
	__type(key, struct key);
	__type(value, struct count);
} counts SEC(".maps");

/* How often each message of bpf_xdp_link_attach_failed came. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 128);
	__type(key, char[MESSAGE_SIZE]);
	__type(value, struct count);
} messages SEC(".maps");

/* Events that found `counts` or `messages` full, and records that found the ring full. */
struct loss {
	__u64 counts;
	__u64 records;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct loss);
} losses SEC(".maps");

/*
 * The maps of the requested programs. The events of a cpumap name the map and no program: those of
 * other maps are skipped.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} program_maps SEC(".maps");

/*
 * The memory models that were connected to the requested interface. Their later events name the
 * model and no interface.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u32);
} interface_memory SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} records SEC(".maps");

volatile __u32 only_program = 0; /* id, which changes with the program; 0 = all programs */
volatile const bool record_events = false;
volatile const bool told_netns = false;	     /* keys have the network namespace */
volatile const bool kthread_verdicts = true; /* xdp_cpumap_kthread has verdicts, since 5.9 */

/*
 * The fields of the kernel's types that are read, in addition to those in traced.h. The loader
 * finds their offsets by name, and ignores everything after three underscores.
 */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct net_device___named {
	char name[NAME_SIZE];
};
struct bpf_prog_aux {
	__u32 id;
};
struct bpf_prog {
	struct bpf_prog_aux *aux;
};
struct bpf_xdp_link {
	struct {
		struct bpf_prog *prog;
	} link;
};
struct net_device___programs {
	unsigned int flags;
	struct bpf_prog *xdp_prog; /* in generic mode */
	struct {
		struct bpf_prog *prog; /* without a link */
		struct bpf_xdp_link *link;
	} xdp_state[2]; /* by enum bpf_xdp_mode */
};
struct xdp_mem_info {
	__u32 type;
	__u32 id;
};
struct xdp_mem_allocator {
	struct xdp_mem_info mem;
};
struct xdp_cpumap_stats {
	unsigned int redirect;
	unsigned int pass;
	unsigned int drop;
};
struct nsproxy {
	struct net *net_ns;
};
struct task_struct {
	struct nsproxy *nsproxy;
};
#pragma clang attribute pop

static __always_inline bool is_program(const struct bpf_prog *prog)
{
	return !only_program || prog->aux->id == only_program;
}

static __always_inline bool is_map(__u32 id)
{
	return !(only_program || traced_ifindex) || bpf_map_lookup_elem(&program_maps, &id);
}

static __always_inline void copy_name(char *to, const struct net_device *dev)
{
	bpf_probe_read_kernel(to, NAME_SIZE, ((const struct net_device___named *)dev)->name);
}

static __always_inline void name_from(struct key *key, const struct net_device *dev)
{
	copy_name(key->from, dev);
	if (told_netns)
		key->netns = BPF_CORE_READ(dev, nd_net.net, ns.inum);
}

static __always_inline struct loss *loss_here(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&losses, &zero);
}

static __always_inline void add_to(void *map, const void *key, const struct count *more)
{
	struct count *sum = bpf_map_lookup_elem(map, key);

	if (!sum) {
		/* BPF_NOEXIST keeps the counts if another CPU has inserted the key since the
		 * look-up. */
		static const struct count none;

		bpf_map_update_elem(map, key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(map, key);
	}
	if (!sum) {
		struct loss *m = loss_here();

		if (m)
			m->counts++;
		return;
	}
	sum->events++;
	sum->packets += more->packets;
	sum->drops += more->drops;
	sum->generic += more->generic;
	sum->foreign += more->foreign;
	sum->sched += more->sched;
	sum->passed += more->passed;
	sum->dropped += more->dropped;
	sum->redirected += more->redirected;
}

struct detail {
	__u32 program;
	__u32 index;
	__u32 memory;
	const char *message;
};

static __always_inline void send(const struct key *key, const struct count *count,
				 const struct detail *d)
{
	struct record *r;

	if (!record_events)
		return;
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		struct loss *m = loss_here();

		if (m)
			m->records++;
		return;
	}
	r->time_ns = bpf_ktime_get_ns();
	r->cpu = bpf_get_smp_processor_id();
	r->program = d->program;
	r->key = *key;
	r->count = *count;
	r->index = d->index;
	r->memory = d->memory;
	if (d->message)
		__builtin_memcpy(r->message, d->message, MESSAGE_SIZE);
	else
		r->message[0] = 0;
	bpf_ringbuf_submit(r, 0);
}

static __always_inline void note(const struct key *key, const struct count *count,
				 const struct detail *d)
{
	add_to(&counts, key, count);
	send(key, count, d);
}

static __always_inline int redirect(__u32 event, const struct net_device *dev,
				    const struct bpf_prog *prog, int err, int map_type,
				    __u32 map_id, __u32 index)
{
	if (!is_traced(dev) || !is_program(prog))
		return 0;
	struct key key = { .event = event, .code = -err };
	struct count count = { .events = 1, .packets = !err, .drops = !!err };
	struct detail d = { .program = prog->aux->id, .index = index };

	/* The kernel passes INT_MAX if there is no map. */
	key.map_id = map_id == 0x7fffffff ? 0 : map_id;
	key.map_type = err ? map_type : 0;
	name_from(&key, dev);
	note(&key, &count, &d);
	return 0;
}

SEC("tp_btf/xdp_redirect")
int BPF_PROG(xdpcap_redirect, const struct net_device *dev, const struct bpf_prog *prog,
	     const void *target, int err, int map_type, __u32 map_id, __u32 index)
{
	return redirect(REDIRECT, dev, prog, err, map_type, map_id, index);
}

SEC("tp_btf/xdp_redirect_err")
int BPF_PROG(xdpcap_redirerr, const struct net_device *dev, const struct bpf_prog *prog,
	     const void *target, int err, int map_type, __u32 map_id, __u32 index)
{
	return redirect(REDIRECT_ERR, dev, prog, err, map_type, map_id, index);
}

/* Kernels that also have the next two tracepoints report each redirect through one of the four. */
SEC("tp_btf/xdp_redirect_map")
int BPF_PROG(xdpcap_redirmap, const struct net_device *dev, const struct bpf_prog *prog,
	     const void *target, int err, int map_type, __u32 map_id, __u32 index)
{
	return redirect(REDIRECT, dev, prog, err, map_type, map_id, index);
}

SEC("tp_btf/xdp_redirect_map_err")
int BPF_PROG(xdpcap_maperr, const struct net_device *dev, const struct bpf_prog *prog,
	     const void *target, int err, int map_type, __u32 map_id, __u32 index)
{
	return redirect(REDIRECT_ERR, dev, prog, err, map_type, map_id, index);
}

/*
 * is_generic tells whether the packet was lost in generic mode. There the kernel also frees its
 * buffer by kfree_skb, so that skb:kfree_skb reports the same loss. This is never true of a program
 * that is native at a tun device, which runs it in both ways.
 */
static __always_inline bool is_generic(const struct net_device *dev, const struct bpf_prog *prog)
{
	return prog == ((const struct net_device___programs *)dev)->xdp_prog;
}

#define XDP_MODE_DRV 1	   /* enum bpf_xdp_mode */
#define IFF_SLAVE    0x800 /* <linux/if.h> */

/*
 * is_foreign tells whether a failed tx is of a packet that another device's program in generic mode
 * has redirected here: neither the device nor its driver runs the program. A slave's driver may run
 * that of its bond, which the slave's own state does not name. So this is never true of a slave,
 * and what is redirected to one counts twice.
 */
static __always_inline bool is_foreign(const struct net_device *dev, const struct bpf_prog *prog)
{
	const struct net_device___programs *d = (void *)dev;
	const struct bpf_xdp_link *link = d->xdp_state[XDP_MODE_DRV].link;

	if (d->flags & IFF_SLAVE || is_generic(dev, prog))
		return false;
	return prog != (link ? link->link.prog : d->xdp_state[XDP_MODE_DRV].prog);
}

SEC("tp_btf/xdp_exception")
int BPF_PROG(xdpcap_except, const struct net_device *dev, const struct bpf_prog *prog, __u32 act)
{
	if (!is_traced(dev) || !is_program(prog))
		return 0;
	struct key key = { .event = EXCEPTION, .code = slot_of(act) };
	struct count count = {
		.events = 1,
		.drops = 1,
		.generic = is_generic(dev, prog),
		.foreign = act == XDP_TX && is_foreign(dev, prog),
	};
	struct detail d = { .program = prog->aux->id, .index = act };

	name_from(&key, dev);
	note(&key, &count, &d);
	return 0;
}

SEC("tp_btf/xdp_devmap_xmit")
int BPF_PROG(xdpcap_devmap, const struct net_device *from, const struct net_device *to, int sent,
	     int drops, int err)
{
	if (!is_traced(from) && !is_traced(to))
		return 0;
	struct key key = { .event = DEVMAP_XMIT, .code = -err };
	struct count count = { .events = 1, .packets = sent, .drops = drops };
	struct detail d = {};

	name_from(&key, from);
	copy_name(key.to, to);
	note(&key, &count, &d);
	return 0;
}

SEC("tp_btf/xdp_bulk_tx")
int BPF_PROG(xdpcap_bulk_tx, const struct net_device *dev, int sent, int drops, int err)
{
	if (!is_traced(dev))
		return 0;
	struct key key = { .event = BULK_TX, .code = -err };
	struct count count = { .events = 1, .packets = sent, .drops = drops };
	struct detail d = {};

	name_from(&key, dev);
	note(&key, &count, &d);
	return 0;
}

SEC("tp_btf/xdp_cpumap_enqueue")
int BPF_PROG(xdpcap_enqueue, int map_id, unsigned int processed, unsigned int drops, int to_cpu)
{
	if (!is_map(map_id))
		return 0;
	struct key key = { .event = CPUMAP_ENQUEUE, .map_id = map_id, .to_cpu = to_cpu };
	/*
	 * In native mode the kernel counts packets that it had to drop as processed, too, and in
	 * generic mode it does not.
	 */
	struct count count = { .events = 1,
			       .packets = processed > drops ? processed - drops : 0,
			       .drops = drops };
	struct detail d = {};

	note(&key, &count, &d);
	return 0;
}

SEC("tp_btf/xdp_cpumap_kthread")
int BPF_PROG(xdpcap_kthread, int map_id, unsigned int processed, unsigned int drops, int sched,
	     const struct xdp_cpumap_stats *verdicts)
{
	if (!is_map(map_id))
		return 0;
	struct key key = { .event = CPUMAP_KTHREAD, .map_id = map_id };
	struct count count = {
		.events = 1, .packets = processed, .drops = drops, .sched = !!sched
	};
	struct detail d = {};

	/* Older kernels lack this argument: for them the verifier removes this as dead code. */
	if (kthread_verdicts) {
		count.passed = verdicts->pass;
		count.dropped = verdicts->drop;
		count.redirected = verdicts->redirect;
	}
	note(&key, &count, &d);
	return 0;
}

static __always_inline void note_memory(__u32 event, const struct xdp_mem_info *mem,
					const struct net_device *dev)
{
	struct key key = { .event = event, .code = mem->type };
	struct count count = { .events = 1 };
	struct detail d = { .memory = mem->id };

	if (dev)
		name_from(&key, dev);
	note(&key, &count, &d);
}

SEC("tp_btf/mem_connect")
int BPF_PROG(xdpcap_connect, const struct xdp_mem_allocator *allocator,
	     const struct xdp_rxq_info *queue)
{
	__u32 id = allocator->mem.id;

	if (!is_traced(queue->dev))
		return 0;
	if (traced_ifindex)
		bpf_map_update_elem(&interface_memory, &id, &id, BPF_ANY);
	note_memory(MEM_CONNECT, &allocator->mem, queue->dev);
	return 0;
}

SEC("tp_btf/mem_disconnect")
int BPF_PROG(xdpcap_disconn, const struct xdp_mem_allocator *allocator)
{
	__u32 id = allocator->mem.id;

	if (traced_ifindex && bpf_map_delete_elem(&interface_memory, &id))
		return 0;
	note_memory(MEM_DISCONNECT, &allocator->mem, NULL);
	return 0;
}

SEC("tp_btf/mem_return_failed")
int BPF_PROG(xdpcap_memfail, const struct xdp_mem_info *mem)
{
	__u32 id = mem->id;

	if (traced_ifindex && !bpf_map_lookup_elem(&interface_memory, &id))
		return 0;
	note_memory(MEM_RETURN_FAILED, mem, NULL);
	return 0;
}

SEC("tp_btf/bpf_xdp_link_attach_failed")
int BPF_PROG(xdpcap_attach, const char *message)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct key key = { .event = ATTACH_FAILED };
	struct count count = { .events = 1 };
	char text[MESSAGE_SIZE] = {};
	struct detail d = { .message = text };

	/*
	 * The tracepoint names no interface, but a task can only attach to interfaces of its own
	 * namespace.
	 */
	if (traced_netns && task->nsproxy->net_ns->ns.inum != traced_netns)
		return 0;
	bpf_probe_read_kernel_str(text, sizeof(text), message);
	add_to(&messages, text, &count);
	send(&key, &count, &d);
	return 0;
}

char _license[] SEC("license") = "Dual BSD/GPL";
