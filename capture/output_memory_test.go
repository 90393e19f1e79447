package capture

// A memory is an output that keeps packets.
type memory struct {
	description Description
	packets     []Packet
}

func (m *memory) Begin(d Description) error {
	m.description = d
	return nil
}

func (m *memory) Write(packets []Packet) error {
	for _, p := range packets {
		facts := *p.Facts
		m.packets = append(m.packets, Packet{Facts: &facts, Source: p.Source, Data: append([]byte(nil), p.Data...)})
	}
	return nil
}

func (m *memory) Flush() error { return nil }

func (m *memory) End(final Accounts) (Accounts, error) { return final, nil }
