package dependenciescli

import (
	"context"
	"fmt"
	"strings"

	"codex-proxy/dependencies/dependencyconfig"
	"codex-proxy/dependencies/holders"
	"codex-proxy/units"
)

// claims are the ports and files that a dependency needs for itself, in words.
type claims struct {
	ports, lock string
	faults      []string // resources that other processes hold
}

// claims looks for the processes that hold claims of the dependency, as its unit does before each start.
func (d *Dependencies) claims(ctx context.Context, s *dependencyconfig.Settings) claims {
	var c claims
	var ports []string
	for _, port := range s.Ports {
		words := d.held(ctx, &c, s.Name, holders.Claim{Ports: []int{port}})
		ports = append(ports, fmt.Sprintf("%d: %s", port, words))
	}
	c.ports = strings.Join(ports, ", ")
	c.lock = s.Lock + ": " + d.held(ctx, &c, s.Name, holders.Claim{Lock: s.Lock})
	d.held(ctx, &c, s.Name, holders.Claim{Data: append([]string{dependencyconfig.StateDir(s.Name)}, s.Directories...)})
	return c
}

// held adds the parts of the claim that processes of other units hold to the faults, and returns the state of the
// claim.
func (d *Dependencies) held(ctx context.Context, c *claims, name string, claim holders.Claim) string {
	found, err := claim.Holders(ctx)
	if err != nil {
		d.print("Other processes are not looked for everywhere: %v", err)
	}
	words := "free"
	for _, holder := range found {
		if holder.Unit == units.Dependency(name) {
			words = "held by this dependency"
			continue
		}
		c.faults = append(c.faults, holder.String())
		words = "held by another process"
	}
	return words
}
