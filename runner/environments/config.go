package environments

import (
	"strconv"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/environment"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/sandbox"
	"codex-proxy/runner/setup"
)

// Config are the settings of the environments of sessions.
type Config struct {
	Shared   bool          // among the sessions of all users
	MaxBytes int64         // of all on the disk; those that commands use stay
	Timeout  time.Duration // of a build
	Store    string        // the directory with the packages of all builds; "" is the network
	Network  BuildNetwork  // of builds without a store
	// Sandbox has what builds find in their sandboxes by the settings, or is nil.
	Sandbox *sandbox.Given
}

// BuildNetwork selects the sessions that get environments with a build that needs the network.
type BuildNetwork string

// The values of a BuildNetwork.
const (
	BuildsForAll    BuildNetwork = "all"
	BuildsForOnline BuildNetwork = "online" // sessions that have the network
	BuildsForNone   BuildNetwork = "none"
)

// maxFacts bounds the facts that are kept for a user, in bytes.
const maxFacts = 64 << 10

// Of is the environment that a request asks for.
func Of(n wire.NewSession) string {
	switch {
	case n.Environment != "":
		return n.Environment
	case n.SetUp != "":
		return environment.Setup
	case n.Repository != "":
		return environment.Auto
	}
	return environment.None
}

// Check returns an error if the request asks for an unknown environment, or has a wrong set-up.
func Check(n wire.NewSession) error {
	name, err := environment.Find(Of(n))
	if err != nil {
		return wire.RefuseAs(wire.EnvironmentUnknown, err)
	}
	if n.SetUp == "" {
		return nil
	}
	if !environment.IsSetup(name) {
		return wire.Refuse(wire.InvalidRequest, "leave one of the two out", "a set-up and the environment %s exclude each other",
			name)
	}
	if len(n.SetUp) > setup.MaxGiven {
		return wire.Refuse(wire.TooLarge, "call a script of the repository in it", "the set-up has more than %d bytes",
			setup.MaxGiven)
	}
	if _, err := setup.Parse("the set-up", []byte(n.SetUp)); err != nil {
		return wire.RefuseAs(wire.InvalidRequest, err)
	}
	return nil
}

// ownerOf returns the owner of the environments that the sessions of a user use.
func (c Config) ownerOf(user uint32) string {
	if c.Shared {
		return paths.Shared
	}
	return strconv.FormatUint(uint64(user), 10)
}

// waitSlack is how much longer a command waits than a build may take.
const waitSlack = time.Minute
