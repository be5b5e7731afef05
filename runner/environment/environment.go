// Package environment makes the environments of conda for sessions: packages that are installed once for all sessions
// of an owner that need the same ones. It also has the tools and stores of packages that set-ups use (package setup).
//
// A session's unit decides on its environment: Plan finds the manifest in its workspace and makes an Order with all
// inputs of the build. The key of the order names the environment. Another unit runs Build, which does not see the
// workspace, at the path where sessions see the environment later. Activate returns the settings for its use.
package environment

import (
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

// The environments of sessions.
const (
	Auto  = "auto"  // the set-up of the repository, if one fits
	Setup = "setup" // the set-up of the repository (package setup)
	Conda = "conda" // environment.yml, read-only
	None  = "none"  // the packages of the host
)

// names are the permitted names of environments. micromamba is the program that installs those of conda.
var names = []string{Auto, Setup, None, Conda, "micromamba"}

// former are names of earlier versions: the set-up has these ways.
var former = []string{"uv", "venv", "node"}

// Find returns the environment of that name, which may be another name, or an error that lists the names.
func Find(name string) (string, error) {
	switch {
	case name == "micromamba":
		return Conda, nil
	case slices.Contains(names, name):
		return name, nil
	case slices.Contains(former, name):
		return Setup, nil
	}
	hint := "use one of " + strings.Join(names, ", ")
	if likely := nearest.To(name, names, 1); len(likely) > 0 {
		hint = "do you mean " + likely[0] + "?"
	}
	return "", fmt.Errorf("there is no environment %q: %s", name, hint)
}

// IsSetup reports whether the environment is the set-up of the repository.
func IsSetup(name string) bool { return name == Auto || name == Setup }

// Manifest is a file of the workspace that lists packages to install.
type Manifest struct {
	Path    string `json:"path"` // in the workspace
	Content []byte `json:"content"`
}

// Order has all that an environment depends on. Times of files are no part of it.
type Order struct {
	// Owner is the user of the sessions that use it: no user gets code that the manifests of another one have chosen.
	Owner        string     `json:"owner"`
	Provider     string     `json:"provider"`        // Conda
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
	Path []string          // directories to put before PATH
	Env  map[string]string // further variables
}

// Plan makes the order of an owner for a workspace, and trusts no file there. The directory store has the packages of a
// build without the network, or is "" if the build has the network. Its errors are a *MissingToolError, or the error
// about an absent or unreadable manifest.
func Plan(ctx context.Context, host Host, workspace, owner, store string) (Order, error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return Order{}, err
	}
	defer root.Close()
	o := Order{Owner: owner, Provider: Conda, Architecture: runtime.GOARCH}
	if o.Manifests, err = condaManifest(root.FS()); err != nil {
		return Order{}, err
	}
	program, err := host.Tool(ctx, "micromamba")
	if err != nil {
		return Order{}, fmt.Errorf("environment %s: %w", Conda, err)
	}
	o.Tools = []Tool{program}
	if store != "" {
		o.Store, err = OpenStore(store)
	}
	return o, err
}

// maxManifest bounds a manifest, in bytes.
const maxManifest = 8 << 20

// condaManifest reads the one manifest of the workspace. A link out of the workspace is an error.
func condaManifest(workspace fs.FS) (all []Manifest, err error) {
	for _, name := range []string{"environment.yml", "environment.yaml"} {
		info, err := fs.Stat(workspace, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && (!info.Mode().IsRegular() || info.Size() > maxManifest) {
			err = fmt.Errorf("%s is no file of at most %d bytes", name, maxManifest)
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
	switch len(all) {
	case 0:
		return nil, errors.New("the workspace has no environment.yml for the environment conda: add one, or use --env auto or none")
	case 1:
		return all, nil
	}
	return nil, errors.New("the workspace has environment.yml and environment.yaml: remove one of them")
}
