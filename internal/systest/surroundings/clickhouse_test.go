package surroundings_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

const fleetPage = "docs/fleet.md"

// A clickHouse is a ClickHouse server of one test, with the tables of docs/fleet.md for lines of
// JSON. The page's commands run beside it, in the same namespace and directory.
type clickHouse struct {
	t   *testing.T
	ns  *testnet.Namespace
	dir string
}

// startClickHouse starts a server as contrib/fleet configures it.
func startClickHouse(t *testing.T, ns *testnet.Namespace) *clickHouse {
	t.Helper()
	testnet.Require(t, "clickhouse-server")
	testnet.Require(t, "clickhouse-client")
	config, err := filepath.Abs(filepath.Join("..", "..", "..", "contrib", "fleet", "clickhouse.xml"))
	testnet.Must(t, err)
	c := &clickHouse{t, ns, t.TempDir()}
	var output bytes.Buffer
	cmd := exec.Command("clickhouse-server", "--config-file="+config)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, &output, &output
	testnet.Must(t, ns.Start(cmd))
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			errors, _ := os.ReadFile(filepath.Join(c.dir, "errors.log"))
			t.Logf("clickhouse-server: %s%s", output.Bytes(), errors)
		}
	})
	testnet.WaitFor(t, "ClickHouse", func() bool {
		_, err := c.ask("SELECT 1")
		return err == nil
	})
	c.query(testfile.Block(t, fleetPage, "CREATE TABLE packets_in"))
	return c
}

// ask runs statements with clickhouse-client, and returns its output: values with tabs between
// them.
func (c *clickHouse) ask(sql string) (string, error) {
	cmd := exec.Command("clickhouse-client", "--multiquery", "--output_format_json_quote_64bit_integers=0")
	cmd.Stdin = strings.NewReader(sql)
	answer, err := systest.RunIn(c.t, c.ns, cmd)
	if err != nil {
		return "", fmt.Errorf("%s: %w", sql, err)
	}
	return strings.TrimSpace(answer), nil
}

// query is ask for statements that must succeed.
func (c *clickHouse) query(sql string) string {
	c.t.Helper()
	answer, err := c.ask(sql)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer
}

// run runs a command beside the server, which must succeed.
func (c *clickHouse) run(cmd *exec.Cmd) {
	c.t.Helper()
	cmd.Dir = c.dir
	if _, err := systest.RunIn(c.t, c.ns, cmd); err != nil {
		c.t.Fatalf("%v: %v", cmd.Args, err)
	}
}

// insertScript writes the insert.sh of docs/fleet.md, and returns its path.
func (c *clickHouse) insertScript() string {
	c.t.Helper()
	testnet.Require(c.t, "curl")
	path := filepath.Join(c.dir, "insert.sh")
	if err := os.WriteFile(path, []byte(testfile.Block(c.t, fleetPage, "#!/bin/sh")), 0o755); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// command returns the command of docs/fleet.md that begins with these words. It finds xdpcap by its
// name.
func (c *clickHouse) command(first string) *exec.Cmd {
	c.t.Helper()
	bin := filepath.Join(c.dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Symlink(systest.XdpcapPath, filepath.Join(bin, "xdpcap")); err != nil && !os.IsExist(err) {
		c.t.Fatal(err)
	}
	// As in a terminal, the shell that runs the command outlives Ctrl-C.
	cmd := exec.Command("sh", "-c", "trap : INT\n"+testfile.Block(c.t, fleetPage, first))
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// capture runs a command of docs/fleet.md that captures, and waits until it has begun.
func (c *clickHouse) capture(first string) *systest.Process {
	c.t.Helper()
	p := systest.StartCommand(c.t, c.ns, nil, c.command(first))
	c.t.Cleanup(func() { syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGKILL) })
	return p.Listening()
}

// end ends such a command by Ctrl-C, which all processes in a terminal's foreground receive. It
// returns the account, which is in a file.
func (c *clickHouse) end(p *systest.Process) systest.Summary {
	c.t.Helper()
	syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGINT)
	if status, stderr := p.Wait(); status != 0 {
		c.t.Errorf("exit status %d: %s", status, stderr)
	}
	return systest.Account(c.t, systest.Contents(c.t, filepath.Join(c.dir, "account.json")))
}
