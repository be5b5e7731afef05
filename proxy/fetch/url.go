package fetch

import (
	"net/url"
	"strconv"
)

// urlLimit is in bytes. Signed URLs of object stores have about 2000.
const urlLimit = 8192

// parseURL makes the checks of a URL before the lookup of its host.
func parseURL(text string) (*url.URL, error) {
	if len(text) > urlLimit {
		return nil, wrong(CodeURL, "the URL is longer than %d bytes", urlLimit)
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, wrong(CodeURL, "this is not a URL")
	}
	return u, checkURL(u)
}

// checkURL also checks each redirect.
func checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return wrong(CodeURL, "the URL must begin with http:// or https://")
	case u.Hostname() == "":
		return wrong(CodeURL, "the URL has no host")
	case u.User != nil:
		return wrong(CodeURL, "the URL must not hold a user or a password")
	case !validPort(u.Port()):
		return wrong(CodeURL, "the port of the URL must be 80, 443 or above 1023")
	}
	return nil
}

// validPort excludes the ports of services that are not HTTP, mail above all: they
// would take a request line for one of their commands.
func validPort(port string) bool {
	n, err := strconv.Atoi(port)
	return port == "" || err == nil && (n == 80 || n == 443 || n > 1023 && n < 1<<16)
}
