package settingsfile

import (
	"codex-proxy/internal/lazyregexp"
	"codex-proxy/internal/paths"
)

// accountName is the form of the names of users and groups.
var accountName = lazyregexp.New(`^[a-z_][a-z0-9_-]*$`)

// dynamicUser are the users that systemd makes for units of ours: workers, brokers, dependencies and remotes, and
// sessions, mirrors and environments of codex-runner.
var dynamicUser = lazyregexp.New(`^c[wbdrsme]-`)

// AccountName reports whether a user or a group may have the name.
func AccountName(name string) bool { return len(name) <= 31 && accountName.MatchString(name) }

// CheckUser is the fault of the key user. noRoot is the reason why root is none.
func CheckUser(user, noRoot string) error {
	switch {
	case user == "":
	case !AccountName(user):
		return Wrong("user", "%q is not the name of a user; empty: a user of its own", user)
	case user == "root":
		return Wrong("user", "%s", noRoot)
	case user == paths.User, user == paths.WorkerUser, dynamicUser.MatchString(user):
		return Wrong("user", "%q belongs to codex-proxy: name another user, or leave user empty for one of its own",
			user)
	}
	return nil
}
