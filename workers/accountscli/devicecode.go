package accountscli

import (
	"encoding/json"
	"io"
	"sync"

	"codex-proxy/internal/lazyregexp"
)

// deviceCode is where, and by which code, a person admits a login.
type deviceCode struct {
	URL  string `json:"url"`
	Code string `json:"code"`
}

// loggedIn is the end of a login.
type loggedIn struct {
	Worker   string `json:"worker"`
	LoggedIn bool   `json:"logged_in"`
}

// maxTalk bounds the text in which a device code is searched for, in bytes.
const maxTalk = 16 << 10

var (
	// escapes are the colours of a terminal (ECMA-48).
	escapes = lazyregexp.New("\x1b\\[[0-9;]*[A-Za-z]")
	// codeTalk matches codex's request to open a page and to enter a code there.
	codeTalk = lazyregexp.New(`(?s)(https?://\S+)\s.*?\b([A-Z0-9]{4,8}-[A-Z0-9]{4,8})\s`)
)

// deviceTalk passes on codex's words to the person, and writes the device code in them as JSON. codex may write
// to both of its streams.
type deviceTalk struct {
	people io.Writer
	json   io.Writer

	mu   sync.Mutex
	text []byte
	done bool
}

// Write implements io.Writer.
func (d *deviceTalk) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.done {
		d.text = append(d.text, p[:min(len(p), maxTalk-len(d.text))]...)
		if found := codeTalk.FindStringSubmatch(escapes.ReplaceAllString(string(d.text), "")); found != nil {
			d.done, d.text = true, nil
			if err := json.NewEncoder(d.json).Encode(deviceCode{found[1], found[2]}); err != nil {
				return 0, err
			}
		}
	}
	return d.people.Write(p)
}
