package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// describeName is the hidden command that prints the description of all commands
// as JSON, of which packaging/manual makes man pages.
const describeName = "__describe"

// description is the content of the help text and the man page of a command.
type description struct {
	Name     string   `json:"name"`
	Summary  string   `json:"summary"`
	Group    string   `json:"group"`
	Synopsis []string `json:"synopsis"` // one line a form
	Text     string   `json:"text"`     // paragraphs; an indented line stays as it is
	Options  []option `json:"options"`
}

// option is an option of a command.
type option struct {
	Tag  string `json:"tag"`  // such as --config FILE, or -f, --follow
	Text string `json:"text"` // the first line is a summary; an indented line stays as it is
}

// describe returns the description of c. A command with others below it has their
// forms and options.
func (p *Program) describe(c *cobra.Command) description {
	d := description{Name: c.Name(), Summary: c.Short, Text: strings.TrimSpace(c.Long)}
	if d.Text == "" && c.Short != "" {
		d.Text = strings.ToUpper(c.Short[:1]) + c.Short[1:] + "."
	}
	seen := map[string]bool{"help": true}
	add := func(flags *pflag.FlagSet) {
		flags.VisitAll(func(f *pflag.Flag) {
			if !seen[f.Name] && !f.Hidden {
				seen[f.Name] = true
				d.Options = append(d.Options, describeOption(f))
			}
		})
	}
	if !c.HasSubCommands() {
		d.Synopsis = []string{synopsis(c)}
		add(c.NonInheritedFlags())
		add(c.InheritedFlags())
		return d
	}
	for _, child := range c.Commands() {
		d.Synopsis = append(d.Synopsis, synopsis(child))
		add(child.NonInheritedFlags())
	}
	add(c.PersistentFlags())
	return d
}

func describeOption(f *pflag.Flag) option {
	o := option{Tag: tag(f), Text: strings.TrimSpace(f.Usage)}
	if f.Shorthand != "" {
		o.Tag = "-" + f.Shorthand + ", " + o.Tag
	}
	if f.Value.Type() != "bool" && f.DefValue != "" {
		o.Text += " (" + f.DefValue + ")"
	}
	return o
}

// tag is an option with its value, such as --config FILE.
func tag(f *pflag.Flag) string {
	switch {
	case f.Value.Type() == "bool":
		return "--" + f.Name
	case f.NoOptDefVal != "":
		return "--" + f.Name + "[=" + f.Value.Type() + "]"
	}
	return "--" + f.Name + " " + f.Value.Type()
}

// fewOptions is how many of them a usage line names.
const fewOptions = 4

// synopsis is the usage line of a command that can be run: its arguments as in Use,
// and its own options, unless Use names options itself.
func synopsis(c *cobra.Command) string {
	line := c.CommandPath() + strings.TrimPrefix(c.Use, c.Name())
	if strings.Contains(c.Use, "[OPTION]") {
		return line
	}
	var all []string
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden {
			return
		}
		word := tag(f)
		if !isRequired(f) {
			word = "[" + word + "]"
		}
		if _, repeats := f.Value.(texts); repeats {
			word += "..."
		}
		all = append(all, word)
	})
	if len(all) > fewOptions {
		all = []string{"[OPTION]..."}
	}
	return strings.Join(append([]string{line}, all...), " ")
}

// describeCommand prints the description of every command of the help.
func (p *Program) describeCommand() *cobra.Command {
	return &cobra.Command{
		Use: describeName, Hidden: true, Short: "print the description of all commands as JSON",
		RunE: func(c *cobra.Command, _ []string) error {
			var all []description
			for _, group := range p.groups {
				for _, command := range group.Commands {
					d := p.describe(command)
					d.Group = group.Title
					all = append(all, d)
				}
			}
			if err := json.NewEncoder(c.OutOrStdout()).Encode(all); err != nil {
				return fmt.Errorf("cannot print the description: %w", err)
			}
			return nil
		},
	}
}
