package xdp

import (
	"runtime"
	"testing"
)

// TestKernelTypes checks that the kernel's types are decoded once while somebody holds them, and
// that they do not stay in memory after that.
func TestKernelTypes(t *testing.T) {
	t.Parallel()
	var s sharedTypes
	held := s.get()
	runtime.GC()
	if s.get() != held {
		t.Error("the types are decoded again although they are held")
	}
	runtime.KeepAlive(held)
	runtime.GC()
	if s.cache.Value() != nil {
		t.Error("the types stay in memory although nobody holds them")
	}
}
