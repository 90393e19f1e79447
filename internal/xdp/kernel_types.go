package xdp

import (
	"sync"
	"weak"

	"github.com/cilium/ebpf/btf"
)

// KernelTypes returns the types of the running kernel, for ebpf.CollectionOptions.Cache. Decoding
// them takes longer than loading a program, so all callers share one cache while one of them holds
// it (runtime.KeepAlive). After that it is garbage. Any goroutine may call it.
func KernelTypes() *btf.Cache { return kernelTypes.get() }

var kernelTypes sharedTypes

// sharedTypes is a cache that stays in memory only while a caller holds it.
type sharedTypes struct {
	mu    sync.Mutex
	cache weak.Pointer[btf.Cache]
}

func (s *sharedTypes) get() *btf.Cache {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.cache.Value(); c != nil {
		return c
	}
	c := btf.NewCache()
	s.cache = weak.Make(c)
	return c
}
