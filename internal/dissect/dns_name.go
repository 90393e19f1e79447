package dissect

// maxSkipped is the maximum number of labels of a message that are skipped: more than any answer
// has.
const maxSkipped = 2000

// skipName moves at to after a name. It returns false if the name has no end in the captured bytes,
// has an unknown kind of label, or if too many labels were skipped. at may then be beyond the
// bytes, and so it may be after a name that ends with a pointer.
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

// domainName appends the name at an offset of the message. end is the offset after the name, or
// after its first pointer if it has one. ok is false if the name is not complete in the captured
// bytes, or is invalid.
func (d *Dissector) domainName(m *message, at int) (end int, ok bool) {
	b, lowest := m.b, at
	length := 0 // of the name's text so far, with dots; at most 255 bytes of it are shown
	for hasJumped := false; ; {
		if at >= len(b) {
			return 0, false
		}
		c := int(b[at])
		at++
		switch c >> 6 {
		case 0:
			if c == 0 {
				if length == 0 {
					d.add(".")
				}
				if length > 255 {
					d.add("<DOMAIN NAME TOO LONG>")
				}
				if !hasJumped {
					end = at
				}
				return end, true
			}
			if shown := min(c, 255-length); shown > 0 {
				d.quoted(limit(skip(b, at), shown))
				if at+shown > len(b) {
					return 0, false
				}
			}
			// A label costs as much as 4 bytes of text, and a jump as much as 8: so the limit of
			// the line also limits the work for a hostile name.
			d.spend(4)
			at, length = at+c, length+c
			// After a jump, end is known. Without one, the loop goes on to find it.
			if length > 255 && hasJumped {
				d.add("<DOMAIN NAME TOO LONG>")
				return end, true
			}
			if length <= 255 {
				d.add(".")
			}
			length++
		case 3:
			if at >= len(b) {
				return 0, false
			}
			if !hasJumped {
				end, hasJumped = at+1, true
			}
			// A pointer must lead to before everything that was read so far, so that no loop is
			// possible: lowest is the lowest offset yet.
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
				return 0, false
			}
			d.addf("<ELT %d>", c&0x3f)
			return 0, false
		default:
			d.add("<BAD LABEL TYPE>")
			return 0, false
		}
	}
}

// requireName is domainName for a name without which the rest cannot be decoded: it ends the line.
func (d *Dissector) requireName(m *message, at int) (end int) {
	end, ok := d.domainName(m, at)
	if !ok {
		d.truncated()
	}
	return end
}
