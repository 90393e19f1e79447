package drops

// Conntrack is what the table of connections of this network namespace has dropped since Open. It
// is in no sum, because these packets are counted elsewhere: they are lost for the reason
// NETFILTER_DROP. It is zero if the kernel lacks CONFIG_NF_CONNTRACK_PROCFS.
type Conntrack struct {
	Drop         uint64 `json:"drop"`          // packets
	InsertFailed uint64 `json:"insert_failed"` // those of them whose connection clashed with another one: NAT has no free port
}

func (r *reading) addConntrack(rose Counters) {
	r.Conntrack = Conntrack{Drop: rose["conntrack drop"], InsertFailed: rose["conntrack insert_failed"]}
}
