package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// codex is one version and its program.
type codex struct{ version, program string }

// compare prints the methods that the protocol of the second one has and lacks.
func compare(ctx context.Context, out io.Writer, before, taken codex) error {
	var protocols [2]map[string]string
	for i, c := range []codex{before, taken} {
		var err error
		if protocols[i], err = protocol(ctx, c.program); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "the protocol of codex %s beside that of %s:\n", taken.version, before.version)
	for _, name := range slices.Sorted(maps.Keys(protocols[1])) {
		if _, known := protocols[0][name]; !known {
			fmt.Fprintf(out, "  + %s  %s\n", name, protocols[1][name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(protocols[0])) {
		if _, known := protocols[1][name]; !known {
			fmt.Fprintf(out, "  - %s\n", name)
		}
	}
	return nil
}

// installed has make install the codexes of the locks, and returns the program of the pinned one.
func installed(ctx context.Context) (string, error) {
	program, err := exec.CommandContext(ctx, "make", "--silent", "codexes").Output()
	if err != nil {
		return "", fmt.Errorf("make codexes: %w", err)
	}
	return strings.TrimSpace(string(program)), nil
}

// protocol has the methods, and the fields of the messages, each with its description.
func protocol(ctx context.Context, codex string) (map[string]string, error) {
	dir, err := os.MkdirTemp("", "codex-protocol")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, codex, "app-server", "generate-json-schema", "--experimental", "--out", dir)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", cmd, err, text)
	}
	found := map[string]string{}
	for _, file := range []string{"ClientRequest", "ClientNotification", "ServerRequest", "ServerNotification"} {
		text, err := os.ReadFile(filepath.Join(dir, file+".json"))
		if err != nil {
			return nil, err
		}
		var s struct {
			OneOf       []node
			Definitions map[string]node
		}
		if err := json.Unmarshal(text, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, one := range s.OneOf {
			for _, method := range one.Properties["method"].Enum {
				found[file+" "+method] = one.Description
			}
		}
		for name, n := range s.Definitions {
			for field, about := range n.Properties {
				found["field "+name+"."+field] = about.Description
			}
		}
	}
	return found, nil
}

// node is a part of a JSON schema.
type node struct {
	Description string
	Enum        []string
	Properties  map[string]node
}

// UnmarshalJSON takes the schemas true and false, too, and enumerations of other values than text.
func (n *node) UnmarshalJSON(text []byte) error {
	type plain node
	var p plain
	_ = json.Unmarshal(text, &p) // what has another form is of no method
	*n = node(p)
	return nil
}
