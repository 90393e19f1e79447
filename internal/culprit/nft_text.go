package culprit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A field is a field of the packet or its metadata that a rule reads into a register.
type field struct {
	name  string
	value func([]byte) string // formats a value as nft does
}

// A listing formats a rule: common expressions as nft does, and others as their names. The text
// need not be complete, because users find the rule by its handle.
type listing struct {
	words     []string
	protocol  string // the transport protocol that the rule has tested for: "udp", "tcp"
	implied   string // a test that is omitted if the next field implies it: "meta l4proto udp"
	registers map[uint64]field
	loaded    []string                  // names of the fields that were read since the last test
	elements  func(set string) [][]byte // see nft.elements
}

// textOfRule returns a rule without its counter: "udp dport 7000 drop".
func textOfRule(all []expression, userdata []byte, elements func(set string) [][]byte) string {
	l := &listing{registers: make(map[uint64]field), elements: elements}
	for i := range all {
		l.add(&all[i])
	}
	l.flush()
	if c := commentIn(userdata); c != "" {
		l.words = append(l.words, strconv.Quote(c))
	}
	return strings.Join(l.words, " ")
}

// commentIn returns the comment of a rule, from the data that nft keeps with it: a list of a type,
// a length and that many bytes.
func commentIn(userdata []byte) string {
	const comment = 0
	for len(userdata) >= 2 && len(userdata) >= 2+int(userdata[1]) {
		value := userdata[2 : 2+int(userdata[1])]
		if userdata[0] == comment {
			return unix.ByteSliceToString(value)
		}
		userdata = userdata[2+len(value):]
	}
	return ""
}

func (l *listing) write(words ...string) {
	l.flush()
	l.words = append(l.words, words...)
}

// flush writes the implied test, which is needed after all.
func (l *listing) flush() {
	if l.implied != "" {
		l.words, l.implied = append(l.words, l.implied), ""
	}
}

func (l *listing) load(register uint64, f field) {
	l.registers[register] = f
	l.loaded = append(l.loaded, f.name)
}

// use returns the field in a register for a test, and empties l.loaded.
func (l *listing) use(register uint64) field {
	l.loaded = nil
	f, ok := l.registers[register]
	if !ok {
		return field{fmt.Sprint("register ", register), hexValue}
	}
	return f
}

// operators are the words for enum nft_cmp_ops. Equality has no word.
var operators = []string{"", "!= ", "< ", "<= ", "> ", ">= "}

func (l *listing) add(e *expression) {
	switch e.name {
	case "counter":
	case "meta":
		l.addMeta(e)
	case "payload":
		l.addPayload(e)
	case "ct":
		l.addConntrack(e)
	case "bitwise":
		l.addMask(e)
	case "cmp":
		l.addTest(e)
	case "range":
		f := l.use(e.number(unix.NFTA_RANGE_SREG))
		value := func(kind uint16) string { return f.value(e.nested(kind).get(unix.NFTA_DATA_VALUE)) }
		l.write(f.name, operators[min(e.number(unix.NFTA_RANGE_OP), 1)]+value(unix.NFTA_RANGE_FROM_DATA)+"-"+value(unix.NFTA_RANGE_TO_DATA))
	case "lookup":
		l.addLookup(e)
	case "immediate":
		if v, ok := e.verdict(); ok {
			l.write(v.String())
		}
	case "match":
		l.write(textOfMatch(e.text(unix.NFTA_MATCH_NAME), e.get(unix.NFTA_MATCH_INFO)))
	case "target":
		l.write(e.text(unix.NFTA_TARGET_NAME))
	default:
		l.write(e.name)
	}
}

// addLookup adds a look-up of one field, or of several in sequence, in a set or a map of verdicts.
func (l *listing) addLookup(e *expression) {
	fields := l.loaded
	f := l.use(e.number(unix.NFTA_LOOKUP_SREG))
	set := "@" + e.text(unix.NFTA_LOOKUP_SET)
	if len(fields) == 1 {
		set = l.textOfSet(e.text(unix.NFTA_LOOKUP_SET), f)
	}
	switch {
	case e.isVerdictMap():
		set = "vmap " + set
	case e.number(unix.NFTA_LOOKUP_FLAGS)&1 != 0: // NFT_LOOKUP_F_INV
		set = "!= " + set
	}
	l.write(cmp.Or(strings.Join(fields, " . "), f.name), set)
}

