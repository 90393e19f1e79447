package dissect

// maxSkipped is the maximum number of labels of a message that are skipped: more than any answer
// has.
const maxSkipped = 2000

// skipName skips a name. It returns false if the name does not end in the bytes.
func (m *message) skipName() bool {
	for m.at < len(m.b) && m.labels < maxSkipped {
		m.labels++
		c := int(m.b[m.at])
		m.at++
		switch c >> 6 {
		case 0:
			if c == 0 {
				return true
			}
			m.at += c
		case 3:
			m.at++
			return true
		default:
			return false
		}
	}
	return false
}

// domainName appends the name at an offset of the message and returns the offset after it. It
// returns false if the name does not end in the bytes or is invalid.
func (d *Dissector) domainName(m *message, at int) (end int, ok bool) {
	b, lowest, letters := m.b, at, 0
	for jumped := false; !d.ended; {
		if at >= len(b) {
			return 0, false
		}
		c := int(b[at])
		at++
		switch c >> 6 {
		case 0:
			if c == 0 {
				if letters == 0 {
					d.add(".")
				}
				if letters > 255 {
					d.add("<DOMAIN NAME TOO LONG>")
				}
				if !jumped {
					end = at
				}
				return end, true
			}
			if shown := min(c, 255-letters); shown > 0 {
				d.quoted(limit(skip(b, at), shown))
				if at+shown > len(b) {
					return 0, false
				}
			}
			d.spend(4)
			at, letters = at+c, letters+c
			if letters > 255 && jumped {
				d.add("<DOMAIN NAME TOO LONG>")
				return end, true
			}
			if letters <= 255 {
				d.add(".")
			}
			letters++
		case 3:
			if at >= len(b) {
				return 0, false
			}
			if !jumped {
				end, jumped = at+1, true
			}
			// A pointer must lead backwards. So every name ends, and costs no more than its
			// letters.
			target := c<<8&0x3f00 | int(b[at])
			if target >= lowest {
				d.add("<BAD PTR>")
				return 0, false
			}
			at, lowest = target, target
			d.spend(8)
		case 1:
			if c == 0x41 { // a bit label, which RFC 6891 has withdrawn
				d.truncated()
			}
			d.addf("<ELT %d>", c&0x3f)
			return 0, false
		default:
			d.add("<BAD LABEL TYPE>")
			return 0, false
		}
	}
	return 0, false
}
