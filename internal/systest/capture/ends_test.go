package capture_test

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/systest"
)

// behindStub returns the program that a stub calls, and its maps.
func behindStub(t *testing.T, stub ebpf.ProgramID) (id ebpf.ProgramID, maps []ebpf.MapID) {
	t.Helper()
	arrays, err := systest.MapsOf(stub)
	if err != nil || len(arrays) != 1 {
		t.Fatalf("program %d has %d maps, a stub has one; %v", stub, len(arrays), err)
	}
	array, err := ebpf.NewMapFromID(arrays[0])
	if err != nil {
		t.Fatal(err)
	}
	defer array.Close()
	if err := array.Lookup(uint32(0), &id); err != nil {
		t.Fatal(err)
	}
	if maps, err = systest.MapsOf(id); err != nil {
		t.Fatal(err)
	}
	return id, maps
}
