package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

const (
	helpWidth = 80
	maxTag    = 24 // columns; the text of a longer tag begins below it
)

// help is the help text of c: of the whole program if c is its root.
func (p *Program) help(c *cobra.Command) string {
	if !c.HasParent() {
		return p.overview()
	}
	d := p.describe(c)
	var b strings.Builder
	for i, form := range d.Synopsis {
		lead := "       "
		if i == 0 {
			lead = "Usage: "
		}
		writeFilled(&b, lead, strings.Repeat(" ", 11), strings.Split(hold(form), " "))
	}
	fmt.Fprintf(&b, "\n%s\n", d.Text)
	if len(d.Options) > 0 {
		b.WriteString("\n")
		writeOptions(&b, d.Options)
	}
	if c.Parent().HasParent() {
		fmt.Fprintf(&b, "\n%s --help describes all commands of its kind.\n", c.Parent().CommandPath())
	}
	return strings.ReplaceAll(b.String(), held, " ")
}

// overview lists the commands of the program.
func (p *Program) overview() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: %s\n", p.root.Use)
	width := 0
	for _, group := range p.groups {
		for _, c := range group.Commands {
			width = max(width, len(c.Name()))
		}
	}
	for _, group := range p.groups {
		fmt.Fprintf(&b, "\n%s:\n", group.Title)
		for _, c := range group.Commands {
			fmt.Fprintf(&b, "  %-*s  %s\n", width, c.Name(), c.Short)
		}
	}
	fmt.Fprintf(&b, "\n%s COMMAND --help describes a command.\n", p.root.Name())
	return b.String()
}

func writeOptions(b *strings.Builder, options []option) {
	width := 0
	for _, o := range options {
		if len(o.Tag) <= maxTag {
			width = max(width, len(o.Tag))
		}
	}
	indent := strings.Repeat(" ", width+4)
	for _, o := range options {
		lead := fmt.Sprintf("  %-*s  ", width, o.Tag)
		if len(o.Tag) > width {
			b.WriteString("  " + o.Tag + "\n")
			lead = indent
		}
		for _, block := range textBlocks(o.Text) {
			if strings.HasPrefix(block[0], " ") {
				for _, line := range block {
					b.WriteString(indent + line + "\n")
				}
			} else {
				writeFilled(b, lead, indent, strings.Fields(strings.Join(block, " ")))
			}
			lead = indent
		}
	}
}

// textBlocks splits a text where indented lines begin or end.
func textBlocks(text string) [][]string {
	var blocks [][]string
	for i, line := range strings.Split(text, "\n") {
		last := len(blocks) - 1
		if i == 0 || strings.HasPrefix(line, " ") != strings.HasPrefix(blocks[last][0], " ") {
			blocks = append(blocks, []string{line})
		} else {
			blocks[last] = append(blocks[last], line)
		}
	}
	return blocks
}

// held is a space at which no line may end.
const held = "\u00a0"

// hold keeps the words of an option in a usage line on one line.
func hold(form string) string {
	var b strings.Builder
	depth := 0
	for _, r := range form {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == ' ' && depth > 0:
			b.WriteString(held)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// writeFilled writes words in lines of up to helpWidth columns; lead begins the
// first line and indent the others.
func writeFilled(b *strings.Builder, lead, indent string, words []string) {
	line := lead
	for i, word := range words {
		switch {
		case i == 0:
		case len([]rune(line))+1+len([]rune(word)) > helpWidth:
			b.WriteString(line + "\n")
			line = indent
		default:
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
}
