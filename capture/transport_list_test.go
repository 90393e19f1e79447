package capture

import "github.com/cilium/ebpf"

// A listTransport is the smallest transport: each call of rings returns other rings.
type listTransport struct {
	calls  []listCall
	number uint32 // of each CPU's ring
}

type listCall struct {
	rings []ring
	err   error
}

// listed is a transport whose first call has these rings.
func listed(rings ...ring) newTransport {
	t := &listTransport{calls: []listCall{{rings: rings}}, number: 1}
	return t.make
}

func (t *listTransport) make(ringOptions) transport { return t }

func (t *listTransport) prepare(*ebpf.CollectionSpec, bool) error { return nil }
func (t *listTransport) open(map[string]*ebpf.Map) error          { return nil }
func (t *listTransport) ringOf(int) uint32                        { return t.number }
func (t *listTransport) close() error                             { return nil }

func (t *listTransport) rings() ([]ring, error) {
	if len(t.calls) == 0 {
		return nil, nil
	}
	call := t.calls[0]
	t.calls = t.calls[1:]
	return call.rings, call.err
}

// A listRing is a ring that holds records in a slice.
type listRing struct {
	records [][]byte
	gone    bool
	closed  bool
}

func (r *listRing) complete(now int64) int64 { return now - int64(settleTime) }
func (r *listRing) isHalfFull() bool         { return false }

func (r *listRing) refill()  {}
func (r *listRing) release() {}

func (r *listRing) begin() {}

func (r *listRing) stamp() (ns uint64, ok bool) {
	if len(r.records) == 0 {
		return 0, false
	}
	var p Packet
	if decode(&p, r.records[0]); p.Data == nil {
		return 0, true
	}
	return uint64(p.Time), true
}

func (r *listRing) next(packets []Packet, until uint64) (n int, stamp uint64, ok bool) {
	for ; ; n++ {
		if stamp, ok = r.stamp(); !ok || stamp > until || n == len(packets) {
			return n, stamp, ok
		}
		decode(&packets[n], r.records[0])
		r.records = r.records[1:]
	}
}

func (r *listRing) arm(alarm) alarm { return onPart }
func (r *listRing) fd() int         { return -1 }
func (r *listRing) isGone() bool    { return r.gone }

func (r *listRing) close() error {
	r.closed = true
	return nil
}
