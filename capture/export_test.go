package capture

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// What the tests of package capture_test use, which also import the packages of the outputs.

var (
	FillRings      = fillRings
	StampedSession = stampedSession
	Must           = must
	Same           = same
	OpenAt         = openAt
	EachTransport  = eachTransport
)

// Ahead is by how much the card's clock is ahead in a StampedSession.
const Ahead = ahead

// ClockOffset is what the reader adds to the stamps of the programs.
func (s *Session) ClockOffset() int64 { return s.reader.Clock.Offset }

// SetFilling marks the shared rings of a session, as programs do while they write a record: 1, and
// 0 afterwards.
func (s *Session) SetFilling(tb testing.TB, filling uint64) {
	for _, shared := range sharedRings(tb, s.sampler) {
		atomic.StoreUint64(&shared.Filling, filling)
	}
}

// ComeTooLate is what a session does with an interface that it has found, and that has gone since.
func (s *Session) ComeTooLate(name string) {
	s.hooks.WhileAttached(func() {
		s.followed.StartLate(xdp.Interface{Index: 1 << 30, Name: name, Type: "ether", Up: true, Driver: "veth", RxQueues: 1})
	})
}

// AgeRefusals makes the session try the interfaces again that it could not capture, as if this time
// had passed.
func (s *Session) AgeRefusals(by time.Duration) {
	s.hooks.WhileAttached(func() { s.followed.Refused.Age(by) })
}
