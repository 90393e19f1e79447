package testnet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Namespace is a network namespace without a name on disk. After Close, the kernel removes it and
// its interfaces when the last process and socket in it are gone. A killed program leaves no
// namespace behind.
//
// Its methods may be called concurrently. Close is called once, after all others.
type Namespace struct {
	handle netns.NsHandle
}

// NewNamespace makes a namespace with its loopback interface up and IPv6 off, so that no interface
// in it sends anything unasked. Needs root.
func NewNamespace() (*Namespace, error) {
	var ns *Namespace
	err := onLockedThread(func() error {
		handle, err := netns.New()
		if err != nil {
			return fmt.Errorf("make network namespace: %w", err)
		}
		ns = &Namespace{handle}
		if err := ns.prepare(); err != nil {
			return errors.Join(err, ns.Close())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ns, nil
}

// prepare runs inside the namespace.
func (ns *Namespace) prepare() error {
	for _, scope := range []string{"all", "default"} {
		if err := setIPv6(scope, false); err != nil {
			return err
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return nil
}

// setIPv6 runs inside the namespace, because /proc/sys/net shows the namespace of the thread.
func setIPv6(scope string, on bool) error {
	value := "1"
	if on {
		value = "0"
	}
	err := os.WriteFile("/proc/sys/net/ipv6/conf/"+scope+"/disable_ipv6", []byte(value), 0)
	if errors.Is(err, fs.ErrNotExist) && !on {
		return nil // a kernel without IPv6
	}
	return err
}

// Do runs f in the namespace, on the calling goroutine, and returns f's error. Meanwhile the
// goroutine is locked to its thread. Afterwards it is back in its former namespace, even if f ends
// by panic or [runtime.Goexit] (as testing.TB.Fatal does). Calls may be nested.
//
// Goroutines that f starts are not in the namespace. net.Dial and similar functions start some: f
// must open sockets itself, or Start a process.
func (ns *Namespace) Do(f func() error) error {
	return onLockedThread(func() error {
		if err := netns.Set(ns.handle); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return f()
	})
}

// MoveHere moves an interface of the calling thread's namespace into this one.
func (ns *Namespace) MoveHere(l netlink.Link) error { return netlink.LinkSetNsFd(l, int(ns.handle)) }

// Start starts cmd in the namespace; the process stays there.
func (ns *Namespace) Start(cmd *exec.Cmd) error {
	return ns.Do(cmd.Start)
}

// Close releases the namespace. Processes in it keep running.
func (ns *Namespace) Close() error {
	return ns.handle.Close()
}

// onLockedThread runs f, which may change the thread's network namespace, and then returns the
// thread to the former one. If that fails, the thread stays locked, so that the runtime ends it
// together with the goroutine and never reuses it.
func onLockedThread(f func() error) (err error) {
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open own network namespace: %w", err)
	}
	defer func() {
		back := netns.Set(home)
		if back == nil {
			runtime.UnlockOSThread()
		} else {
			err = errors.Join(err, fmt.Errorf("leave network namespace: %w", back))
		}
		unix.Close(int(home))
	}()
	return f()
}