// textOfSet returns the elements of a set without a name of its own, which belongs to one rule, or
// else the set's name.
func (l *listing) textOfSet(name string, f field) string {
	const maxElements = 6
	var values []string
	if strings.HasPrefix(name, "__set") {
		for _, key := range l.elements(name) {
			values = append(values, f.value(key))
		}
	}
	if len(values) == 0 {
		return "@" + name
	}
	slices.Sort(values)
	if n := len(values); n > maxElements {
		values = append(values[:maxElements], fmt.Sprintf("%d more", n-maxElements))
	}
	return "{ " + strings.Join(values, ", ") + " }"
}

// String returns a verdict as nft writes it.
func (v nftVerdict) String() string {
	switch v.code {
	case verdictDrop:
		return "drop"
	case verdictAccept:
		return "accept"
	case unix.NFT_JUMP:
		return "jump " + v.chain
	case unix.NFT_GOTO:
		return "goto " + v.chain
	case unix.NFT_RETURN:
		return "return"
	}
	return "continue"
}

var metaFields = map[uint64]field{
	unix.NFT_META_LEN: {"meta length", hostValue}, unix.NFT_META_PROTOCOL: {"meta protocol", etherValue},
	unix.NFT_META_MARK: {"meta mark", maskValue}, unix.NFT_META_IIF: {"iif", hostValue}, unix.NFT_META_OIF: {"oif", hostValue},
	unix.NFT_META_IIFNAME: {"iifname", nameValue}, unix.NFT_META_OIFNAME: {"oifname", nameValue},
	unix.NFT_META_IIFTYPE: {"meta iiftype", hostValue}, unix.NFT_META_OIFTYPE: {"meta oiftype", hostValue},
	unix.NFT_META_SKUID: {"meta skuid", hostValue}, unix.NFT_META_SKGID: {"meta skgid", hostValue},
	unix.NFT_META_NFPROTO: {"meta nfproto", familyValue}, unix.NFT_META_L4PROTO: {"meta l4proto", protocolValue},
	unix.NFT_META_PKTTYPE: {"meta pkttype", hostValue}, unix.NFT_META_IIFGROUP: {"iifgroup", hostValue},
	unix.NFT_META_OIFGROUP: {"oifgroup", hostValue}, unix.NFT_META_CGROUP: {"meta cgroup", hostValue},
}

func (l *listing) addMeta(e *expression) {
	f, ok := metaFields[e.number(unix.NFTA_META_KEY)]
	if !ok {
		f = field{fmt.Sprint("meta ", e.number(unix.NFTA_META_KEY)), hexValue}
	}
	if e.get(unix.NFTA_META_DREG) == nil {
		l.write(f.name + " set")
		return
	}
	l.load(e.number(unix.NFTA_META_DREG), f)
}

func (l *listing) addConntrack(e *expression) {
	f := field{fmt.Sprint("ct ", e.number(unix.NFTA_CT_KEY)), hexValue}
	switch e.number(unix.NFTA_CT_KEY) {
	case unix.NFT_CT_STATE:
		f = field{"ct state", stateValue}
	case unix.NFT_CT_STATUS:
		f = field{"ct status", maskValue}
	case unix.NFT_CT_MARK:
		f = field{"ct mark", maskValue}
	}
	l.load(e.number(unix.NFTA_CT_DREG), f)
}

// A position is the place of a field in a header.
type position struct{ base, offset, size uint64 }

// The headers that an offset counts from.
const (
	linkHeader = iota
	networkHeader
	transportHeader
)

var headerFields = map[position]field{
	{networkHeader, 9, 1}: {"ip protocol", protocolValue}, {networkHeader, 6, 1}: {"ip6 nexthdr", protocolValue}, {networkHeader, 8, 1}: {"ip ttl", numberValue},
	{linkHeader, 0, 6}: {"ether daddr", hexValue}, {linkHeader, 6, 6}: {"ether saddr", hexValue}, {linkHeader, 12, 2}: {"ether type", etherValue},
}

