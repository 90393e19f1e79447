package lost

import (
	"os"
	"strings"
	"testing"
)

// What the CPUs tell is added up, since the start; a kernel that tells nothing is no error.
func TestSoftnet(t *testing.T) {
	t.Parallel()
	const one = "0000a1b2 00000002 0000000a 00000000 00000000\n"
	s := SoftnetFile{file: strings.NewReader(one + "00000000 00000001 00000001\n")}
	s.first = s.sum()
	if s.first != (Softnet{Full: 3, Squeezed: 11}) {
		t.Errorf("%+v", s.first)
	}
	s.file = strings.NewReader(one + "00000000 000000ff 00000003\n")
	if got := s.Read(); got != (Softnet{Full: 254, Squeezed: 2}) {
		t.Errorf("%+v", got)
	}
	s = SoftnetFile{file: strings.NewReader("")}
	if got := s.Read(); got != (Softnet{}) {
		t.Errorf("%+v", got)
	}
	here := OpenSoftnet()
	defer here.Close()
	if _, ok := here.file.(*os.File); !ok {
		t.Error("the kernel's own cannot be read")
	}
}
