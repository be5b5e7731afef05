package main

import (
	"fmt"
	"slices"
	"strings"
)

// project is a public repository with the command that somebody tries first.
type project struct {
	repository string // OWNER/NAME
	command    string // a line for sh
}

func (p project) name() string { return p.repository[strings.Index(p.repository, "/")+1:] }

// projects are popular repositories of each language, with and without locks, workspaces, and versions made of tags.
var projects = []project{
	{"pallets/click", "pytest -q"}, {"pallets/flask", "pytest -q"}, {"pytest-dev/pluggy", "pytest -q"},
	{"python-attrs/attrs", "pytest -q"}, {"psf/requests", "pytest -q"}, {"encode/httpx", "pytest -q"},
	{"jazzband/pip-tools", "pytest -q"}, {"pypa/setuptools-scm", "pytest -q"},
	{"tj/commander.js", "npm test"}, {"expressjs/express", "npm test"}, {"sindresorhus/got", "npm test"},
	{"date-fns/date-fns", "pnpm test"},
	{"go-chi/chi", "go test ./..."}, {"spf13/cobra", "go test ./..."}, {"gorilla/mux", "go test ./..."},
	{"dtolnay/anyhow", "cargo test"}, {"sharkdp/fd", "cargo test"},
	{"jqlang/jq", "autoreconf -i && ./configure && make check"}, {"redis/hiredis", "make check"},
	{"jhy/jsoup", "mvn test"},
}

// chosen returns the projects with these names, or all.
func chosen(names []string) ([]project, error) {
	if len(names) == 0 {
		return projects, nil
	}
	var all []project
	for _, name := range names {
		i := slices.IndexFunc(projects, func(p project) bool { return p.name() == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no project %s: the names are those of %s", name, "test/projects/list.go")
		}
		all = append(all, projects[i])
	}
	return all, nil
}
