package anonymize

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// The published vectors of other implementations: those of the algorithm's authors for IPv4, with
// the key of their example, and those of the Python package yacryptopan.
func TestCryptoPAn(t *testing.T) {
	t.Parallel()
	authors := Key{21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16, 216, 152, 143, 131, 121, 121, 101, 39, 98, 87, 76, 45, 42, 132, 34, 2}
	python := Key([]byte("32-char-str-for-AES-key-and-pad."))
	for _, test := range []struct {
		key      *Key
		from, to string
	}{
		{&authors, "128.11.68.132", "135.242.180.132"},
		{&authors, "129.118.74.4", "134.136.186.123"},
		{&authors, "130.132.252.244", "133.68.164.234"},
		{&authors, "141.223.7.43", "141.167.8.160"},
		{&authors, "141.233.145.108", "141.129.237.235"},
		{&authors, "152.163.225.39", "151.140.114.167"},
		{&authors, "156.29.3.236", "147.225.12.42"},
		{&authors, "165.247.96.84", "162.9.99.234"},
		{&authors, "166.107.77.190", "160.132.178.185"},
		{&authors, "192.102.249.13", "252.138.62.131"},
		{&authors, "209.238.72.3", "226.6.119.243"},
		{&python, "192.0.2.1", "192.0.125.244"},
		{&python, "2001:db8::1", "27fe:8bc7:fee:1e:1e1f:f0fe:f0e1:83fd"},
	} {
		m := newMapper(test.key)
		for range 2 { // the second time it is remembered
			a := netip.MustParseAddr(test.from).AsSlice()
			m.Address(a)
			if got, _ := netip.AddrFromSlice(a); got != netip.MustParseAddr(test.to) {
				t.Errorf("%s becomes %v, want %s", test.from, got, test.to)
			}
		}
	}
}

// Addresses with n bits in common are mapped to addresses with n bits in common, whether they are
// remembered or not, and two mappers of one key map alike.
func TestPrefixesArePreserved(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	key := randomKey(rng)
	m := newMapper(key)
	for range 3000 {
		size := []int{4, 6, 16}[rng.IntN(3)]
		a := randomBytes(rng, size)
		b := bytes.Clone(a)
		bit := rng.IntN(size * 8)
		b[bit/8] ^= 0x80 >> (bit % 8)
		for i := bit/8 + 1; i < size; i++ {
			b[i] = byte(rng.Uint32())
		}
		want := inCommon(a, b)
		first, again := bytes.Clone(a), bytes.Clone(a)
		m.Address(first)
		m.Address(b)
		newMapper(key).Address(again)
		if got := inCommon(first, b); got != want {
			t.Fatalf("% x: %d bits in common, want %d", a, got, want)
		}
		if !bytes.Equal(first, again) {
			t.Fatalf("% x becomes % x, and % x by another mapper", a, first, again)
		}
		if size == 6 && a[0]&3 != first[0]&3 {
			t.Fatalf("% x becomes % x: the kind of the address changed", a, first)
		}
	}
	for _, stays := range [][]byte{make([]byte, 6), bytes.Repeat([]byte{255}, 6)} {
		a := bytes.Clone(stays)
		if m.Address(a); !bytes.Equal(a, stays) {
			t.Errorf("% x becomes % x", stays, a)
		}
	}
	zero, one := make([]byte, 4), []byte{0, 0, 0, 1}
	fresh := newMapper(key) // its cache is empty, and has no mapping of zero to itself
	fresh.Address(zero)
	fresh.Address(one)
	if n := inCommon(zero, one); n != 31 || bytes.Equal(zero, make([]byte, 4)) {
		t.Errorf("0.0.0.0 becomes % x, 0.0.0.1 % x", zero, one)
	}
	other := newMapper(randomKey(rng))
	a, b := []byte{192, 0, 2, 1}, []byte{192, 0, 2, 1}
	m.Address(a)
	other.Address(b)
	if bytes.Equal(a, b) {
		t.Error("two keys map alike")
	}
}

func randomKey(rng *rand.Rand) *Key { return (*Key)(randomBytes(rng, keySize)) }

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// inCommon is how many bits the beginnings of a and b have in common.
func inCommon(a, b []byte) (n int) {
	for i := range a {
		if x := a[i] ^ b[i]; x != 0 {
			return n + bits.LeadingZeros8(x)
		}
		n += 8
	}
	return n
}
