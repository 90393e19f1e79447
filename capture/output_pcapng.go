package capture

// pcapngEncoder puts the blocks of an [Encoder] into chunks.
type pcapngEncoder struct{ *Encoder }

func newPCAPNGEncoder(d *Description, o *WriterOptions) pcapngEncoder {
	return pcapngEncoder{NewEncoder(d, EncoderOptions{o.Application, o.CommandLine, o.Comments})}
}

func (e pcapngEncoder) header(b []byte) []byte { return e.Header(b) }

func (e pcapngEncoder) packets(c *chunk, packets []Packet) (n int, err error) {
	for ; n < len(packets) && c.hasRoom(len(packets[n].Data)+MaxOverhead); n++ {
		p := &packets[n]
		c.blocks = e.Append(c.blocks, p)
		c.noteEnd(p)
	}
	return n, nil
}

func (e pcapngEncoder) trailer(b []byte, s *statistics) []byte {
	return e.AppendStatistics(b, s.Accounts, s.start, s.comment())
}
