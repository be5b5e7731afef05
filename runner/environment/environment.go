// Package environment makes the environments of sessions: the packages of a Python, conda or Node project, installed
// once for all sessions of an owner that need the same ones.
//
// A session's unit decides on its environment: Plan finds the manifests in its workspace and makes an Order with all
// inputs of the build. The key of the order names the environment. Another unit runs Build, which does not see the
// workspace, at the path where sessions see the environment later. Activate returns the settings for its use.
package environment

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"

	"codex-proxy/internal/nearest"
)

// Auto has Plan choose the provider by the files of the workspace.
const Auto = "auto"

// ErrUnsupported reports a manifest that an environment apart from the workspace cannot have.
var ErrUnsupported = errors.New("this cannot be installed into an environment that sessions share")

// Manifest is a file of the workspace that lists packages to install.
type Manifest struct {
	Path    string `json:"path"` // in the workspace
	Content []byte `json:"content"`
}

// Order has all that an environment depends on. Times of files are no part of it.
type Order struct {
	// Owner is the user of the sessions that use it: no user gets code that the manifests of another one have chosen.
	Owner        string     `json:"owner"`
	Provider     string     `json:"provider"`
	Tools        []Tool     `json:"tools,omitempty"` // the interpreter and the installer
	Architecture string     `json:"architecture"`
	Manifests    []Manifest `json:"manifests,omitempty"` // by path
	Store        Store      `json:"store"`
}

// Key names the environment: the SHA-256 of the order, in hexadecimal digits.
func (o Order) Key() string {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings and bytes have no error
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// tool returns the tool of that name.
func (o Order) tool(name string) Tool {
	i := slices.IndexFunc(o.Tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return Tool{Name: name}
	}
	return o.Tools[i]
}

// Activation is how a command uses an environment.
type Activation struct {
	Path  []string          // directories to put before PATH
	Env   map[string]string // further variables
	Links map[string]string // symbolic links to make in the workspace: the target by the name
}

// Step is a command of a build.
type Step struct {
	Args []string
	Env  []string // in addition to the variables of every step
}

// Provider is one kind of environment.
type Provider interface {
	// Name is the name in settings and requests.
	Name() string
	// Detect reports whether the workspace has the manifests of this kind.
	Detect(workspace fs.FS) bool
	// Key returns the manifests and tools of the order. Its errors are a *MissingToolError, ErrUnsupported, or the
	// error about an unreadable manifest.
	Key(ctx context.Context, host Host, workspace fs.FS) ([]Manifest, []Tool, error)
	// Build returns the steps that make the environment in a directory.
	Build(order Order, dir Place) []Step
	// Activate returns the settings for a command that uses the environment in dir.
	Activate(dir string) Activation
}

// providers are all kinds. Plan takes the first one that finds its manifests; manifests with exact versions precede.
var providers = []Provider{uv{}, conda{}, venv{}, node{}, none{}}

// Setup is no provider: the set-up of the repository is of any language (package setup).
const Setup = "setup"

// Names returns the permitted names of environments.
func Names() []string {
	names := []string{Auto, Setup}
	for _, p := range providers {
		names = append(names, p.Name())
	}
	return append(names, micromamba)
}

// micromamba is another name of the environments of conda, after the program that installs them.
const micromamba = "micromamba"

// Find returns the provider of that name, or an error that lists the names.
func Find(name string) (Provider, error) {
	if name == micromamba {
		return conda{}, nil
	}
	for _, p := range providers {
		if p.Name() == name {
			return p, nil
		}
	}
	hint := "use one of " + strings.Join(Names(), ", ")
	if likely := nearest.To(name, Names(), 1); len(likely) > 0 {
		hint = "do you mean " + likely[0] + "?"
	}
	return nil, fmt.Errorf("there is no environment %q: %s", name, hint)
}

// Detect returns the name of the provider that Auto means for a workspace, "none" if no manifest of one is there.
func Detect(workspace fs.FS) string { return detect(workspace).Name() }

func detect(workspace fs.FS) Provider {
	return providers[slices.IndexFunc(providers, func(p Provider) bool { return p.Detect(workspace) })]
}

// Plan makes the order of an owner for a workspace, and trusts no file there. name is a provider or Auto. The directory
// store has the packages of a build without the network, or is "" if the build has the network.
func Plan(ctx context.Context, host Host, workspace, owner, name, store string) (Order, error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return Order{}, err
	}
	defer root.Close()
	files := root.FS()
	var p Provider
	if name == Auto {
		p = detect(files)
	} else if p, err = Find(name); err != nil {
		return Order{}, err
	}
	if !p.Detect(files) {
		return Order{}, fmt.Errorf("the workspace has no manifest for the environment %s: add one, or use --env auto or none", name)
	}
	o := Order{Owner: owner, Provider: p.Name(), Architecture: runtime.GOARCH}
	if o.Manifests, o.Tools, err = p.Key(ctx, host, files); err != nil {
		return Order{}, fmt.Errorf("environment %s: %w", p.Name(), err)
	}
	if err := checkSize(o.Manifests); err != nil {
		return Order{}, err
	}
	slices.SortFunc(o.Manifests, func(a, b Manifest) int { return cmp.Compare(a.Path, b.Path) })
	if store != "" && p.Name() != "none" {
		o.Store, err = OpenStore(store)
	}
	return o, err
}

// maxManifests bounds the manifests, in bytes: each as it is read, and all together.
const maxManifests = 8 << 20

func checkSize(all []Manifest) error {
	size := 0
	for _, m := range all {
		size += len(m.Content)
	}
	if size > maxManifests {
		return fmt.Errorf("the manifests have %d bytes together, at most %d can be: leave some out", size, maxManifests)
	}
	return nil
}

// manifests reads files of the workspace; those that do not exist are left out. A link out of the workspace is an
// error.
func manifests(workspace fs.FS, names ...string) ([]Manifest, error) {
	var all []Manifest
	for _, name := range names {
		info, err := fs.Stat(workspace, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && (!info.Mode().IsRegular() || info.Size() > maxManifests) {
			err = fmt.Errorf("%s is no file of at most %d bytes", name, maxManifests)
		}
		var content []byte
		if err == nil {
			content, err = fs.ReadFile(workspace, name)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the manifest: %w", err)
		}
		all = append(all, Manifest{name, content})
	}
	return all, nil
}

// has reports whether all the files are in the workspace.
func has(workspace fs.FS, names ...string) bool {
	for _, name := range names {
		if _, err := fs.Stat(workspace, name); err != nil {
			return false
		}
	}
	return true
}

// none is the environment of the host.
type none struct{}

func (none) Name() string      { return "none" }
func (none) Detect(fs.FS) bool { return true }
func (none) Key(context.Context, Host, fs.FS) ([]Manifest, []Tool, error) {
	return nil, nil, nil
}
func (none) Build(Order, Place) []Step  { return nil }
func (none) Activate(string) Activation { return Activation{} }
