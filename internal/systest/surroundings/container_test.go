package surroundings_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A container is a configuration with which runc runs the image.
type container struct {
	image   *unpackedImage
	name    string   // of the program; "" = the image's entrypoint
	args    []string // of the program
	rights  securityContext
	memory  int64          // bytes; 0 = no limit
	seccomp map[string]any // nil = no filter
	mounts  []mount
}

// A mount is a directory of this machine in a container.
type mount struct {
	source, at string
	readOnly   bool
}

// An unpackedImage is umoci's unpacked form of the image: its files, and the configuration for
// runc.
type unpackedImage struct {
	rootfs string
	config []byte
}

// buildImage runs make image, and returns the file that it writes.
func buildImage(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image.tar")
	systest.MakeTarget(t, "image", "IMAGE="+file)
	return file
}

// unpackImage extracts the image for this machine, or for the one that flags of skopeo name, from
// the file, with foreign programs.
func unpackImage(t *testing.T, file string, flags ...string) *unpackedImage {
	t.Helper()
	dir := t.TempDir()
	args := append(flags, "--insecure-policy", "copy", "--quiet", "oci-archive:"+file, "oci:"+dir+"/layout:image")
	systest.OutputOf(t, "skopeo", args...)
	systest.OutputOf(t, "umoci", "unpack", "--image", dir+"/layout:image", dir+"/bundle")
	return &unpackedImage{dir + "/bundle/rootfs", []byte(systest.Contents(t, dir+"/bundle/config.json"))}
}

// command returns a command for runc with the container, not started. It must be started in a
// network namespace, which the container then shares, as with hostNetwork.
func (c *container) command(t *testing.T) *exec.Cmd {
	t.Helper()
	var spec map[string]any
	testnet.Must(t, json.Unmarshal(c.image.config, &spec))
	process, linux := spec["process"].(map[string]any), spec["linux"].(map[string]any)
	if c.name != "" {
		process["args"] = []any{c.name}
	}
	for _, a := range c.args {
		process["args"] = append(process["args"].([]any), a)
	}
	process["terminal"] = false
	process["env"] = append(process["env"].([]any), systest.StrictCalls+"=kill")
	// Perf lets all processes of root together, also those of other tests, lock 516 KiB per CPU
	// beyond this limit. With this limit these 516 KiB make no difference: rings of 1 MiB fit into
	// the limit alone, and larger ones never fit.
	memlock := 1280 << 10 * machine.CPUs()
	process["rlimits"] = []any{map[string]any{"type": "RLIMIT_MEMLOCK", "hard": memlock, "soft": memlock}}
	process["noNewPrivileges"] = c.rights.AllowPrivilegeEscalation != nil && !*c.rights.AllowPrivilegeEscalation
	var caps []string
	for _, name := range c.rights.Capabilities.Add {
		caps = append(caps, "CAP_"+name)
	}
	process["capabilities"] = map[string]any{"bounding": caps, "effective": caps, "permitted": caps}
	spec["root"] = map[string]any{"path": c.image.rootfs, "readonly": c.rights.ReadOnlyRootFilesystem}
	linux["namespaces"] = slices.DeleteFunc(linux["namespaces"].([]any), func(ns any) bool { return ns.(map[string]any)["type"] == "network" })
	linux["seccomp"] = c.seccomp
	if c.memory > 0 {
		linux["resources"] = map[string]any{"memory": map[string]any{"limit": c.memory}}
	}
	for _, m := range c.mounts {
		access := "rw"
		if m.readOnly {
			access = "ro"
		}
		spec["mounts"] = append(spec["mounts"].([]any), map[string]any{
			"destination": m.at, "type": "bind", "source": m.source, "options": []string{"rbind", access},
		})
	}
	text, err := json.Marshal(spec)
	testnet.Must(t, err)
	bundle := t.TempDir()
	testnet.Must(t, os.WriteFile(bundle+"/config.json", text, 0o600))
	// runc puts the containers of all tests below one cgroup, by their names.
	name := fmt.Sprintf("xdpcap-test-%d-%d", os.Getpid(), containers.Add(1))
	return exec.Command("runc", "--root", bundle+"/state", "run", "--bundle", bundle, name)
}

// containers counts the created containers.
var containers atomic.Int64

// start runs the container until it has ended or the test has.
func (c *container) start(t *testing.T, ns *testnet.Namespace, stdout *os.File) *systest.Process {
	t.Helper()
	cmd := c.command(t)
	p := systest.StartCommand(t, ns, stdout, cmd)
	state, name := cmd.Args[2], cmd.Args[len(cmd.Args)-1]
	t.Cleanup(func() {
		// A container outlives a runc that is killed. One that runc is about to make cannot be
		// deleted yet, and holds stderr open until it is.
		for p.Cmd.Process.Kill(); ; {
			exec.Command("runc", "--root", state, "delete", "--force", name).Run() // mostly it no longer exists
			select {
			case <-p.Done:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	return p
}

// seccompProfile is Podman's profile, as a runtime evaluates it for a container with these rights,
// with more system calls allowed.
func seccompProfile(t *testing.T, rights *securityContext, allowed ...string) map[string]any {
	t.Helper()
	const file = "/usr/share/containers/seccomp.json"
	type condition struct{ Caps, Arches []string }
	var profile struct {
		DefaultAction   string
		DefaultErrnoRet int
		Syscalls        []struct {
			Names              []string
			Action             string
			ErrnoRet           *int
			Args               []any
			Includes, Excludes condition
		}
	}
	if err := json.Unmarshal([]byte(systest.Contents(t, file)), &profile); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	has := func(list []string) bool {
		return slices.ContainsFunc(list, func(c string) bool {
			return slices.Contains(rights.Capabilities.Add, strings.TrimPrefix(c, "CAP_"))
		})
	}
	isAllowed := func(call string) bool { return slices.Contains(allowed, call) }
	rules := []map[string]any{{"names": allowed, "action": "SCMP_ACT_ALLOW"}}
	for _, s := range profile.Syscalls {
		names := slices.DeleteFunc(s.Names, isAllowed)
		if len(names) == 0 || len(s.Includes.Caps) > 0 && !has(s.Includes.Caps) || has(s.Excludes.Caps) ||
			len(s.Includes.Arches) > 0 && !slices.Contains(s.Includes.Arches, "amd64") {
			continue
		}
		rule := map[string]any{"names": names, "action": s.Action}
		if s.ErrnoRet != nil {
			rule["errnoRet"] = *s.ErrnoRet
		}
		if len(s.Args) > 0 {
			rule["args"] = s.Args
		}
		rules = append(rules, rule)
	}
	if len(allowed) == 0 {
		rules = rules[1:]
	}
	if len(rules) < 10 {
		t.Fatalf("%s has %d rules for %v", file, len(rules), rights.Capabilities.Add)
	}
	return map[string]any{"defaultAction": profile.DefaultAction, "defaultErrnoRet": profile.DefaultErrnoRet, "syscalls": rules}
}
