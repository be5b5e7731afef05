package units

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"time"
)

// rampOf is the ramp of a service on a systemd that knows of RestartSec= alone:
// the rest stands in the files that systemd has read for it, the later ones of
// which override. As systemd does, it ignores what it cannot read.
func rampOf(first time.Duration, files []string) Ramp {
	r := Ramp{First: first}
	for _, name := range files {
		if f, err := os.Open(name); err == nil {
			r.read(bufio.NewScanner(f))
			_ = f.Close()
		}
	}
	return r
}

func (r *Ramp) read(lines *bufio.Scanner) {
	section := ""
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			section = line
		}
		key, value, _ := strings.Cut(line, "=")
		if section == "[Service]" {
			r.set(strings.TrimSpace(key), strings.TrimSpace(value))
		}
	}
}

func (r *Ramp) set(key, value string) {
	switch key {
	case "RestartSteps":
		if n, err := strconv.ParseUint(value, 0, 32); err == nil {
			r.Steps = uint(n)
		}
	case "RestartMaxDelaySec":
		if d, ok := parseSpan(value); ok {
			r.Max = d
		}
	}
}

// spans are the units of systemd.time(7), "Parsing time spans", that a delay may have.
var spans = map[string]time.Duration{
	"us": time.Microsecond, "usec": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond,
	"ms": time.Millisecond, "msec": time.Millisecond,
	"": time.Second, "s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
}

// parseSpan understands "10s", "1min 30s", "2.5" and "infinity", which is 0.
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
