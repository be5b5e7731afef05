// Package stopsequence cuts a text that arrives in pieces off at the first stop sequence
// in it. It is pure.
package stopsequence

import "strings"

// Cutter cuts one text. Create it with New; nil cuts nothing. It belongs to one goroutine.
type Cutter struct {
	sequences []string
	first     [256]bool // the bytes with which a sequence begins
	held      string    // the longest end of the text that begins a sequence
}

// New creates the cutter of a text. It returns nil without sequences, none of which may be
// empty. Sequences of valid UTF-8 split no character of a text whose pieces split none.
func New(sequences []string) *Cutter {
	if len(sequences) == 0 {
		return nil
	}
	c := &Cutter{sequences: sequences}
	for _, s := range sequences {
		c.first[s[0]] = true
	}
	return c
}

// Write adds a piece of the text, and returns what can be sent now: all of it but an end
// that may be the beginning of a sequence, at most a byte less than the longest one. Once
// the text holds a whole sequence, cut is true and the text ends before it. Of several
// sequences the one that is complete first counts; of those that end at the same byte, the
// longest. Nothing may be written after the cut.
func (c *Cutter) Write(piece string) (text string, cut bool) {
	if c == nil || c.held == "" && !c.begins(piece) {
		return piece, false
	}
	text, c.held = c.held+piece, ""
	if at := c.cut(text); at >= 0 {
		return text[:at], true
	}
	at := c.beginning(text)
	text, c.held = text[:at], text[at:]
	return text, false
}

// Rest is the end of the text that Write has held back, to be sent when the text has ended.
func (c *Cutter) Rest() (text string) {
	if c != nil {
		text, c.held = c.held, ""
	}
	return text
}

// begins reports whether a sequence may begin in text.
func (c *Cutter) begins(text string) bool {
	for i := range len(text) {
		if c.first[text[i]] {
			return true
		}
	}
	return false
}

// cut is where the sequence begins that is complete first; -1: text holds none.
func (c *Cutter) cut(text string) int {
	at, end := -1, len(text)+1
	for _, s := range c.sequences {
		i := strings.Index(text, s)
		if i >= 0 && (i+len(s) < end || i+len(s) == end && i < at) {
			at, end = i, i+len(s)
		}
	}
	return at
}

// beginning is where the longest end of text begins that is the beginning of a sequence;
// len(text): there is none.
func (c *Cutter) beginning(text string) int {
	for at := range len(text) {
		if c.first[text[at]] && c.beginsWith(text[at:]) {
			return at
		}
	}
	return len(text)
}

func (c *Cutter) beginsWith(end string) bool {
	for _, s := range c.sequences {
		if strings.HasPrefix(s, end) {
			return true
		}
	}
	return false
}
