package operators

import (
	"net/http"
	"slices"

	"codex-proxy/proxy/auth"
	"codex-proxy/workers/control"
)

// consoleKeys serves codex-console-orders.service with the right of a key to the console.
func consoleKeys(keys *auth.Keys) http.HandlerFunc {
	return control.ConsoleKeys(func(ask control.ConsoleAsk) (found control.ConsoleKey) {
		key, ok := keys.Find(ask.Key)
		if all := keys.All(); ask.Key == "" {
			at := slices.IndexFunc(all, func(k auth.Key) bool { return k.Name == ask.Name })
			if ok = at >= 0; ok {
				key = all[at]
			}
		}
		if ok {
			l := key.Limits
			found = control.ConsoleKey{Name: key.Name, ID: key.ID(), Right: l.Console, Remotes: l.Remotes}
		}
		return found
	})
}
