package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codex-proxy/internal/nearest"
)

// Misuse is an error about the command line of c: it leads to the help of c.
func Misuse(c *cobra.Command, format string, args ...any) error {
	return Exit(Usage, fmt.Errorf("%w; see %s --help", fmt.Errorf(format, args...), c.CommandPath()))
}

// unknown is the error about the first word of args that should be a command and is not one; nil if there is no such
// word.
func (p *Program) unknown(args []string) error {
	c, rest, _ := p.root.Find(args)
	if !c.HasSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") || strings.HasPrefix(args[0], "__") {
		return nil
	}
	return unknownCommand(c, rest[0])
}

// find returns the command that args name, as far as they do.
func (p *Program) find(args []string) *cobra.Command {
	c, _, _ := p.root.Find(args)
	return c
}

func unknownCommand(c *cobra.Command, word string) error {
	see := c.CommandPath() + " --help"
	if !c.HasParent() {
		see = c.Name() + " help"
	}
	path := strings.TrimPrefix(c.CommandPath()+" "+word, c.Root().Name()+" ")
	return Exit(Usage, fmt.Errorf("unknown command %q%s; see %s", path, meant(word, names(c)), see))
}

// names are the names of the commands below c.
func names(c *cobra.Command) []string {
	var all []string
	for _, child := range c.Commands() {
		if !child.Hidden {
			all = append(all, child.Name())
		}
	}
	return all
}

// meant suggests the candidate nearest to word.
func meant(word string, candidates []string) string {
	if near := nearest.To(word, candidates, 1); near != nil {
		return fmt.Sprintf(" (did you mean %q?)", near[0])
	}
	return ""
}

// flagError explains an error of pflag about an option.
func flagError(c *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := missing.GetSpecifiedName()
		if letters := missing.GetSpecifiedShortnames(); letters != "" {
			return Misuse(c, "unknown option -%s%s", letters, meant("--"+letters, options(c)))
		}
		return Misuse(c, "unknown option --%s%s", name, meant("--"+name, options(c)))
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return Misuse(c, "--%s=%s: %w", bad.GetFlag().Name, bad.GetValue(), bad.Unwrap())
	}
	if bare, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		flag := bare.GetFlag()
		return Misuse(c, "--%s needs a value: --%s %s", flag.Name, flag.Name, flag.Value.Type())
	}
	return Misuse(c, "%w", err)
}

// options are the options of c, with their dashes.
func options(c *cobra.Command) []string {
	var all []string
	c.Flags().VisitAll(func(f *pflag.Flag) { all = append(all, "--"+f.Name) })
	return all
}
