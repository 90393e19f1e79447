package xdp

import (
	"slices"
	"strconv"
	"strings"

	"github.com/xdpcap/xdpcap/internal/message"
)

// choose returns the programs of an interface that the selectors name, each once. Without selectors
// it returns the only program.
func choose(ifname string, running []Program, selectors []string) ([]chosenProgram, error) {
	if len(selectors) == 0 {
		switch len(running) {
		case 0:
			return nil, message.Errorf(ErrNoProgram, "%s runs no XDP program that could be traced", ifname)
		case 1:
			return []chosenProgram{{Program: running[0]}}, nil
		}
		return nil, message.Errorf(ErrSeveralPrograms, "%s runs several XDP programs: %s", ifname, ListPrograms(running))
	}
	var chosen []chosenProgram
	for _, selector := range selectors {
		program, function := SplitSelector(selector)
		found, err := match(ifname, running, program)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if c := (chosenProgram{p, function}); !slices.Contains(chosen, c) {
				chosen = append(chosen, c)
			}
		}
	}
	return chosen, nil
}

// match returns the programs that one selector names. It accepts every id, because a program may
// run elsewhere, as in a devmap. If no program has the id, opening it fails later.
func match(ifname string, running []Program, selector string) ([]Program, error) {
	if selector == "all" && len(running) > 0 {
		return running, nil
	}
	if id, err := strconv.ParseUint(selector, 10, 32); err == nil {
		return []Program{{ID: uint32(id), Name: ProgramName(uint32(id))}}, nil
	}
	var found []Program
	for _, p := range running {
		if p.Name == selector {
			found = append(found, p)
		}
	}
	switch {
	case len(running) == 0:
		return nil, message.Errorf(ErrOtherProgram, "program %s: %s runs no XDP program", selector, ifname)
	case len(found) == 0:
		return nil, message.Errorf(ErrOtherProgram, "program %s: %s does not run it; it runs %s", selector, ifname, ListPrograms(running))
	case len(found) > 1:
		return nil, message.Errorf(ErrAmbiguousProgram, "program %s: that could be %s", selector, ListPrograms(found))
	}
	return found, nil
}

// ListPrograms returns programs as an error lists them: "first (id 3), second (id 4)".
func ListPrograms(programs []Program) string {
	var names []string
	for _, p := range programs {
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}
