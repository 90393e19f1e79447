package filter_test

import (
	"errors"
	"fmt"

	"github.com/xdpcap/xdpcap/filter"
)

func ExampleCompileRaw() {
	raw, err := filter.CompileRaw("ip and not src net 10", filter.Options{SnapLen: 96})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(filter.Listing(raw))
	// Output:
	// (000) ldh      [12]
	// (001) jeq      #0x800           jt 2	jf 6
	// (002) ld       [26]
	// (003) and      #0xff000000
	// (004) jeq      #0xa000000       jt 6	jf 5
	// (005) ret      #96
	// (006) ret      #0
}

func ExampleCompile() {
	prog, err := filter.Compile("arp", filter.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	arp := []byte{12: 0x08, 13: 0x06, 41: 0}
	fmt.Println(prog.Run(arp, 60))
	// Output: 262144
}

func ExampleError_Caret() {
	_, err := filter.Compile("tcp prot 443", filter.Options{})
	var e *filter.Error
	if errors.As(err, &e) {
		fmt.Println(e.Caret())
		fmt.Println(e)
	}
	// Output:
	// tcp prot 443
	//     ^^^^
	// syntax error
	// did you mean port or proto?
	// syntax error (at "prot", byte 4): did you mean port or proto?
}
