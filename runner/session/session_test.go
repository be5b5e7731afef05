package session

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func spec(change func(*Spec)) *Spec {
	s := &Spec{Version: Version, Args: []string{"true"}, Timeout: time.Minute, OutputLimit: 1, Slot: 1}
	change(s)
	return s
}

func TestSpec(t *testing.T) {
	want := spec(func(s *Spec) {
		s.Args = []string{"pytest", "-x", ""}
		s.Directory, s.Env, s.FileSize = "a/b", map[string]string{"A_1": "x=y"}, 5
	})
	text, err := Encode(want)
	require.NoError(t, err)
	file := bytes.NewReader(text)
	for range 2 { // the offset of the file stays
		got, err := ReadSpec(file)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

func TestSpecIsChecked(t *testing.T) {
	for want, change := range map[string]func(*Spec){
		"version is 2, this program knows 1":             func(s *Spec) { s.Version = 2 },
		"args is empty":                                  func(s *Spec) { s.Args = []string{""} },
		"args[1] has a NUL byte":                         func(s *Spec) { s.Args = []string{"a", "\x00"} },
		`directory is "../x"`:                            func(s *Spec) { s.Directory = "../x" },
		`directory is "/x"`:                              func(s *Spec) { s.Directory = "/x" },
		"directory has a NUL byte":                       func(s *Spec) { s.Directory = "a\x00" },
		"timeout is 0s: use a time up to 24h0m0s":        func(s *Spec) { s.Timeout = 0 },
		"timeout is 24h0m0.000000001s":                   func(s *Spec) { s.Timeout = MaxTimeout + 1 },
		"grace is 1m0.000000001s":                        func(s *Spec) { s.Grace = MaxGrace + 1 },
		"output_limit is 0: use at least 1 byte":         func(s *Spec) { s.OutputLimit = 0 },
		"file_size is -1":                                func(s *Spec) { s.FileSize = -1 },
		"disk is -1":                                     func(s *Spec) { s.Disk = -1 },
		`artifacts[0]: "/x" is no pattern`:               func(s *Spec) { s.Artifacts = &Artifacts{Patterns: []string{"/x"}} },
		"hooks.timeout is 0s: use a time up to 10m0s":    func(s *Spec) { s.Hooks = &Hooks{} },
		"artifacts has 101 patterns: use at most 100":    func(s *Spec) { s.Artifacts = &Artifacts{Patterns: make([]string, 101)} },
		"hold is 24h0m0.000000001s":                      func(s *Spec) { s.Hold = MaxHold + 1 },
		`repository is "../x": use a key`:                func(s *Spec) { s.Repository = "../x" },
		`workspace.commit is "main"`:                     func(s *Spec) { s.Workspace = &Workspace{Commit: "main"} },
		"workspace.commit needs a repository":            func(s *Spec) { s.Workspace = &Workspace{Commit: strings.Repeat("a", 40)} },
		"environment.wait is 0s: use a time up to 50m0s": func(s *Spec) { s.Environment = &Environment{} },
		`environment.store is "x"`:                       func(s *Spec) { s.Environment = &Environment{Owner: "1", Wait: 1, Store: "x"} },
		`environment.owner: "../etc" owns no`:            func(s *Spec) { s.Environment = &Environment{Owner: "../etc", Wait: 1} },
		"slot is 10000: use 1 to 9999":                   func(s *Spec) { s.Slot = MaxSlot + 1 },
		`env has the name "1A"`:                          func(s *Spec) { s.Env = map[string]string{"1A": ""} },
		`env has the name "A=B"`:                         func(s *Spec) { s.Env = map[string]string{"A=B": ""} },
		"env A has a NUL byte, which no variable can":    func(s *Spec) { s.Env = map[string]string{"A": "\x00"} },
	} {
		text, err := Encode(spec(change))
		require.NoError(t, err)
		_, err = ReadSpec(bytes.NewReader(text))
		assert.ErrorContains(t, err, "the specification of the command is wrong: "+want)
	}
}

func TestSpecIsStrict(t *testing.T) {
	for want, text := range map[string]string{
		`unknown field "shell"`:  `{"version":1,"shell":true}`,
		"invalid character":      `version = 1`,
		"EOF":                    ``,
		"longer than 1048576 by": strings.Repeat(" ", MaxSpec+1),
	} {
		_, err := ReadSpec(strings.NewReader(text))
		assert.ErrorContains(t, err, want)
	}
}

func TestFacts(t *testing.T) {
	result := &Result{Version: Version, Exited: true, Signal: 11, Cause: Cancelled, CancelledBy: "alice",
		Started: time.Unix(1, 2).UTC(), User: time.Second}
	text, err := Encode(result)
	require.NoError(t, err)
	got, err := ReadResult(bytes.NewReader(text))
	require.NoError(t, err)
	assert.Equal(t, result, got)
	for n := range text { // the writer was killed
		_, err := ReadResult(bytes.NewReader(text[:n]))
		require.ErrorIs(t, err, errPartial, fmt.Sprint(n))
	}
	ended := &Ended{Version: Version, ServiceResult: "success", Boot: "b", OOMKills: 3}
	text, err = Encode(ended)
	require.NoError(t, err)
	read, err := ReadEnded(bytes.NewReader(text))
	require.NoError(t, err)
	assert.Equal(t, ended, read)
}
