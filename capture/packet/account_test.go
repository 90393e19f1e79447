package packet

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An output has lost the packets that it could not take.
func TestAccountsDelivered(t *testing.T) {
	t.Parallel()
	final := Accounts{{Seen: 10, Lost: 1, Captured: 9, Bytes: 900}, {Seen: 5, FilteredOut: 5}}
	got := final.Delivered(Accounts{{Captured: 7, Bytes: 700}, {}})
	want := Accounts{{Seen: 10, Lost: 3, NotTaken: 2, Captured: 7, Bytes: 700}, {Seen: 5, FilteredOut: 5}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	total := Account{Seen: 15, FilteredOut: 5, Lost: 3, NotTaken: 2, Captured: 7, Bytes: 700}
	if diff := cmp.Diff(total, got.Total()); diff != "" {
		t.Errorf("the total: %s", diff)
	}
}

// Every number of an account is added and subtracted.
func TestAccountArithmetic(t *testing.T) {
	t.Parallel()
	ones := Accounts{{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}
	if diff := cmp.Diff(Accounts{{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}}, ones.Plus(ones)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Accounts{{}}, ones.Minus(ones)); diff != "" {
		t.Error(diff)
	}
}

// An account and a source print as users know them.
func TestStrings(t *testing.T) {
	t.Parallel()
	got := fmt.Sprint(Account{Seen: 3, Captured: 3}, "; ", Source{Name: "eth0", Hook: Egress})
	if want := "3 seen = 0 filtered out + 0 not sampled + 0 lost + 0 invalid + 3 captured; eth0@egress"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
