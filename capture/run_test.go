package capture_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// An outputLog is an output that takes a number of packets and then fails. It notes how it is
// called.
type outputLog struct {
	refuses    bool // to begin
	anySources bool
	room       int
	calls      []string // without repetitions
	packets    uint64
	accounts   capture.Accounts
	onWrite    func()
}

var errNoRoom = errors.New("no room")

func (o *outputLog) note(call string) {
	if n := len(o.calls); n == 0 || o.calls[n-1] != call {
		o.calls = append(o.calls, call)
	}
}

func (o *outputLog) Begin(d capture.Description) error {
	o.note("begin")
	if o.refuses {
		return errNoRoom
	}
	if !o.anySources && (len(d.Sources) != 1 || d.Sources[0].Sampler.ID == 0) {
		return errors.New("the description does not name the program")
	}
	return nil
}

func (o *outputLog) Write(packets []capture.Packet) error {
	o.note("write")
	for range packets {
		if o.onWrite != nil {
			o.onWrite()
		}
		if o.room == 0 {
			return errNoRoom
		}
		o.room--
		o.packets++
	}
	return nil
}

func (o *outputLog) Flush() error {
	o.note("flush")
	return nil
}

func (o *outputLog) End(final capture.Accounts) (capture.Accounts, error) {
	o.note("end")
	o.accounts = final
	own := append(capture.Accounts(nil), final...)
	if o.anySources {
		return final, nil
	}
	own[0].Lost += own[0].Captured - o.packets
	own[0].Captured = o.packets
	return own, nil
}

// Run flushes when there is nothing to read, and ends every output with the final accounts.
func TestRun(t *testing.T) {
	t.Parallel()
	pair, sender := newPair(t)
	s := open(t, pair, capture.Options{})
	sendSeen(t, sender, s, 10)
	ctx, cancel := context.WithCancel(t.Context())
	out := &outputLog{room: 1000}
	out.onWrite = func() {
		if out.packets == 9 {
			cancel()
		}
	}
	accounts, err := s.Run(ctx, out, &outputLog{room: 1000})
	if err != nil {
		t.Error(err)
	}
	// How often it is flushed between the packets depends on when they came.
	if n := len(out.calls); n < 5 || !slices.Equal(out.calls[:2], []string{"begin", "flush"}) ||
		!slices.Equal(out.calls[n-3:], []string{"write", "flush", "end"}) {
		t.Errorf("the calls: %v", out.calls)
	}
	want := capture.Accounts{{Seen: 10, Captured: 10, Bytes: 640}}
	same(t, []capture.Accounts{want, want}, accounts, "the outputs' accounts")
	same(t, want, out.accounts, "the final accounts")
	checkAccount(t, s, want[0])
	if _, err := s.Run(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Run after Run: %v", err)
	}
}

// An output that fails ends the session. End is called on every output, and each has an exact
// account of its own.
func TestRunOutputFails(t *testing.T) {
	t.Parallel()
	pair, sender := newPair(t)
	s := open(t, pair, capture.Options{})
	sendSeen(t, sender, s, 10)
	whole, failing := &outputLog{room: 1000}, &outputLog{room: 3}
	accounts, err := s.Run(t.Context(), whole, failing)
	if !errors.Is(err, errNoRoom) {
		t.Errorf("the error is %v", err)
	}
	want := []capture.Accounts{
		{{Seen: 10, Captured: 10, Bytes: 640}},
		{{Seen: 10, Lost: 7, Captured: 3, Bytes: 640}},
	}
	same(t, want, accounts)
	for name, out := range map[string]*outputLog{"whole": whole, "failing": failing} {
		if last := out.calls[len(out.calls)-1]; last != "end" {
			t.Errorf("the last call of the %s output is %s", name, last)
		}
	}
}

// An output that cannot begin ends the session. Only the outputs that were begun are ended; the
// others have lost everything.
func TestRunOutputRefuses(t *testing.T) {
	t.Parallel()
	pair, sender := newPair(t)
	s := open(t, pair, capture.Options{})
	sendSeen(t, sender, s, 10)
	first, never := &outputLog{room: 1000}, file.NewWriter(io.Discard, file.Options{})
	accounts, err := s.Run(t.Context(), first, &outputLog{refuses: true}, never)
	if !errors.Is(err, errNoRoom) {
		t.Errorf("the error is %v", err)
	}
	lost := capture.Accounts{{Seen: 10, Lost: 10, NotTaken: 10}}
	same(t, lost, accounts[2], "the account of the output that was not begun")
	same(t, []string{"begin", "end"}, first.calls, "the calls of the first output")
}

// The package's example prints the account of what is in the file, also when the disk is full.
func TestExampleOnFullDisk(t *testing.T) {
	t.Parallel()
	pair, sender := newPair(t)
	dir := t.TempDir()
	testnet.MustMount(t, "tmpfs", dir, 0, "size=64k")
	name := filepath.Join(dir, "out.pcapng")
	type result struct {
		account capture.Account
		err     error
	}
	results := make(chan result, 1)
	go func() {
		var r result
		pair.Rx.Do(func() error {
			r.account, r.err = captureInto(t.Context(), name, pair.RxName)
			return nil
		})
		results <- r
	}()
	// The device refuses a frame while its queue is full, and while the program is detached.
	var r result
	for ended := false; !ended; {
		err := sender.Send(testnet.UDPFrame(64, 0))
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			t.Fatal(err)
		}
		select {
		case r = <-results:
			ended = true
		default:
		}
	}
	if !errors.Is(r.err, unix.ENOSPC) {
		t.Errorf("the error is %v", r.err)
	}
	file, err := os.ReadFile(name)
	must(t, err)
	if n := uint64(len(stampsIn(t, file))); n != r.account.Captured || n == 0 {
		t.Errorf("%d packets are in the file, the account is %+v", n, r.account)
	}
	a := r.account
	if sum := a.FilteredOut + a.NotSampled + a.Lost + a.Invalid + a.Captured; a.Seen != sum {
		t.Errorf("the account does not add up: %d seen, %d in all: %+v", a.Seen, sum, a)
	}
}

// stampsIn are those of the packets in a file, in ns since the Unix epoch.
func stampsIn(t *testing.T, file []byte) (stamps []int64) {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	must(t, err)
	for {
		_, info, err := r.ReadPacketData()
		if err == io.EOF {
			return stamps
		}
		must(t, err)
		stamps = append(stamps, info.Timestamp.UnixNano())
	}
}
