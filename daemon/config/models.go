package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"codex-proxy/internal/wildcard"
	"codex-proxy/proxy/modelname"
	"codex-proxy/proxy/openai/parameter"
)

// models is the table [models] of the file.
type models struct {
	Summary string           `toml:"reasoning_summary"`
	Aliases map[string]alias `toml:"aliases"`
}

type alias struct {
	Model   string `toml:"model"`
	Effort  string `toml:"effort"`
	Summary string `toml:"summary"`
}

// maxName is the longest name of a model in requests.
const maxName = 256

// summary is the default of reasoning.summary.
func (m models) summary() (string, error) {
	if err := checkSummary(m.Summary); err != nil {
		return "", fmt.Errorf("models.reasoning_summary = %w", err)
	}
	return m.Summary, nil
}

func checkSummary(summary string) error {
	if !slices.Contains(parameter.Summaries(), summary) {
		return fmt.Errorf("%q: must be one of %s", summary, strings.Join(parameter.Summaries(), ", "))
	}
	return nil
}

func (m models) aliases() (map[string]modelname.Alias, error) {
	all := map[string]modelname.Alias{}
	for _, name := range slices.Sorted(maps.Keys(m.Aliases)) {
		if err := m.check(name, m.Aliases[name]); err != nil {
			return nil, fmt.Errorf("models.aliases: %q: %w", name, err)
		}
		all[name] = modelname.Alias(m.Aliases[name])
	}
	return all, nil
}

func (m models) check(name string, a alias) error {
	_, chained := m.Aliases[a.Model]
	invalid := func(r rune) bool { return r <= ' ' || r > '~' || r == ',' || r == '#' }
	switch {
	case name == "" || len(name) > maxName || strings.ContainsFunc(name, invalid):
		return fmt.Errorf("a name is 1 to %d ASCII characters without space, comma and #", maxName)
	case strings.Count(name, "*") > 1:
		return fmt.Errorf("a name has at most one *, which stands for any characters: write %q",
			name[:strings.Index(name, "*")+1])
	case a.Model == "":
		return fmt.Errorf("model is missing: which model does it stand for?")
	case wildcard.Is(a.Model):
		return fmt.Errorf("model = %q: only the name of an alias may have a *; name one model that a worker has",
			a.Model)
	case chained:
		return fmt.Errorf("model = %q is an alias, too; name the model itself", a.Model)
	case a.Effort != "" && !slices.Contains(parameter.Efforts(), a.Effort):
		return fmt.Errorf("effort = %q: must be one of %s", a.Effort, strings.Join(parameter.Efforts(), ", "))
	}
	if a.Summary == "" {
		return nil
	}
	if err := checkSummary(a.Summary); err != nil {
		return fmt.Errorf("summary = %w", err)
	}
	return nil
}

// originPorts are the ports that browsers omit, by scheme; a page has no other special
// scheme (https://url.spec.whatwg.org/#special-scheme). Extensions and apps have schemes
// of their own.
var originPorts = map[string]string{"http": "80", "https": "443"}

// checkOrigins accepts origins in the form that browsers send (RFC 6454, section 7):
// another form would never match.
func (r raw) checkOrigins() error {
	for _, origin := range r.CORSOrigins {
		if origin == "*" {
			continue
		}
		u, err := url.Parse(origin)
		switch {
		case err != nil, u.Hostname() == "", origin != strings.ToLower(u.Scheme+"://"+u.Host):
			return fmt.Errorf("cors_origins: %q must be an origin such as \"https://app.example.com\", without a "+
				"path and in lower case, or \"*\"", origin)
		case slices.Contains([]string{"ftp", "ws", "wss", "file"}, u.Scheme):
			return fmt.Errorf("cors_origins: no page has the origin %q: write \"https://%s\", or \"http://%s\"",
				origin, u.Host, u.Host)
		case strings.HasSuffix(u.Host, ":"), u.Port() != "" && u.Port() == originPorts[u.Scheme]:
			return fmt.Errorf("cors_origins: browsers send %q without the port: write %q", origin,
				strings.TrimSuffix(origin, ":"+u.Port()))
		case strings.ContainsFunc(origin, func(c rune) bool { return c > '~' }):
			return fmt.Errorf("cors_origins: browsers send the name in %q as ASCII: write it as they show it in "+
				"location.origin, \"https://xn--…\"", origin)
		}
	}
	return nil
}
