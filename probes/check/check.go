// Package check asks a program whether it works, over TCP, unix sockets, HTTP, gRPC, a command or the protocol of codex
// app-server. It imports nothing of this module: the protocol of codex arrives as a function.
package check

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Func asks a program once whether it works. It returns a few words for people
// that name the program, or the error, soon after ctx is done at the latest. A
// Func keeps nothing between calls and may run concurrently with itself.
type Func func(ctx context.Context) (detail string, err error)

// Exec passes when run returns nil. People know the command by name.
func Exec(name string, run func(context.Context) error) Func {
	return func(ctx context.Context) (string, error) {
		if err := run(ctx); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		return name, nil
	}
}

var errNoModels = errors.New("model/list: no models (an account that is not logged in, or an empty catalogue)")

// AppServer passes when a codex app-server answers the handshake on a new
// connection. shake makes that connection, closes it, and returns the user agent.
func AppServer(shake func(context.Context) (userAgent string, err error)) Func {
	return func(ctx context.Context) (string, error) {
		userAgent, err := shake(ctx)
		return "codex " + codexVersion(userAgent), err
	}
}

// AppServerModels passes when the app-server also offers a model. list is like the
// shake of AppServer, and also returns the number of models.
func AppServerModels(list func(context.Context) (userAgent string, models int, err error)) Func {
	return func(ctx context.Context) (string, error) {
		userAgent, models, err := list(ctx)
		if err == nil && models == 0 {
			err = errNoModels
		}
		return fmt.Sprintf("codex %s, %s", codexVersion(userAgent), plural(models, "model")), err
	}
}

// codexVersion returns 0.169.0 for "codex-proxy/0.169.0 (Debian 12.0.0; x86_64) …":
// codex puts the client's name before its own version.
func codexVersion(userAgent string) string {
	product, _, _ := strings.Cut(userAgent, " ")
	if _, version, ok := strings.Cut(product, "/"); ok && version != "" {
		return version
	}
	return "of unknown version"
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
