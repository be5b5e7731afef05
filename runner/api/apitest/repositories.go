package apitest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"codex-proxy/runner/api/wire"
)

// Bundle returns the last bundle of git that a client sent for the repository with this key.
func (d *Daemon) Bundle(key string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bundles[key]
}

// Prunes returns what clients asked to prune.
func (d *Daemon) Prunes() []wire.Prune {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pruned
}

func (d *Daemon) addRepository(w http.ResponseWriter, r *http.Request) {
	var asked wire.NewRepository
	if err := wire.Decode(r.Body, &asked); err != nil {
		refuse(w, wire.InvalidRequest, "the body is no repository", err.Error())
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, known := range d.repositories {
		if known.URL == asked.URL && known.Path == asked.Path {
			reply(w, http.StatusOK, known)
			return
		}
	}
	made := &wire.Repository{Key: fmt.Sprintf("%016x", len(d.repositories)), URL: asked.URL, Path: asked.Path, Has: []string{}}
	d.repositories = append(d.repositories, made)
	reply(w, http.StatusOK, made)
}

// putBundle reads the header of a bundle (gitformat-bundle(5)): the mirror has its HEAD and its tags then.
func (d *Daemon) putBundle(w http.ResponseWriter, r *http.Request) {
	bundle, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, known := range d.repositories {
		if known.Key != r.PathValue("key") {
			continue
		}
		d.bundles[known.Key] = bundle
		tags, tagged := sha256.New(), false
		known.Has = slices.DeleteFunc(known.Has, func(entry string) bool { return strings.HasPrefix(entry, wire.TagsMark) })
		for lines := bufio.NewScanner(bytes.NewReader(bundle)); lines.Scan() && lines.Text() != ""; {
			if commit, ok := strings.CutSuffix(lines.Text(), " HEAD"); ok {
				known.Has = append(known.Has, commit)
			}
			if strings.Contains(lines.Text(), " refs/tags/") {
				fmt.Fprintln(tags, lines.Text())
				tagged = true
			}
		}
		if tagged {
			known.Has = append(known.Has, fmt.Sprintf("%s%x", wire.TagsMark, tags.Sum(nil)))
		}
		reply(w, http.StatusOK, known)
		return
	}
	refuse(w, wire.NotFound, "there is no such repository", "add it first")
}

func (d *Daemon) status(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	reply(w, http.StatusOK, wire.Status{Version: "1.2.3", Since: Now, Ready: true, MaxSessions: 8, MaxQueued: 100,
		Sessions: len(d.sessions), Environments: 2, EnvironmentBytes: 3 << 20, Snapshots: 1, SnapshotBytes: 7 << 20, SnapshotHits: 9, SnapshotMisses: 1, Repositories: 1, RepositoryBytes: 5 << 20, DiskSize: 100 << 30, DiskFree: 40 << 30})
}

func (d *Daemon) prune(w http.ResponseWriter, r *http.Request) {
	var asked wire.Prune
	if err := wire.Decode(r.Body, &asked); err != nil {
		refuse(w, wire.InvalidRequest, "the body is no prune", err.Error())
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pruned = append(d.pruned, asked)
	gone := wire.Pruned{Sessions: []string{}}
	for _, s := range d.sessions {
		if s.State == wire.SessionClosed {
			gone.Sessions, gone.Bytes = append(gone.Sessions, s.ID), gone.Bytes+1024
		}
	}
	reply(w, http.StatusOK, gone)
}
