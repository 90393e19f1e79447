package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ versions, want, err string }{
		{versions: "", want: "6.1 6.12"}, // the supported ones
		{versions: "newest 5.10", want: "newest 5.10"},
		{versions: "6.1 6.13", err: `kernel "6.13": must be one of [6.1 6.12 5.10 newest 6.1-rt 6.12-rt newest-rt arm64]`},
	} {
		chosen, err := choose(strings.Fields(test.versions))
		checkError(t, test.err, err)
		var got []string
		for _, k := range chosen {
			got = append(got, k.version)
		}
		if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%q: %s", test.versions, diff)
		}
	}
}

func TestKernelParts(t *testing.T) {
	t.Parallel()
	const list = `linux-image-6.12-cloud-amd64
  Depends: linux-binary-6.12.5-cloud-amd64
linux-binary-6.12.5-cloud-amd64
 |Depends: <linux-initramfs-tool>
  Depends: linux-base
linux-base
`
	want := []string{"linux-image-6.12-cloud-amd64", "linux-binary-6.12.5-cloud-amd64"}
	if diff := cmp.Diff(want, partsIn(list)); diff != "" {
		t.Error(diff)
	}
}
