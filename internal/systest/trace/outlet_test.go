package trace_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// If the program sends a packet out of one interface, line and file name that interface. If the
// packet goes elsewhere, or to several, they name no interface.
func TestOutlet(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	out := testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "out0", TxName: "outer0"})
	elsewhere := testnet.MustPair(t, testnet.PairOptions{})
	r, err := testnet.AttachRedirector(pair, out, elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ways := []struct {
		port    uint16
		verdict string
		to      string
	}{
		// The first packet is before any redirect call, and the last one after such calls.
		{testnet.UnsaidPort, "redirect", ""},
		{testnet.BackPort, "tx", "rx0"},
		{testnet.IndexPort, "redirect", "out0"},
		{testnet.CPUPort, "redirect", ""},
		{testnet.DevmapPort, "redirect", "out0"},
		{testnet.BroadcastPort, "redirect", ""},
		{testnet.HashPort, "redirect", "out0"},
		{testnet.NamespacePort, "redirect", fmt.Sprintf("interface %d of another network namespace", elsewhere.RxIndex)},
		{testnet.UnsaidPort, "redirect", ""},
	}
	lines := systest.NewPipe(t)
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, lines.In, "-i", pair.RxName, "--rx-capture", "exit", "--verdict", "tx,redirect",
		"-w", file, "--print", "-v", "--json")
	var frames [][]byte
	var want []string
	for _, way := range ways {
		frames = append(frames, testnet.TxToRx().UDP(1000, way.port, []byte("payload")))
		comment := ""
		if way.to != "" {
			comment = way.verdict + " to " + way.to
		}
		want = append(want, comment)
	}
	testnet.Send(t, pair, frames...)
	if s := systest.Account(t, p.Interrupt()); s.Captured != uint64(len(ways)) {
		t.Fatalf("summary %+v", s)
	}

	if diff := cmp.Diff(want, commentsIn(t, file)); diff != "" {
		t.Errorf("the file: %s", diff)
	}
	text := lines.Read(t)
	for i, way := range ways {
		origin := "[" + strings.ToUpper(way.verdict)
		if way.to != "" {
			origin += " to " + way.to
		}
		found := false
		if _, text, found = strings.Cut(text, "@exit"+origin+"] (queue 0"); !found {
			t.Errorf("no %s for packet %d: %s", origin, i, lines.Read(t))
		}
	}
}

// commentsIn returns each packet's comments, except the one with the program's run time.
func commentsIn(t *testing.T, path string) (comments []string) {
	t.Helper()
	for i, p := range systest.ReadTraced(t, path) {
		others := slices.DeleteFunc(slices.Clone(p.Comments), func(c string) bool { return strings.HasPrefix(c, "the program ran ") })
		if len(others) == len(p.Comments) {
			t.Errorf("packet %d does not say how long the program ran: %q", i, p.Comments)
		}
		comments = append(comments, strings.Join(others, "; "))
	}
	return comments
}
