package main

func (p *printer) gre(n *network, b []byte, length int) {
	if len(b) < 4 {
		p.cut("gre")
		return
	}
	flags, proto := be.Uint16(b), be.Uint16(b[2:])
	p.addf("GREv%d, ", flags&7)
	if flags&7 != 0 || n.depth >= maxDepth {
		p.addf("length %d", length)
		return
	}
	if p.verbosity > 0 {
		p.addf("Flags [%s], ", greFlags(flags))
	}
	size := 4
	for _, f := range []struct {
		flag uint16
		name string
	}{{0x8000, ""}, {0x2000, "key=0x%x, "}, {0x1000, "seq %d, "}} {
		if flags&f.flag == 0 {
			continue
		}
		if len(b) < size+4 {
			p.cut("gre")
			return
		}
		if f.name != "" {
			p.addf(f.name, be.Uint32(b[size:]))
		}
		size += 4
	}
	p.addf("length %d", length)
	if p.verbosity > 0 {
		p.add("\n\t")
	} else {
		p.add(": ")
	}
	switch proto {
	case etherIP4:
		p.ip4(b[size:], length-size, n.depth+1)
	case etherIP6:
		p.ip6(b[size:], length-size, n.depth+1)
	default:
		p.addf("gre-proto-0x%x", proto)
	}
}

func greFlags(flags uint16) string {
	v := uint32(flags >> 12)
	v = v>>3&1 | v>>1&1<<1 | v&1<<2 // in the order they are listed in
	return names("none", v, []string{"checksum present", "key present", "sequence# present"})
}
