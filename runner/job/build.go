package job

import (
	"context"
	"fmt"

	"codex-proxy/runner/environment"
	"codex-proxy/runner/paths"
)

// Build is the order to build an environment.
type Build struct {
	Version int               `json:"version"`
	Order   environment.Order `json:"order"`
}

// Built is the result of a Build.
type Built struct {
	Version int      `json:"version"`
	Failure *Failure `json:"failure,omitempty"`
}

// Run builds the environment with the given key in dir, unless it is whole already. The order comes from a session, so it
// builds nothing but its own key. path is where tools are looked for. The output of the tools goes to the log. An error
// means that there is no result.
func (b Build) Run(ctx context.Context, files Files, key, dir, path string) error {
	if err := files.check(); err != nil {
		return err
	}
	err := files.order(&b)
	if err == nil {
		err = checkVersion(b.Version)
	}
	if is := b.Order.Key(); err == nil && is != key {
		err = fmt.Errorf("the order is that of the environment %s: it cannot be %s", is, key)
	}
	if err == nil {
		err = environment.Build(ctx, environment.Host{Path: path}, b.Order, dir, files[paths.OutputFile])
	}
	return files.report(&Built{Version: Version, Failure: failure(err, Failed)})
}
