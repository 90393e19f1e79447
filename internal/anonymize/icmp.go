package anonymize

func (r *rewriter) icmp(at, end int) int {
	if end-at < 4 || !r.add(checksum{field: at + 2, from: at, to: end}) {
		return at
	}
	const head = 8
	if end-at >= head {
		switch r.old[at] {
		case 0, 8, 9, 10: // echo; the beginning of routers' advertisements, which have addresses
			return at + head
		case 3, 4, 11, 12: // errors
			return r.ipv4(at+head, end)
		case 5: // redirect
			r.address(at+4, 4)
			return r.ipv4(at+head, end)
		case 13, 14: // times
			return max(at+head, r.fixed(at, end, 20))
		}
	}
	return at + 4
}

func (r *rewriter) igmp(at, end int) int {
	const head = 8
	if end-at < head || !r.add(checksum{field: at + 2, from: at, to: end}) {
		return at
	}
	switch r.old[at] {
	case 0x11, 0x12, 0x16, 0x17: // queries, reports and leaves: one group
		r.address(at+4, 4)
		return at + head
	case 0x22: // the number of groups
		return at + head
	}
	return at + 4
}

func (r *rewriter) icmpv6(at, end int, ip layer) int {
	if end-at < 4 || !r.add(checksum{field: at + 2, from: at, to: at + ip.length, addresses: ip.addresses, size: ip.size, rest: 58 + uint32(ip.length)}) {
		return at
	}
	head, addresses := 8, 0
	hasOptions := false
	switch r.old[at] {
	case 1, 2, 3, 4, 128, 129, 143: // errors, echo, and the number of groups
	case 130, 131, 132: // queries, reports and leaves: one group
		head, addresses = 24, 1
	case 133: // router solicitation
		hasOptions = true
	case 134: // router advertisement
		head, hasOptions = 16, true
	case 135, 136: // neighbour solicitation and advertisement
		head, addresses, hasOptions = 24, 1, true
	case 137: // redirect
		head, addresses, hasOptions = 40, 2, true
	default:
		return at + 4
	}
	if end-at < head {
		return at + 4
	}
	for i := range addresses {
		r.address(at+8+16*i, 16)
	}
	switch {
	case hasOptions:
		return r.neighbourOptions(at+head, end)
	case r.old[at] <= 4:
		return r.ipv6(at+head, end)
	}
	return at + head
}

// neighbourOptions rewrites the options of neighbour discovery up to the first unknown one.
func (r *rewriter) neighbourOptions(at, end int) int {
	const sourceLink, targetLink, prefix, redirected, mtu = 1, 2, 3, 4, 5
	for end-at >= 8 {
		size := int(r.old[at+1]) * 8
		if size == 0 || size > end-at {
			return at
		}
		switch kind := r.old[at]; {
		case (kind == sourceLink || kind == targetLink) && size == 8:
			r.address(at+2, 6)
		case kind == prefix && size == 32:
			r.address(at+16, 16)
		case kind == redirected:
			return r.ipv6(at+8, at+size)
		case kind == mtu && size == 8:
		default:
			return at
		}
		at += size
	}
	return at
}
