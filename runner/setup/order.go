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

	// LeftOut lists the parts that the script leaves out, as the host lacks the programs.
	LeftOut LeftOut `json:"-"`
	given   string
	host    environment.Host
}

// Source is where a set-up comes from beside the repository.
type Source struct {
	Store string `json:"store,omitempty"` // the directory with packages, for sessions without the network, or ""
	// Given is the text of a file like File, which counts in place of the repository's own, or "".
	Given string `json:"given,omitempty"`
}

// Key names the files that the script leaves: the SHA-256 of the order, in hexadecimal digits.
func (o Order) Key() string { return sum(o) }

// Family names the orders that differ in their inputs alone: the files that one leaves are of use for the others.
func (o Order) Family() string {
	o.Inputs, o.Store.Sums = nil, nil
	return sum(o)
}

// Find returns the script for a repository, with the parts that it is made of, or nil if nothing fits. The script of a
// file has no parts: of the given text, or of the repository's own.
func Find(repository fs.FS, given string) (*Script, []Part, error) {
	if given != "" {
		s, err := Parse("the set-up that was given", []byte(given))
		return s, nil, err
	}
	if s, err := Read(repository); s != nil || err != nil {
		return s, nil, err
	}
	parts, err := Detect(repository)
	return Join(parts), parts, err
}

// Plan makes the order for a checkout, and trusts no file there. An order without a script means that nothing fits. The
// errors name the file or the store and the remedy.
func Plan(ctx context.Context, host environment.Host, checkout string, from Source) (Order, error) {
	root, err := os.OpenRoot(checkout)
	if err != nil {
		return Order{}, err
	}
	defer root.Close()
	if host.Facts == nil {
		host.Facts = environment.Facts{} // no tool is asked twice
	}
	o := Order{Architecture: runtime.GOARCH, given: from.Given, host: host}
	if err := o.find(ctx, root.FS()); err != nil || o.Script == nil {
		return o, err
	}
	if o.Inputs, err = o.Script.ReadInputs(root.FS()); err == nil {
		o.Tools, err = o.Script.tools(ctx, host)
	}
	if err == nil && from.Store != "" && !o.Script.Idle() {
		o.Store, err = environment.OpenStore(from.Store)
	}
	return o, err
}

// find finds the script, less the parts that lack programs.
func (o *Order) find(ctx context.Context, repository fs.FS) (err error) {
	o.Script, _, o.LeftOut, err = FindOn(ctx, o.host, repository, o.given)
	return err
}

// After returns the order as it is when its script has run there. The script may have written inputs itself, such as a
// lock, which is no reason to run it again.
func (o Order) After(ctx context.Context, checkout string) (Order, error) {
	root, err := os.OpenRoot(checkout)
	if err != nil {
		return Order{}, err
	}
	defer root.Close()
	if err := o.find(ctx, root.FS()); err != nil || o.Script == nil {
		return o, err
	}
	o.Inputs, err = o.Script.ReadInputs(root.FS())
	return o, err
}

// tools returns the tools of the script that the host has. A missing one that the script needs is an error.
func (s *Script) tools(ctx context.Context, host environment.Host) (all []environment.Tool, err error) {
	for _, name := range s.Needs {
		t, err := oneOf(ctx, host, name)
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
