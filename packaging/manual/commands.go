package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
)

// command is a command of the program, as internal/cli describes it: the content of its --help.
type command struct {
	Name     string   `json:"name"`
	Summary  string   `json:"summary"`
	Group    string   `json:"group"`
	Synopsis []string `json:"synopsis"` // one line a form
	Text     string   `json:"text"`
	Options  []option `json:"options"`
}

type option struct {
	Tag  string `json:"tag"` // such as --config FILE
	Text string `json:"text"`
}

// describe returns the commands of the program.
func describe(ctx context.Context, program string) ([]command, error) {
	out, err := exec.CommandContext(ctx, program, "__describe").Output()
	if err != nil {
		return nil, fmt.Errorf("%s __describe: %w", program, err)
	}
	var commands []command
	if err := json.Unmarshal(out, &commands); err != nil {
		return nil, fmt.Errorf("cannot read the description of %s: %w", program, err)
	}
	return commands, nil
}
