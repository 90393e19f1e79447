package capture

// A listRing is a ring that holds records in a slice: the smallest transport.
type listRing struct {
	records [][]byte
	closed  bool
}

func (r *listRing) refill()  {}
func (r *listRing) release() {}

func (r *listRing) next() ([]byte, found) {
	if len(r.records) == 0 {
		return nil, nothing
	}
	record := r.records[0]
	r.records = r.records[1:]
	return record, valid
}

func (r *listRing) isFilling() bool { return false }
func (r *listRing) fd() int         { return -1 }

func (r *listRing) close() error {
	r.closed = true
	return nil
}
