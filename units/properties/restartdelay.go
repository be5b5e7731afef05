package properties

import (
	"bufio"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// restartDelays are the growing delays before a service's automatic restarts:
// RestartSec=, RestartSteps= and RestartMaxDelaySec= of systemd.service(5).
type restartDelays struct {
	first time.Duration
	steps uint
	max   time.Duration // 0: infinity, which means no growth
}

// before is the delay before the restart of that number, from 1, as systemd 254
// and later compute it: service_restart_usec_next in src/core/service.c.
func (d restartDelays) before(restart uint32) time.Duration {
	switch {
	case restart <= 1, d.steps == 0, d.first <= 0, d.first >= d.max:
		return d.first
	case uint(restart) > d.steps:
		return d.max
	}
	growth := math.Pow(float64(d.max)/float64(d.first), float64(restart-1)/float64(d.steps))
	return time.Duration(float64(d.first) * growth)
}

// rest is the rest of that delay after RestartSec=.
func (d restartDelays) rest(restart uint32) time.Duration { return d.before(restart) - d.first }

// restartDelaysIn reads the delays of a service from its files, of which later ones
// override: a systemd before 254 reports RestartSec= alone, which is first. Like
// systemd it ignores lines that it cannot parse, and files that it cannot read.
func restartDelaysIn(files []string, first time.Duration) restartDelays {
	d := restartDelays{first: first}
	for _, name := range files {
		if f, err := os.Open(name); err == nil {
			d.read(bufio.NewScanner(f))
			_ = f.Close()
		}
	}
	return d
}

func (d *restartDelays) read(lines *bufio.Scanner) {
	section := ""
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			section = line
		}
		key, value, _ := strings.Cut(line, "=")
		if section == "[Service]" {
			d.set(strings.TrimSpace(key), strings.TrimSpace(value))
		}
	}
}

func (d *restartDelays) set(key, value string) {
	switch key {
	case "RestartSteps":
		if n, err := strconv.ParseUint(value, 0, 32); err == nil {
			d.steps = uint(n)
		}
	case "RestartMaxDelaySec":
		if limit, ok := parseSpan(value); ok {
			d.max = limit
		}
	}
}

// spans are those units of systemd.time(7), "Parsing time spans", that suit a delay.
var spans = map[string]time.Duration{
	"us": time.Microsecond, "usec": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond,
	"ms": time.Millisecond, "msec": time.Millisecond,
	"": time.Second, "s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
}

// parseSpan parses "10s", "1min 30s", "2.5" and "infinity", which is 0.
func parseSpan(text string) (total time.Duration, ok bool) {
	if text == "infinity" {
		return 0, true
	}
	for text != "" {
		end := len(text) - len(strings.TrimLeft(text, "0123456789."))
		n, err := strconv.ParseFloat(text[:end], 64)
		rest := strings.TrimLeft(text[end:], " \t")
		length := strings.IndexAny(rest, "0123456789 \t")
		if length < 0 {
			length = len(rest)
		}
		span, known := spans[rest[:length]]
		if err != nil || !known {
			return 0, false
		}
		total += time.Duration(n * float64(span))
		text, ok = strings.TrimLeft(rest[length:], " \t"), true
	}
	return total, ok
}
