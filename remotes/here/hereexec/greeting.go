package hereexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"codex-proxy/codex/versions"
)

// greetingFile has the last result of initialize, in the unit's state directory.
const greetingFile = "greeting.json"

// identity distinguishes a program from the one that an installation puts in its place.
type identity struct {
	Path  string `json:"path"`
	Inode uint64 `json:"inode"`
	Size  int64  `json:"size"`
	MTime int64  `json:"mtime"`
}

func identityOf(program string) (identity, error) {
	path, err := filepath.EvalSymlinks(program)
	if err != nil {
		return identity{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return identity{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}, errors.New("the file has no inode")
	}
	return identity{Path: path, Inode: st.Ino, Size: info.Size(), MTime: info.ModTime().UnixNano()}, nil
}

// greeting is the result of initialize that codex is known to give.
type greeting struct {
	file    string
	program identity
	version string // of program; empty: unknown
	logger  *slog.Logger

	mu     sync.Mutex
	result json.RawMessage
}

// saved is the file.
type saved struct {
	Program identity        `json:"program"`
	Result  json.RawMessage `json:"result"`
}

// newGreeting reads the file of an earlier process. After a change of the program its version is put into the result;
// if that is not known either, nothing is.
func newGreeting(dir, program string, logger *slog.Logger) *greeting {
	g := &greeting{file: filepath.Join(dir, greetingFile), logger: logger}
	g.program, _ = identityOf(program) // the start reports it
	g.version = packagedVersion(g.program.Path)
	var s saved
	text, err := os.ReadFile(g.file)
	if err != nil || json.Unmarshal(text, &s) != nil {
		return g
	}
	switch {
	case s.Program == g.program:
		g.result = s.Result
	case g.version != "":
		g.result = ofVersion(s.Result, g.version)
	}
	return g
}

func (g *greeting) known() json.RawMessage {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.result
}

// learn is for the manager, which gets the result of codex.
func (g *greeting) learn(result json.RawMessage) {
	g.mu.Lock()
	g.result = result
	g.mu.Unlock()
	text, err := json.Marshal(saved{g.program, result})
	if err == nil {
		err = errors.Join(os.WriteFile(g.file+".new", text, 0o600), os.Rename(g.file+".new", g.file))
	}
	if err != nil {
		g.logger.Warn("the next start cannot answer clients before codex does", "error", err)
	}
}

// packagedVersion is the version of a codex of npm.
func packagedVersion(program string) string {
	var about struct{ Version string }
	text, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(program)), "codex-package.json"))
	if err != nil || json.Unmarshal(text, &about) != nil {
		return ""
	}
	return about.Version
}

// ofVersion is a result of another version of codex: the user agent names it after the first slash.
func ofVersion(result json.RawMessage, version string) json.RawMessage {
	var all map[string]any
	if json.Unmarshal(result, &all) != nil {
		return nil
	}
	agent, _ := all["userAgent"].(string)
	old := versions.OfAgent(agent)
	if old == "" {
		return nil
	}
	all["userAgent"] = strings.Replace(agent, "/"+old, "/"+version, 1)
	out, err := json.Marshal(all)
	if err != nil {
		return nil
	}
	return out
}

// starting is the Starting of the proxy: codex serves once open returns.
func (g *greeting) starting(open func(context.Context) (string, error)) (json.RawMessage, func(context.Context) error) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := open(now); err == nil {
		return nil, nil
	}
	return g.known(), func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, startBound)
		defer cancel()
		if _, err := open(ctx); err != nil {
			return fmt.Errorf("codex does not serve: %w", err)
		}
		return nil
	}
}
