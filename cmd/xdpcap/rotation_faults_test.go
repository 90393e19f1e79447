package main

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A ring of files goes round many times while commands are started for its files: a child that has
// not executed its program yet has copies of the descriptors, and with them of the locks.
func TestRotationLocks(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct {
		flags      string
		size, rate int
	}{
		{"-C 64k -W 2 -z true", 300, 20_000},
		{"-C 1 -W 3 -z true", 1400, 60_000},
		{"-C 1 -W 10 -z true", 1400, 60_000},
	} {
		t.Run(test.flags, func(t *testing.T) {
			dir := t.TempDir()
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64M"); err != nil {
				t.Fatal(err)
			}
			defer unix.Unmount(dir, unix.MNT_DETACH)
			p := listening(t, pair.Rx, nil, append(strings.Fields(test.flags), "-i", pair.RxName,
				"-w", filepath.Join(dir, "out.pcapng"), "--json")...)
			// It does not wait for packets to arrive: a capture that has ended receives none.
			if _, err := testnet.MustGenerator(t, pair).Run(t.Context(), testnet.GeneratorOptions{
				Frame: testnet.UDPFrame(test.size, 0), Count: 60_000, Rate: float64(test.rate),
			}); err != nil {
				t.Fatal(err)
			}
			if s := account(t, p.interrupt()); s.NotTaken != 0 || s.Seen == 0 {
				t.Errorf("summary %+v", s)
			}
		})
	}
}
