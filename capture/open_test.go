package capture

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// must ends the test if there is an error.
var must = testnet.Must

// openAt opens a session in a namespace.
func openAt(t *testing.T, ns *testnet.Namespace, o Options) (s *Session) {
	t.Helper()
	must(t, ns.Do(func() (err error) {
		s, err = Open(o)
		return err
	}))
	t.Cleanup(func() { s.Close() })
	return s
}

// openStill opens a session of hooks and rings that only tests have, at no interface.
func openStill(t *testing.T, o Options, rings func(ring.Options) *ring.Set, hooks ...probe.Hook) *Session {
	t.Helper()
	s, err := tryStill(t, o, rings, hooks...)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func tryStill(t *testing.T, o Options, rings func(ring.Options) *ring.Set, hooks ...probe.Hook) (*Session, error) {
	t.Helper()
	testnet.RequireRoot(t)
	if o.Patterns == nil {
		o.Interfaces = []string{"unused"}
	}
	o, err := o.withDefaults()
	must(t, err)
	return open(o, hooks, rings)
}

// run runs a session with one output in memory, and returns that and its account.
func (s *Session) run(t *testing.T) (*memory, Accounts) {
	t.Helper()
	out := new(memory)
	accounts, err := s.Run(t.Context(), out)
	must(t, err)
	return out, accounts[0]
}

// notices returns a Notice that notes the text of each of its calls.
func notices(into *[]string) func(error) {
	return func(err error) { *into = append(*into, err.Error()) }
}

// same fails the test if two values differ. about, if it is given, is a format and its arguments.
func same(tb testing.TB, want, got any, about ...any) {
	tb.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(probe.ProgramCounts{})); diff != "" {
		text := ""
		if len(about) > 0 {
			text = fmt.Sprintf(about[0].(string), about[1:]...) + " "
		}
		tb.Errorf("%s(-want +got):\n%s", text, diff)
	}
}
