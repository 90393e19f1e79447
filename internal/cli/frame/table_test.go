package frame

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	var out bytes.Buffer
	tab := Table{}
	tab.Add("VERDICT", "PACKETS")
	tab.Add("µ", "1")
	tab.Add("redirected", "100000000")
	tab.Write(&out)
	want := "VERDICT       PACKETS\nµ                   1\nredirected  100000000\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
