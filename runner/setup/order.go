package setup

import (
	"context"
	"io/fs"
	"os"
	"runtime"

	"codex-proxy/runner/environment"
)

// Order has all that the outcome of a script depends on. Times of files are no part of it.
type Order struct {
	Script       *Script            `json:"script"`
	Inputs       []Input            `json:"inputs,omitempty"`
	Tools        []environment.Tool `json:"tools,omitempty"`
	Architecture string             `json:"architecture"`
	Store        environment.Store  `json:"store"`
}

// Key names the files that the script leaves: the SHA-256 of the order, in hexadecimal digits.
func (o Order) Key() string { return sum(o) }

// Find returns the script for a repository, with the parts that it is made of, or nil if nothing fits. A repository's
// own script has no parts.
func Find(repository fs.FS) (*Script, []Part, error) {
	if s, err := Read(repository); s != nil || err != nil {
		return s, nil, err
	}
	parts, err := Detect(repository)
	return Join(parts), parts, err
}

// Plan makes the order for a checkout, and trusts no file there. An order without a script means that nothing fits. The
// store is the directory with the packages for sessions without the network, or "". The errors name the file, the tool
// or the store and the remedy.
func Plan(ctx context.Context, host environment.Host, checkout, store string) (Order, error) {
	root, err := os.OpenRoot(checkout)
	if err != nil {
		return Order{}, err
	}
	defer root.Close()
	o := Order{Architecture: runtime.GOARCH}
	if o.Script, _, err = Find(root.FS()); err != nil || o.Script == nil {
		return o, err
	}
	if o.Inputs, err = o.Script.ReadInputs(root.FS()); err == nil {
		o.Tools, err = o.Script.tools(ctx, host)
	}
	if err == nil && store != "" {
		o.Store, err = environment.OpenStore(store)
	}
	return o, err
}

// After returns the order as it is when its script has run there. The script may have written inputs itself, such as a
// lock, which is no reason to run it again.
func (o Order) After(checkout string) (Order, error) {
	root, err := os.OpenRoot(checkout)
	if err != nil {
		return Order{}, err
	}
	defer root.Close()
	if o.Script, _, err = Find(root.FS()); err != nil || o.Script == nil {
		return o, err
	}
	o.Inputs, err = o.Script.ReadInputs(root.FS())
	return o, err
}

// tools returns the tools of the script that the host has. A missing one that the script needs is an error.
func (s *Script) tools(ctx context.Context, host environment.Host) (all []environment.Tool, err error) {
	for _, name := range s.Needs {
		t, err := host.Tool(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	for _, name := range s.Tools {
		if t, err := host.Tool(ctx, name); err == nil {
			all = append(all, t)
		}
	}
	return all, nil
}
