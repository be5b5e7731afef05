package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"codex-proxy/proxy"
	"codex-proxy/proxy/openai"
)

// models is the table [models] as it is written.
type models struct {
	Aliases map[string]alias `toml:"aliases"`
}

type alias struct {
	Model  string `toml:"model"`
	Effort string `toml:"effort"`
}

// maxName is that of a model's name in requests.
const maxName = 256

func (m models) aliases() (map[string]proxy.Alias, error) {
	all := map[string]proxy.Alias{}
	for _, name := range slices.Sorted(maps.Keys(m.Aliases)) {
		if err := m.check(name, m.Aliases[name]); err != nil {
			return nil, fmt.Errorf("models.aliases: %q: %w", name, err)
		}
		all[name] = proxy.Alias(m.Aliases[name])
	}
	return all, nil
}

func (m models) check(name string, a alias) error {
	_, chained := m.Aliases[a.Model]
	switch {
	case name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' || r == '#' }):
		return fmt.Errorf("a name is 1 to %d ASCII characters without space, comma and #", maxName)
	case a.Model == "":
		return fmt.Errorf("model is missing: which model does it stand for?")
	case chained:
		return fmt.Errorf("model = %q is an alias, too; name the model itself", a.Model)
	case a.Effort != "" && !slices.Contains(openai.Efforts(), a.Effort):
		return fmt.Errorf("effort = %q: must be one of %s", a.Effort, strings.Join(openai.Efforts(), ", "))
	}
	return nil
}

// checkOrigins compares with what browsers send (RFC 6454, section 7): an origin
// that is written in another way would never match.
func (r raw) checkOrigins() error {
	for _, origin := range r.CORSOrigins {
		u, err := url.Parse(origin)
		if origin == "*" || err == nil && u.Host != "" && origin == strings.ToLower(u.Scheme+"://"+u.Host) {
			continue
		}
		return fmt.Errorf("cors_origins: %q must be an origin such as \"https://app.example.com\", without a path and in lower case, or \"*\"", origin)
	}
	return nil
}
