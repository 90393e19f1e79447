package main

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tools are the programs that tests call, and toolPackages have them.
var (
	tools        = []string{"ip", "tcpdump", "capinfos", "tshark", "dumpcap", "xdp-loader"}
	toolPackages = []string{"iproute2", "tcpdump", "tshark", "xdp-tools"}
)

// toolsRoot is the directory into which the packages of the tools and their dependencies are
// unpacked. Its name lists the packages, so that a changed list has a directory of its own.
func (a *architecture) toolsRoot() string {
	return filepath.Join(workDir, "tools-"+a.name+"-"+strings.Join(toolPackages, "-"), "root")
}

// getTools downloads the packages of the tools and unpacks them.
func (a *architecture) getTools(ctx context.Context) error {
	return unpackOnce(ctx, a.toolsRoot(), a, "bookworm", func(apt *apt) error {
		_, err := apt.run("apt-get", append([]string{"--quiet", "--yes", "--download-only", "--no-install-recommends",
			"-o", "Debug::NoLocking=1", "install"}, toolPackages...)...)
		return err
	})
}

// addTools adds the tools, and all libraries and XDP programs of their packages.
func (a *archive) addTools(arch *architecture) {
	libraries := "usr/lib/" + arch.triple
	patterns := []string{"lib*/ld-linux*", "lib/" + arch.triple + "/*.so*", libraries + "/*.so*", libraries + "/bpf/*.o"}
	for _, tool := range tools {
		patterns = append(patterns, "*bin/"+tool, "usr/*bin/"+tool)
	}
	for _, p := range patterns {
		found, _ := fs.Glob(os.DirFS(arch.toolsRoot()), p)
		for _, name := range found {
			a.addFile(name, filepath.Join(arch.toolsRoot(), name))
		}
	}
}
