package cli

import (
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The capability to put back how cards stamp is kept where one was set, and nothing but the
// capability: the user stays whom the capture becomes, as whom its files were tried.
func TestKeepCards(t *testing.T) {
	testnet.SkipEmulated(t)
	o := sandboxOptions{}
	if os.Geteuid() == 0 {
		o.user = "nobody"
	}
	if err := o.plan(""); err != nil {
		t.Fatal(err)
	}
	who := o.box.User
	o.keepNetAdmin("put back how the card stamps packets")
	if len(o.box.Keep) != 1 || o.box.Keep[0] != unix.CAP_NET_ADMIN || o.box.User != who {
		t.Errorf("%+v", o.box)
	}
	if want := ", CAP_NET_ADMIN alone, to put back how the card stamps packets, may"; !strings.Contains(o.String(), want) {
		t.Error(o.String())
	}
	o.keepNetAdmin("remove the filter of clsact")
	o.keepNetAdmin("remove the filter of clsact")
	if want := " packets and to remove the filter of clsact, may"; !strings.Contains(o.String(), want) || len(o.box.Keep) != 1 {
		t.Error(o.String())
	}
	off := sandboxOptions{off: true}
	off.keepNetAdmin("put back how the card stamps packets")
	if off.box != nil {
		t.Errorf("%+v", off.box)
	}
}

// Without an interface there is nobody to ask for types.
func TestListStampTypesOfNone(t *testing.T) {
	if err := printStampTypes(io.Discard, nil); err == nil {
		t.Error("no interface is no error")
	}
}
