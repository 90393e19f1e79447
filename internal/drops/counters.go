package drops

// Softnet has counters, since Open, of each CPU's queue (backlog) of received packets, for all
// interfaces of the machine. They are not added to the losses, because a packet that finds the
// queue full is lost for the reason CPU_BACKLOG.
type Softnet struct {
	Full     uint64 `json:"backlog_full"` // packets that found the queue of a CPU full
	Squeezed uint64 `json:"time_squeeze"` // times that a CPU left packets for later, because its time or budget was over
}

// Conntrack has counters, since Open, of the table of connections of this network namespace. They
// are not added to the losses, because these packets are lost for the reason NETFILTER_DROP. It is
// zero if the kernel lacks CONFIG_NF_CONNTRACK_PROCFS.
type Conntrack struct {
	Drop         uint64 `json:"drop"`          // packets
	InsertFailed uint64 `json:"insert_failed"` // of these, packets whose connection clashed with another one: NAT has no free port
}
