package ebpf_test

import (
	"fmt"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/filter/ebpf"
)

func ExampleTranslate() {
	prog, err := filter.Compile("ip and not src net 10", filter.Options{SnapLen: 96})
	if err != nil {
		fmt.Println(err)
		return
	}
	body, err := ebpf.Translate(prog)
	fmt.Println(len(body) > 0, err)
	// Output: true <nil>
}
