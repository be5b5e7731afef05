package main

import (
	"fmt"
	"strings"
)

const workerNames = "/etc/codex-proxy/workers"

// bashCompletion is loaded by bash-completion on the first TAB.
func bashCompletion(commands []command) string {
	var b strings.Builder
	b.WriteString(`# bash completion for codex-proxy

_codex_proxy_workers() {
	local file
	for file in ` + workerNames + `/*.toml; do
		[[ -e $file ]] && file=${file##*/} && echo "${file%.toml}"
	done
}

_codex_proxy() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words='' options='' files=''
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		COMPREPLY=($(compgen -W '` + names(commands) + `' -- "$cur"))
		return
	fi
	case ${COMP_WORDS[1]} in
`)
	for _, c := range commands {
		if line := bashCase(c); line != "" {
			fmt.Fprintf(&b, "\t%s)%s ;;\n", c.name, line)
		}
	}
	b.WriteString(`	esac
	case " $files " in
	*" $prev "*)
		COMPREPLY=($(compgen -f -- "$cur"))
		return
		;;
	esac
	if [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$options --help" -- "$cur"))
	else
		COMPREPLY=($(compgen -W "$words" -- "$cur"))
	fi
} && complete -o default -F _codex_proxy codex-proxy
`)
	return b.String()
}

func bashCase(c command) string {
	var line string
	var options, files []string
	for _, o := range c.options {
		options = append(options, o.name)
		if o.file() {
			files = append(files, o.name)
		}
	}
	if options != nil {
		line += fmt.Sprintf(" options='%s'", strings.Join(options, " "))
	}
	if files != nil {
		line += fmt.Sprintf(" files='%s'", strings.Join(files, " "))
	}
	switch {
	case c.words != nil:
		line += fmt.Sprintf(" words='%s'", strings.Join(c.words, " "))
	case c.worker:
		line += " words=$(_codex_proxy_workers)"
	}
	return line
}

// zshCompletion is an autoloaded function of the completion system, zshcompsys(1).
func zshCompletion(commands []command) string {
	var b strings.Builder
	b.WriteString("#compdef codex-proxy\n\nlocal -a commands workers\ncommands=(\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "\t%s\n", shellQuote(c.name+":"+c.summary))
	}
	b.WriteString(")\nworkers=(" + workerNames + `/*.toml(N:t:r))
if ((CURRENT == 2)); then
	_describe command commands
	return
fi
shift words
((CURRENT--))
case $words[1] in
`)
	for _, c := range commands {
		if specs := zshSpecs(c); specs != nil {
			fmt.Fprintf(&b, "%s)\n\t_arguments %s\n\t;;\n", c.name, strings.Join(specs, " \\\n\t\t"))
		}
	}
	b.WriteString("*)\n\t_default\n\t;;\nesac\n")
	return b.String()
}

var zshEscapes = strings.NewReplacer("[", `\[`, "]", `\]`, ":", `\:`)

func zshSpecs(c command) []string {
	var specs []string
	for _, o := range c.options {
		spec := o.name
		switch {
		case o.optional:
			spec += "=-"
		case o.value != "":
			spec += "="
		}
		if o.summary != "" {
			spec += "[" + zshEscapes.Replace(o.summary) + "]"
		}
		if o.value != "" {
			spec += strings.Repeat(":", 1+btoi(o.optional)) + zshEscapes.Replace(o.value) + ":"
		}
		if o.file() {
			spec += "_files"
		}
		specs = append(specs, shellQuote(spec))
	}
	switch {
	case c.words != nil:
		specs = append(specs, shellQuote("1:what:("+strings.Join(c.words, " ")+")"))
	case c.worker:
		specs = append(specs, `"1:worker:($workers)"`)
	}
	return specs
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fishCompletion is a list of complete(1) lines of fish.
func fishCompletion(commands []command) string {
	var b strings.Builder
	b.WriteString("# fish completion for codex-proxy\n\ncomplete -c codex-proxy -f\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "complete -c codex-proxy -n __fish_use_subcommand -a %s -d %s\n", c.name, shellQuote(c.summary))
	}
	for _, c := range commands {
		when := fmt.Sprintf("complete -c codex-proxy -n '__fish_seen_subcommand_from %s'", c.name)
		for _, o := range c.options {
			line := when + " -l " + strings.TrimPrefix(o.name, "--")
			switch {
			case o.file():
				line += " -r -F"
			case o.value != "" && !o.optional:
				line += " -x"
			}
			if o.summary != "" {
				line += " -d " + shellQuote(o.summary)
			}
			b.WriteString(line + "\n")
		}
		if c.words != nil {
			fmt.Fprintf(&b, "%s -a %s\n", when, shellQuote(strings.Join(c.words, " ")))
		} else if c.worker {
			fmt.Fprintf(&b, "%s -a '(path basename -E %s/*.toml 2>/dev/null)'\n", when, workerNames)
		}
	}
	return b.String()
}

func names(commands []command) string {
	var all []string
	for _, c := range commands {
		all = append(all, c.name)
	}
	return strings.Join(all, " ")
}

func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
