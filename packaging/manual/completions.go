package main

import (
	"bytes"

	"github.com/spf13/cobra"
)

// completions returns the scripts for shells by their names below -out. They ask
// the program for words (__complete), and depend on its name alone.
func completions(program string) (map[string][]byte, error) {
	root := &cobra.Command{Use: program}
	var bash, zsh, fish bytes.Buffer
	if err := root.GenBashCompletionV2(&bash, true); err != nil {
		return nil, err
	}
	if err := root.GenZshCompletion(&zsh); err != nil {
		return nil, err
	}
	if err := root.GenFishCompletion(&fish, true); err != nil {
		return nil, err
	}
	return map[string][]byte{
		"completions/" + program + ".bash": bash.Bytes(),
		"completions/" + program + ".zsh":  zsh.Bytes(),
		"completions/" + program + ".fish": fish.Bytes(),
	}, nil
}
