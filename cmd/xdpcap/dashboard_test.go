package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The dashboard asks for what is exported: all of it, and nothing else.
func TestDashboard(t *testing.T) {
	if testnet.Emulated() {
		t.Skip("asks the kernel for nothing, and contrib/ is not on the emulated machine")
	}
	text, err := os.ReadFile("../../contrib/grafana-xdpcap.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	var used []string
	for _, p := range dashboard.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %s asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			names := regexp.MustCompile(`xdpcap_[a-z0-9_]+`).FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("panel %s: %s", p.Title, target.Expr)
			}
			used = append(used, names...)
		}
	}
	slices.Sort(used)
	if diff := cmp.Diff(allMetricNames(t), slices.Compact(used)); diff != "" {
		t.Error(diff)
	}
}
