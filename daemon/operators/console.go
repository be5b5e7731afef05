package operators

import (
	"errors"
	"net/http"
	"slices"

	"codex-proxy/proxy/auth"
	"codex-proxy/workers/control"
)

// errOutdated is no judgement of a key.
var errOutdated = errors.New("the database with the API keys does not answer at the moment, and this host cannot tell " +
	"whether the key is valid; try again later")

// consoleKeys serves codex-console-orders.service with the right of a key to the console.
func consoleKeys(keys *auth.Keys) http.HandlerFunc {
	return control.ConsoleKeys(func(ask control.ConsoleAsk) (found control.ConsoleKey, err error) {
		key, ok := keys.Find(ask.Key)
		if all := keys.All(); ask.Key == "" {
			at := slices.IndexFunc(all, func(k auth.Key) bool { return k.Name == ask.Name })
			if ok = at >= 0; ok {
				key = all[at]
			}
		}
		switch l := key.Limits; {
		case keys.Outdated(), !ok && keys.Doubtful():
			err = errOutdated
		case ok:
			found = control.ConsoleKey{Name: key.Name, ID: key.ID(), Right: l.Console, Remotes: l.Remotes}
		}
		return found, err
	})
}
