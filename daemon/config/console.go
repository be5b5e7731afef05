package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Console is the table [console]: the page for other machines.
type Console struct {
	Origins     []string       // as browsers name the page
	PushPrivate []netip.Prefix // private networks in which push services may be
}

// rawConsole is the table [console].
type rawConsole struct {
	Origins     []string `toml:"origins"`
	PushPrivate []prefix `toml:"push_private"`
}

// maxOrigins bounds the names of the page.
const maxOrigins = 16

// LoadConsole reads [console] alone, for the units that carry out the orders of the page and send its pushes.
func LoadConsole(path string, set []string) (*Console, error) {
	r, err := load(path, set)
	if err != nil {
		return nil, err
	}
	console, err := r.Console.validate()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &console, nil
}

func (r rawConsole) validate() (Console, error) {
	if len(r.Origins) > maxOrigins {
		return Console{}, fmt.Errorf("console.origins: at most %d", maxOrigins)
	}
	schemes := map[string]string{}
	for _, origin := range r.Origins {
		u, err := url.Parse(origin)
		if err != nil || !slices.Contains([]string{"http", "https"}, u.Scheme) || u.Hostname() == "" ||
			origin != u.Scheme+"://"+strings.ToLower(u.Host) || defaultPort(u) {
			return Console{}, fmt.Errorf("console.origins: %q must be an address as a browser writes it, "+
				"such as \"https://codex.example.com\": in small letters, without a path, without :443 or :80", origin)
		}
		if scheme, there := schemes[u.Host]; there && scheme != u.Scheme {
			return Console{}, fmt.Errorf("console.origins: %s may have http or https, not both", u.Host)
		}
		schemes[u.Host] = u.Scheme
	}
	c := Console{Origins: r.Origins}
	for _, p := range r.PushPrivate {
		c.PushPrivate = append(c.PushPrivate, netip.Prefix(p))
	}
	return c, nil
}

// defaultPort reports whether an address names the port that browsers leave out.
func defaultPort(u *url.URL) bool {
	return u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80"
}
