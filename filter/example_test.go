package filter_test

import (
	"errors"
	"fmt"

	"github.com/xdpcap/xdpcap/filter"
	"golang.org/x/net/bpf"
)

func ExampleCompile() {
	prog, err := filter.Compile("ip and not src net 10", filter.Options{SnapLen: 96})
	if err != nil {
		fmt.Println(err)
		return
	}
	raw, err := bpf.Assemble(prog)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(filter.Listing(raw))

	body, err := filter.Translate(raw)
	fmt.Println(len(body) > 0, err)
	// Output:
	// (000) ldh      [12]
	// (001) jeq      #0x800           jt 2	jf 5
	// (002) ldb      [26]
	// (003) jeq      #0xa             jt 5	jf 4
	// (004) ret      #96
	// (005) ret      #0
	// true <nil>
}

func ExampleError_Caret() {
	_, err := filter.Compile("tcp prot 443", filter.Options{})
	var e *filter.Error
	if errors.As(err, &e) {
		fmt.Println(e.Caret())
	}
	// Output:
	// tcp prot 443
	//     ^^^^
	// syntax error
	// put a word like host, net or port before it
}
