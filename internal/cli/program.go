// Package cli is the command line of a program: a tree of cobra commands with help text, description for man pages and
// completions from the same data. A command returns an error; the package prints it and chooses the exit status.
package cli

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
)

// Group is a list of commands under one title of the program's help.
type Group struct {
	Title    string
	Commands []*cobra.Command
}

// Program is a program with commands. It is used by one goroutine.
type Program struct {
	root   *cobra.Command
	groups []Group
}

// New returns the program with the commands of groups. It adds the commands
// version and help to the first group.
func New(name, version string, groups ...Group) *Program {
	p := &Program{groups: slices.Clone(groups)}
	p.root = &cobra.Command{
		Use:                name + " COMMAND [OPTION]...",
		SilenceErrors:      true,
		SilenceUsage:       true,
		DisableSuggestions: true,
		CompletionOptions:  cobra.CompletionOptions{DisableDefaultCmd: true}, // the packages install the scripts
	}
	show := versionCommand(name, version)
	option := p.root.Flags().Bool("version", false, "print the version")
	p.root.RunE = func(c *cobra.Command, args []string) error {
		if *option && len(args) == 0 {
			return show.RunE(c, nil)
		}
		return p.noCommand(c, args)
	}
	p.root.SetHelpFunc(func(c *cobra.Command, _ []string) { fmt.Fprint(c.OutOrStdout(), p.help(c)) })
	p.root.SetFlagErrorFunc(flagError)
	help := p.helpCommand()
	p.root.SetHelpCommand(help)
	p.groups[0].Commands = append(slices.Clone(groups[0].Commands), show, help)
	for _, group := range p.groups {
		p.root.AddCommand(group.Commands...)
	}
	p.root.AddCommand(p.describeCommand())
	p.adopt(p.root)
	return p
}

// Run executes the command line args and returns the exit status. It prints an
// error as one line, "PROGRAM COMMAND: …", to stderr.
func (p *Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p.root.SetArgs(append([]string{}, args...))
	p.root.SetOut(stdout)
	p.root.SetErr(stderr)
	c, err := p.root.ExecuteContextC(ctx)
	if err == nil {
		return OK
	}
	if unknown := p.unknown(args); unknown != nil {
		c, err = p.root, unknown
	}
	return report(stderr, c.CommandPath(), err)
}

// adopt completes a command and the commands below it: the usage line determines its arguments, a command with others
// below it does nothing itself, and values are completed as files only if they are files.
func (p *Program) adopt(c *cobra.Command) {
	c.Flags().SortFlags = false
	c.PersistentFlags().SortFlags = false
	c.LocalFlags().SortFlags = false
	if c.RunE == nil {
		c.RunE = p.noCommand
	} else if c != p.root {
		c.RunE = failing(c.RunE)
		if c.Args == nil {
			c.Args = arguments
		}
		if c.ValidArgsFunction == nil && takesNoFile(c) {
			c.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
	completeFiles(c)
	for _, child := range c.Commands() {
		p.adopt(child)
	}
}

// noCommand runs for a command line without a command, or with an unknown one.
func (p *Program) noCommand(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(c, args[0])
	}
	fmt.Fprint(c.ErrOrStderr(), p.help(c))
	return Exit(Usage, nil)
}

func versionCommand(name, version string) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version",
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), name, version)
			return err
		},
	}
}

func (p *Program) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]...", Short: "print this text, or that of a command",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return names(p.find(args)), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			if unknown := p.unknown(args); unknown != nil {
				return Exit(Usage, unknown)
			}
			fmt.Fprint(c.OutOrStdout(), p.help(p.find(args)))
			return nil
		},
	}
}
