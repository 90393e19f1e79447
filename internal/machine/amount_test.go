package machine

import "testing"

func TestAmount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 bytes", 999: "999 bytes", 1000: "1000 bytes", 1024: "1 KiB", 1_234_567: "1.2 MiB", 98_765_432_100: "92.0 GiB", 5e15: "4547 TiB", -1 << 20: "-1 MiB",
	} {
		if got := Amount(n); got != want {
			t.Errorf("%d bytes are shown as %q, want %q", n, got, want)
		}
	}
}
