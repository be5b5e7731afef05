package workspace

import (
	"net/url"
	"slices"
	"strings"
)

// The files of credentials.
const (
	GitCredentials = "git-credentials" // git-credential-store(1): a line https://USER:TOKEN@HOST
	SSHKey         = "ssh-key"         // a private key, as ssh(1) reads it
	SSHKnownHosts  = "ssh-known-hosts" // the keys of the hosts, sshd(8)
)

// Covers reports whether a credential for the URLs that begin with prefix is one for this URL: the prefix ends at a
// boundary of its path, and the rest does not leave it again.
func Covers(prefix, address string) bool {
	rest, ok := strings.CutPrefix(address, prefix)
	whole := rest == "" || strings.HasPrefix(rest, "/") || strings.HasSuffix(prefix, "/") ||
		strings.HasSuffix(prefix, ":")
	return ok && prefix != "" && whole && !Climbs(address)
}

// Climbs reports whether a URL that CheckURL accepts has a .. in its path, perhaps percent-encoded.
func Climbs(address string) bool {
	_, path, _ := strings.Cut(address, ":") // of USER@HOST:PATH
	if u, err := url.Parse(address); err == nil {
		path = u.Path
	}
	return slices.Contains(strings.Split(path, "/"), "..")
}
