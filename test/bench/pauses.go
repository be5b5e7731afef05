package main

import (
	"bufio"
	"bytes"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// pauses drains the log of a Go program, and keeps the times for which its collector
// stopped the world, from the lines of GODEBUG=gctrace=1 (package runtime).
type pauses struct {
	mu   sync.Mutex
	rest []byte
	tail []byte
	all  []time.Duration
}

// The first and the third of the wall-clock times are the ones with a stopped
// world: sweep termination and mark termination.
var gcLine = regexp.MustCompile(`gc \d+ @\S+ \d+%: ([0-9.]+)\+[0-9.]+\+([0-9.]+) ms clock`)

// Write takes the next bytes of the log.
func (p *pauses) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest = append(p.rest, b...)
	end := bytes.LastIndexByte(p.rest, '\n') + 1
	for lines := bufio.NewScanner(bytes.NewReader(p.rest[:end])); lines.Scan(); {
		if m := gcLine.FindSubmatch(lines.Bytes()); m != nil {
			p.all = append(p.all, milliseconds(m[1]), milliseconds(m[2]))
		}
	}
	if end > 0 {
		p.tail = append(p.tail[:0], p.rest[max(0, end-2000):end]...)
	}
	p.rest = append(p.rest[:0], p.rest[end:]...)
	return len(b), nil
}

func milliseconds(b []byte) time.Duration {
	ms, _ := strconv.ParseFloat(string(b), 64) // the pattern matches only numbers
	return time.Duration(ms * float64(time.Millisecond))
}

// last is the end of the log.
func (p *pauses) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.tail)
}

func (p *pauses) worst(q float64) (time.Duration, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return quantile(p.all, q), len(p.all) / 2
}
