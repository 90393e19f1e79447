// Command xdpcap samples packets at the XDP hook into capture files.
package main

import (
	"os"

	"github.com/xdpcap/xdpcap/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args)) }