// addresses are the addresses of IPv4 and IPv6, with their offsets in the header. A rule that tests
// the prefix of an address may read only the bytes of the prefix.
var addresses = []struct {
	name         string
	offset, size uint64
}{
	{"ip saddr", 12, 4}, {"ip daddr", 16, 4}, {"ip6 saddr", 8, 16}, {"ip6 daddr", 24, 16},
}

func (l *listing) addPayload(e *expression) {
	at := position{e.number(unix.NFTA_PAYLOAD_BASE), e.number(unix.NFTA_PAYLOAD_OFFSET), e.number(unix.NFTA_PAYLOAD_LEN)}
	f, ok := headerFields[at]
	switch at.base {
	case networkHeader:
		for _, a := range addresses {
			if !ok && at.offset == a.offset && at.size <= a.size {
				f, ok = field{a.name, addressValue(int(a.size))}, true
			}
		}
		if strings.HasPrefix(l.implied, "meta nfproto") || strings.HasPrefix(l.implied, "meta protocol") {
			l.implied = ""
		}
	case transportHeader:
		if f, ok = l.transportField(at); ok {
			l.implied = ""
		}
	}
	if !ok {
		f = field{fmt.Sprintf("@%s,%d,%d", []string{"ll", "nh", "th", "ih"}[min(at.base, 3)], 8*at.offset, 8*at.size), hexValue}
	}
	l.load(e.number(unix.NFTA_PAYLOAD_DREG), f)
}

func (l *listing) transportField(at position) (f field, ok bool) {
	protocol := l.protocol
	if protocol == "" {
		protocol = "th"
	}
	switch at {
	case position{transportHeader, 0, 2}:
		return field{protocol + " sport", numberValue}, true
	case position{transportHeader, 2, 2}:
		return field{protocol + " dport", numberValue}, true
	case position{transportHeader, 0, 1}:
		return field{protocol + " type", numberValue}, true
	case position{transportHeader, 13, 1}:
		return field{protocol + " flags", hexValue}, true
	}
	return f, false
}

// isBits reports whether a test of a field is for some of its bits, by a mask: (field & mask) != 0.
// Its text has only these bits, as in "ct state established,related".
func (f field) isBits() bool { return f.name == "ct state" || f.name == "ct status" }

// addMask adds a mask to the text of a field: as the length of a prefix, or with an & in its name,
// which addTest looks for.
func (l *listing) addMask(e *expression) {
	f, ok := l.registers[e.number(unix.NFTA_BITWISE_SREG)]
	mask := e.nested(unix.NFTA_BITWISE_MASK).get(unix.NFTA_DATA_VALUE)
	if !ok || len(mask) == 0 {
		l.write(e.name)
		return
	}
	value := f.value
	switch {
	case strings.HasSuffix(f.name, "addr"):
		f.value = func(b []byte) string { return prefixText(value(b), onesIn(mask), 8*len(b)) }
	case f.isBits():
		f.value = func(b []byte) string {
			if hostNumber(b) == 0 { // addTest changes the operator
				return value(mask)
			}
			return "& " + value(mask) + " == " + value(b)
		}
	default:
		f.name += " & " + value(mask)
	}
	l.registers[e.number(unix.NFTA_BITWISE_DREG)] = f
}

// addTest adds a comparison of a field. A name with an & is from addMask, and gets the == that nft
// otherwise omits.
func (l *listing) addTest(e *expression) {
	f := l.use(e.number(unix.NFTA_CMP_SREG))
	operator := operators[min(e.number(unix.NFTA_CMP_OP), uint64(len(operators)-1))]
	data := e.nested(unix.NFTA_CMP_DATA).get(unix.NFTA_DATA_VALUE)
	if f.isBits() && hostNumber(data) == 0 { // field & mask != 0: at least one bit of the mask is set
		operator = map[string]string{"!= ": "", "": "!= "}[operator]
	}
	if operator == "" && strings.Contains(f.name, " & ") {
		operator = "== "
	}
	test := f.name + " " + operator + f.value(data)
	isEqual := operator == ""
	isProtocol := f.name == "meta l4proto" || f.name == "ip protocol" || f.name == "ip6 nexthdr"
	if isEqual && isProtocol {
		l.protocol = f.value(data)
	}
	if isEqual && (isProtocol || f.name == "meta nfproto" || f.name == "meta protocol") {
		l.flush()
		l.implied = test
		return
	}
	l.write(test)
}
