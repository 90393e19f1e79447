// Package culprit finds the part of the system that has lost packets: the rule of a firewall, the
// socket, the queue, the route. It compares the kernel's counters in the calling thread's network
// namespace with their values at Open, and changes nothing.
package culprit

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// A Loss counts the packets that were lost for one cause.
type Loss struct {
	Reason   string // the kernel's name without its prefix: "NETFILTER_DROP"
	Function string // of the kernel, or its address; for XDP the program or map: "map 7"
	Device   string // "" = unknown
	Program  string // the XDP program that lost them: "firewall (id 42)"; "" = unknown
	Egress   bool   // lost on the way out
	Packets  uint64 // since Open
	All      uint64 // packets that were lost for the reason in the function and direction, at any device
	NFTApart bool   // some loss is in NFTFunction: this kernel drops packets for nf_tables only there
	Example  Flow   // one of the packets; only if WantsExample
}

// Evidence names one culprit, and the counter that shows its losses.
type Evidence struct {
	// Text names the culprit for people: "nft inet filter input, handle 4: udp dport 7000 drop",
	// "dnsmasq[1656] :53, receive buffer 212 KiB".
	Text string `json:"text"`

	// Counter names a counter of the kernel, and Packets is its rise since Open, at all interfaces
	// of the network namespace unless IsOwn. If Counter is empty, Packets is the number of packets
	// that the counters of other culprits do not explain, 0 = unknown.
	Counter string `json:"counter,omitempty"`
	Packets uint64 `json:"packets,omitempty"`
	IsOwn   bool   `json:"-"` // the counter is that of the loss's interface alone

	Rule    string `json:"rule,omitempty"`    // of a firewall, a policy or a route, without its position
	Process string `json:"process,omitempty"` // "dnsmasq[1656]"
	Cgroup  string `json:"cgroup,omitempty"`  // of the process: "/system.slice/dnsmasq.service"
}

// A Finder has the counters of possible culprits as they were at Open. Its methods may be called
// concurrently.
type Finder struct {
	owners map[uint32]machine.Process // of the sockets that existed at Open, by their inodes
	maps   map[string]string          // descriptions of BPF maps that existed at Open, by "map 7"

	mu       sync.Mutex // guards the fields below: one reader at a time
	firewall *firewall
	sockets  map[uint64]uint64 // drops of UDP sockets by cookie, at Open
	queues   map[queueID]uint64
	policies *policies
	found    map[causeKey]*result
	began    time.Time
	spent    time.Duration // in Find
}

// A causeKey has the parts of a Loss on which its culprits depend. Losses with the same key have
// the same culprits: the Example of one stands for the packets of all.
type causeKey struct {
	reason, function, device string // device is empty if the culprits do not depend on it
	egress                   bool
}

// A result of Find is valid until the losses with its key have more packets.
type result struct {
	evidence []Evidence
	packets  uint64
}

// mayRead reports whether Find may read the kernel's counters again, which takes long with very
// many rules. It may spend one second, and 5 % of the time since Open.
func (f *Finder) mayRead() bool { return f.spent < time.Second+time.Since(f.began)/20 }

// Open reads the counters. If some cannot be read, Find returns the reason as evidence.
func Open() *Finder {
	f := &Finder{maps: namesOfMaps(), policies: openPolicies(), found: make(map[causeKey]*result), began: time.Now()}
	f.sockets, f.queues = make(map[uint64]uint64), make(map[queueID]uint64)
	var inodes []uint32
	for _, s := range Sockets(unix.IPPROTO_TCP, Listening) {
		inodes = append(inodes, s.Inode)
	}
	for _, s := range Sockets(unix.IPPROTO_UDP, AnyState) {
		f.sockets[s.Cookie] = s.Drops
		inodes = append(inodes, s.Inode)
	}
	f.owners = machine.SocketOwners(inodes)
	for _, q := range queues() {
		f.queues[q.id] = q.drops
	}
	f.firewall = openFirewall()
	return f
}

// Owner returns the process of a socket that existed at Open: the zero value if it is unknown.
func (f *Finder) Owner(inode uint32) machine.Process { return f.owners[inode] }

// Capabilities returns the capabilities that Find needs, by number (capabilities(7)): without
// CAP_NET_ADMIN the kernel does not show the rules of firewalls and the policies of IPsec.
func (f *Finder) Capabilities() []int {
	if f.firewall.isReadable() || f.policies.isReadable() {
		return []int{unix.CAP_NET_ADMIN}
	}
	return nil
}

