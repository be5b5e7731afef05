package main

import (
	"os/user"
	"path/filepath"
)

// settings are the environment variables of try.
type settings struct {
	endpoint  string // MODEL_ENDPOINT
	model     string // MODEL
	codex     string // CODEX
	path      string // PATH
	codexHome string // where the login is
}

func environment(getenv func(string) string) settings {
	s := settings{
		endpoint: getenv("MODEL_ENDPOINT"), model: getenv("MODEL"),
		codex: getenv("CODEX"), path: getenv("PATH"), codexHome: getenv("CODEX_HOME"),
	}
	if s.codexHome == "" {
		s.codexHome = filepath.Join(home(getenv), ".codex")
	}
	return s
}

// home is the home directory of the person at the keyboard: under sudo, SUDO_USER's.
func home(getenv func(string) string) string {
	if u, err := user.Lookup(getenv("SUDO_USER")); err == nil {
		return u.HomeDir
	}
	return getenv("HOME")
}
