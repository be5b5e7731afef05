package repositories

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/workspace"
)

const (
	// mostHas bounds Repository.Has: older commits are behind these, as a rule.
	mostHas = 64
	// LongestName bounds a URL, a path and a ref, in bytes.
	LongestName = 4096
)

func checkRepository(n wire.NewRepository) error {
	switch {
	case n.URL == "" && n.Path == "":
		return wire.Refuse(wire.InvalidRequest, "name its url or its path", "the repository has no name")
	case len(n.URL) > LongestName || len(n.Path) > LongestName:
		return wire.Refuse(wire.InvalidRequest, fmt.Sprintf("use at most %d bytes", LongestName),
			"the name of the repository is too long")
	case n.Path != "" && (!filepath.IsAbs(n.Path) || filepath.Clean(n.Path) != n.Path ||
		strings.ContainsRune(n.Path, 0)):
		return wire.Refuse(wire.InvalidRequest, "use an absolute path without . and ..", "path is %q", n.Path)
	}
	if n.URL == "" {
		return nil
	}
	return checkURL(n.URL)
}

// checkURL accepts the URLs of workspace.CheckURL, less file URLs: the service would read these as a user of its own,
// while the user that may read a local repository sends bundles of it.
func checkURL(address string) error {
	if err := workspace.CheckURL(address); err != nil {
		return invalidURL(err)
	}
	if u, err := url.Parse(address); err == nil && u.Scheme == "file" {
		return wire.Refuse(wire.InvalidRequest, "name the directory: codex-runner run --repo "+u.Path,
			"the service fetches no file URL")
	}
	if workspace.Climbs(address) { // it would leave the URL of a credential
		return wire.Refuse(wire.InvalidRequest, "write it without ..", "the URL %s leaves a directory", address)
	}
	return nil
}

func invalidURL(err error) error {
	message, remedy, _ := strings.Cut(err.Error(), "; ")
	return wire.Refuse(wire.InvalidRequest, remedy, "%s", message)
}