// Close closes the netlink and raw sockets that read the rules of firewalls and IPsec's policies.
func (f *Finder) Close() {
	f.firewall.close()
	f.policies.close()
}

// A need is the parts of a Loss that a finder uses. Each need includes those before it.
type need int

const (
	needsFunction need = iota // the reason, the function of the kernel, and the direction
	needsDevice
	needsExample // of the packets
)

// finders find culprits, each for the losses that match one of the patterns for REASON@function
// (path.Match). On a kernel that hides functions, an address takes the function's place. At XDP
// the map of a redirect takes its place, "map 7"; an aborted, unknown or failed tx verdict has no
// function.
var finders = []struct {
	causes []string
	find   func(*Finder, Loss, lost.Counters) []Evidence
	needs  need
}{
	{strings.Fields("NETFILTER_*@*"), (*Finder).findRules, needsFunction},
	{strings.Fields("SOCKET_RCVBUFF@* SOCKET_FILTER@*udp* PROTO_MEM@*udp*"), (*Finder).findSockets, needsFunction},
	{strings.Fields("QDISC_*@* FQ_*@* CAKE_*@* DUALPI2_*@* CODEL_*@* RED_*@*"), (*Finder).findQueues, needsDevice},
	{strings.Fields("IP_INNOROUTES@* IP_OUTNOROUTES@* NOT_SPECIFIED@ip_error NOT_SPECIFIED@ip6_pkt_drop NOT_SPECIFIED@dst_discard*"), (*Finder).findRoute, needsExample},
	{strings.Fields("NO_SOCKET@tcp* NO_SOCKET@*udp*"), (*Finder).findPort, needsExample},
	{strings.Fields("*@br_dev_queue_push_xmit *@br_nf_dev_queue_xmit"), (*Finder).findPortMTU, needsDevice},
	{strings.Fields("PKT_TOO_BIG@*"), (*Finder).findMTU, needsExample},
	{strings.Fields("IP_RPFILTER@*"), (*Finder).findWayBack, needsExample},
	{strings.Fields("NEIGH_*@* NOT_SPECIFIED@neigh_invalidate"), (*Finder).findNeighbour, needsExample},
	{strings.Fields("XFRM_POLICY@* NOT_SPECIFIED@__udp?_lib_rcv NOT_SPECIFIED@ip*_forward"), (*Finder).findPolicy, needsExample},
	{strings.Fields("*@map* aborted@ unknown@ tx:*@"), (*Finder).findProgram, needsDevice},
}

func explains(causes []string, reason, function string) bool {
	return slices.ContainsFunc(causes, func(pattern string) bool {
		ok, _ := path.Match(pattern, reason+"@"+function)
		return ok
	})
}

// WantsExample reports whether Find needs an example of the packets with a cause.
func WantsExample(reason, function string) bool {
	for _, f := range finders {
		if f.needs == needsExample && explains(f.causes, reason, function) {
			return true
		}
	}
	return false
}

// Find returns the culprits of a loss in this network namespace, the one with most packets first;
// nil = unknown. It returns the earlier result if the loss has no more packets than then, or if
// mayRead is false. rose has the rises of the counters of conntrack and IPsec since Open.
func (f *Finder) Find(l Loss, rose lost.Counters) []Evidence {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, finder := range finders {
		if !explains(finder.causes, l.Reason, l.Function) || finder.needs == needsExample && !l.Example.isValid() {
			continue
		}
		// packets counts the losses with the key: those at all devices, or at the one in the key.
		key, packets := causeKey{reason: l.Reason, function: l.Function, egress: l.Egress}, l.All
		if finder.needs >= needsDevice {
			key.device, packets = l.Device, l.Packets
		}
		known := f.found[key]
		if known == nil || packets != known.packets && f.mayRead() {
			begin := time.Now()
			evidence := finder.find(f, l, rose)
			slices.SortStableFunc(evidence, func(a, b Evidence) int { return cmp.Compare(b.Packets, a.Packets) })
			known = &result{evidence, packets}
			f.found[key], f.spent = known, f.spent+time.Since(begin)
		}
		return slices.Clone(known.evidence)
	}
	return nil
}
