package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChoose(t *testing.T) {
	for _, test := range []struct {
		name     string
		versions []string
		want     []string
		err      string
	}{
		{name: "none: the supported ones", want: []string{"6.1", "6.12"}},
		{name: "one", versions: []string{"6.12"}, want: []string{"6.12"}},
		{name: "on request only", versions: []string{"newest", "5.10"}, want: []string{"newest", "5.10"}},
		{name: "unknown", versions: []string{"6.1", "6.13"}, err: `kernel "6.13": must be one of [6.1 6.12 5.10 newest 6.1-rt 6.12-rt newest-rt arm64]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			chosen, err := choose(test.versions)
			checkError(t, test.err, err)
			var got []string
			for _, k := range chosen {
				got = append(got, k.version)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// partsIn finds the packages of the kernel in the field Depends.
func TestKernelParts(t *testing.T) {
	const shown = `Package: linux-image-cloud-amd64
Version: 6.12.5-1
Depends: linux-binary-6.12.5-cloud-amd64 (= 6.12.5-1), linux-modules-6.12.5-cloud-amd64, linux-base-6.12.5-cloud-amd64, initramfs-tools | dracut, linux-base (>= 4.3~)
Recommends: linux-image-9.9-other
`
	want := []string{"linux-binary-6.12.5-cloud-amd64", "linux-modules-6.12.5-cloud-amd64", "linux-base-6.12.5-cloud-amd64"}
	if diff := cmp.Diff(want, partsIn(shown)); diff != "" {
		t.Error(diff)
	}
}
