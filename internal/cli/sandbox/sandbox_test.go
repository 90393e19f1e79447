package sandbox

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// If the stamping of a card was changed, the capability to restore it is kept, and nothing else:
// the capture still becomes the user with whose rights its files were tried.
func TestKeepCards(t *testing.T) {
	t.Parallel()
	o := Options{}
	if os.Geteuid() == 0 {
		o.user = "nobody"
	}
	if err := o.Plan(""); err != nil {
		t.Fatal(err)
	}
	who := o.box.User
	o.KeepNetAdmin("put back how the card stamps packets")
	if len(o.box.Keep) != 1 || o.box.Keep[0] != unix.CAP_NET_ADMIN || o.box.User != who {
		t.Errorf("%+v", o.box)
	}
	if want := ", CAP_NET_ADMIN alone, to put back how the card stamps packets, may"; !strings.Contains(o.String(), want) {
		t.Error(o.String())
	}
	o.KeepNetAdmin("remove the filter of clsact")
	o.KeepNetAdmin("remove the filter of clsact")
	if want := " packets and to remove the filter of clsact, may"; !strings.Contains(o.String(), want) || len(o.box.Keep) != 1 {
		t.Error(o.String())
	}
	off := Options{off: true}
	off.KeepNetAdmin("put back how the card stamps packets")
	if off.box != nil {
		t.Errorf("%+v", off.box)
	}
}
