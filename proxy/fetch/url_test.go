package fetch

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://host/cat.png": "", "http://host:80/?a=b#c": "", "HTTPS://host:8443/": "",
		"http://[2606:4700::1111]/":   "",
		"http://bücher.example/ü.png": "", "http://host:/": "",

		"":                               "must begin with http",
		"/etc/passwd":                    "must begin with http",
		"file:///etc/passwd":             "must begin with http",
		"gopher://host/":                 "must begin with http",
		"ftp://host/":                    "must begin with http",
		"data:image/png;base64,":         "must begin with http",
		"unix:///run/codex-proxy/x.sock": "must begin with http",
		"http:host/":                     "no host",
		"http:///cat.png":                "no host",
		"http://:80/":                    "no host",
		"http://user@host/":              "user or a password",
		"http://user:secret@host/":       "user or a password",
		"http://host:25/":                "must be 80, 443 or above 1023",
		"http://host:22/":                "must be 80, 443 or above 1023",
		"http://host:0/":                 "must be 80, 443 or above 1023",
		"http://host:65536/":             "must be 80, 443 or above 1023",
		"http://host:x/":                 "not a URL",
		"http://host/\r\nHost: other":    "not a URL",
		"http://host/%zz":                "not a URL",
		"http://host/" + strings.Repeat("a", urlLimit): "longer than 8192 bytes",
	} {
		_, err := parseURL(text)
		if want == "" {
			assert.NoError(t, err, text)
			continue
		}
		assert.ErrorContains(t, err, want, text)
		var known *Error
		if assert.ErrorAs(t, err, &known) {
			assert.Equal(t, CodeURL, known.Code)
		}
	}
}
