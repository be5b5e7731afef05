package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// command is what the program's help says of one command.
type command struct {
	name     string
	summary  string
	group    string
	synopsis []string // one line a form
	body     []string // the lines of its help below the synopsis
	options  []option
	words    []string // what may follow the name, such as add in keys add
	worker   bool     // a worker's name may follow
}

// option is one line of a command's help: --name, perhaps with a value.
type option struct {
	name     string // with its dashes
	value    string // such as FILE; empty: none
	optional bool   // --name[=VALUE]
	summary  string
}

// file says whether the value is a path.
func (o option) file() bool { return o.value == "FILE" || o.value == "PATH" || o.value == "DIR" }

var (
	listed     = regexp.MustCompile(`^  ([a-z-]+)(?: [a-z-]+)*  +(\S.*)$`)
	optionLine = regexp.MustCompile(`^  (--[a-z-]+)(\[=([A-Z]+)\]|[ =]([A-Z]+(?:[:=,][A-Z]+)?))?(?:  +(\S.*))?$`)
	bracketed  = regexp.MustCompile(`\[[^][]*\](\.\.\.)?`)
	plainWord  = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// askCommands runs the program for its help, and for that of every command.
func askCommands(ctx context.Context, program string) ([]command, error) {
	text, err := ask(ctx, program, "help")
	if err != nil {
		return nil, err
	}
	commands := parseHelp(text)
	if len(commands) == 0 {
		return nil, fmt.Errorf("%s help lists no command", program)
	}
	for i := range commands {
		c := &commands[i]
		if c.name == "help" {
			c.synopsis = []string{"codex-proxy " + c.name}
			continue
		}
		text, err := ask(ctx, program, c.name, "--help")
		if err != nil {
			return nil, err
		}
		if err := c.parse(text); err != nil {
			return nil, err
		}
	}
	return commands, nil
}

func ask(ctx context.Context, program string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, program, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return string(out), nil
}

// parseHelp reads the list of commands, group by group.
func parseHelp(text string) []command {
	var commands []command
	var group string
	for _, line := range lines(text) {
		if title, ok := strings.CutSuffix(line, ":"); ok && !strings.HasPrefix(line, " ") {
			group = title
		}
		if m := listed.FindStringSubmatch(line); m != nil {
			commands = append(commands, command{name: m[1], summary: m[2], group: group})
		}
	}
	return commands
}

// parse reads the command's own help.
func (c *command) parse(text string) error {
	usage, ok := strings.CutPrefix(text, "Usage: ")
	if !ok {
		return fmt.Errorf("cannot read the help of %s: it does not begin with \"Usage: \"", c.name)
	}
	all := lines(usage)
	end := max(slices.Index(all, ""), 1)
	for _, line := range all[:end] {
		c.synopsis = append(c.synopsis, strings.Join(strings.Fields(line), " "))
	}
	c.body = all[min(end+1, len(all)):]
	for i, line := range c.body {
		if m := optionLine.FindStringSubmatch(line); m != nil {
			c.options = append(c.options, option{name: m[1], value: m[3] + m[4], optional: m[3] != "", summary: firstSentence(c.body[i:], m[5])})
		}
	}
	c.readWords()
	return nil
}

// firstSentence is what an option's text begins with, which may go on in the
// lines below it.
func firstSentence(rows []string, text string) string {
	column := strings.Index(rows[0], text)
	for _, row := range rows[1:] {
		if text == "" || row == "" || indent(row) != column {
			break
		}
		text += " " + strings.TrimSpace(row)
	}
	text, _, _ = strings.Cut(text, ". ")
	return strings.TrimRight(text, ".:")
}

// readWords takes from the synopsis what is to be typed as it stands.
func (c *command) readWords() {
	forms := strings.Join(c.synopsis, " | ")
	c.worker = strings.Contains(forms, "WORKER") || strings.HasPrefix(c.name, "worker-")
	rest, _, _ := strings.Cut(strings.ReplaceAll(forms, "codex-proxy "+c.name, ""), " -- ")
	for bracketed.MatchString(rest) { // from the innermost outwards
		rest = bracketed.ReplaceAllString(rest, "")
	}
	for _, word := range strings.FieldsFunc(rest, func(r rune) bool { return r == ' ' || r == '|' || r == '(' || r == ')' }) {
		if plainWord.MatchString(word) && !slices.Contains(c.words, word) {
			c.words = append(c.words, word)
		}
	}
}
