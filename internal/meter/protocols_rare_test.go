package meter

import "testing"

// However many EtherTypes without a name come, only a limited number get a class of their own in a
// meter's life. The packets of the others share one class, and no class counts down.
func TestEtherTypesAreBounded(t *testing.T) {
	t.Parallel()
	const arp = 0x0806
	r := newRareClasses(0)
	seen := make(map[Class]struct{})
	before := make(map[Class]uint64)
	for round := range 10 {
		// The table holds other EtherTypes each time, and those of the first round again.
		classes := map[Class][]Tally{EtherType(arp): {{Packets: uint64(round + 1)}, {}}, IPv4(6): {{Packets: 5}, {}}}
		var total uint64
		for i := range 1000 {
			classes[EtherType(uint16(0xb000+i))] = []Tally{{Packets: uint64(round + 1)}, {Packets: 1}}
			classes[EtherType(uint16(0xc000+round*1000+i))] = []Tally{{}, {Packets: 1}}
		}
		for _, perCPU := range classes {
			total += perCPU[0].Packets + perCPU[1].Packets
		}
		r.fold(classes)
		for class, perCPU := range classes {
			seen[class] = struct{}{}
			now := perCPU[0].Packets + perCPU[1].Packets
			if now < before[class] {
				t.Fatalf("%v: %d packets after %d", class, now, before[class])
			}
			before[class] = now
			total -= now
		}
		if total != 0 {
			t.Fatalf("%d packets are in no class", total)
		}
	}
	// TCP, ARP, those that are told apart, and one for the others.
	if _, ok := seen[EtherType(arp)]; !ok || len(seen) != 2+maxNumbered+1 {
		t.Errorf("%d classes; ARP: %t", len(seen), ok)
	}
	if perCPU := map[Class][]Tally{EtherType(0xb000): {{Packets: 1}}}; len(r.numbered) == maxNumbered {
		r.fold(perCPU)
		if _, ok := perCPU[EtherType(0xb000)]; !ok {
			t.Error("one that was told apart no longer is")
		}
	}
}
