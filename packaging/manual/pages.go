package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

// book is the source of the man pages of a program, in addition to the templates in the directory of its name:
// Markdown, one file a page, with the functions below.
type book struct {
	program, date string
	commands      []command
}

// functions returns the functions of the templates. Each returns Markdown.
func (b book) functions() template.FuncMap {
	return template.FuncMap{
		"synopsis": b.synopsis, "commands": b.reference, "section": section, "body": body,
		"directives": directives,
	}
}

// pages returns the pages by their names below -out, without .gz.
func (b book) pages() (map[string]string, error) {
	templates, err := template.New("").Funcs(b.functions()).ParseGlob("packaging/manual/" + b.program + "/*.md")
	if err != nil {
		return nil, fmt.Errorf("%s has no pages: %w", b.program, err)
	}
	pages := map[string]string{}
	for _, page := range templates.Templates() {
		name := strings.TrimSuffix(page.Name(), ".md")
		section := strings.TrimPrefix(filepath.Ext(name), ".")
		if section == "" { // a part of several pages
			continue
		}
		var text bytes.Buffer
		fmt.Fprintf(&text, "%% %q %q %q %q\n\n", strings.ToUpper(strings.TrimSuffix(name, "."+section)), section,
			b.date, b.program)
		if err := page.Execute(&text, nil); err != nil {
			return nil, err
		}
		pages["man/"+name] = tidy(md2man.Render(text.Bytes()))
	}
	return pages, nil
}

// tidy removes the empty lines that md2man leaves between paragraphs, which man(7) would show, and folds long lines of
// text.
func tidy(page []byte) string {
	var b strings.Builder
	example := false
	for line := range strings.Lines(string(page)) {
		switch {
		case line == ".EX\n" || line == ".EE\n":
			example = line == ".EX\n"
		case strings.HasPrefix(line, ".SS "):
			line = strings.ReplaceAll(minus.Replace(line), `"`, `\(dq`) // else quotes group arguments
		case strings.HasPrefix(line, "."):
		case example:
			line = minus.Replace(line)
		case line == "\n":
			continue
		default:
			line = folded(minus.Replace(line))
		}
		b.WriteString(line)
	}
	return b.String()
}

const longest = 76

// minus keeps names whole, which may be broken at hyphens.
var minus = strings.NewReplacer(`\-`, `\-`, "-", `\-`)

// folded is a line of text in lines that are not too long. No word of it becomes a request, which begins with . or ':
// the escape before it prints nothing.
func folded(line string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(line) {
		switch {
		case i == 0:
		case column+1+len(word) > longest:
			b.WriteByte('\n')
			column = 0
			if strings.IndexByte(".'", word[0]) >= 0 {
				word = `\&` + word
			}
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String() + "\n"
}

// synopsis has the forms of all commands.
func (b book) synopsis() string {
	var all []string
	for _, c := range b.commands {
		all = append(all, c.forms())
	}
	return strings.Join(all, "\n\n")
}

// reference describes all commands.
func (b book) reference() string {
	var all []string
	var group string
	for _, c := range b.commands {
		if c.Group != group {
			group = c.Group
			all = append(all, "# "+strings.ToUpper(group))
		}
		all = append(all, "### "+b.program+" "+c.Name, c.forms(), blocks(lines(c.Text), ""))
		for _, o := range c.Options {
			all = append(all, item(plain(o.Tag), blocks(lines(o.Text), within)))
		}
	}
	return strings.Join(all, "\n\n")
}

func (c command) forms() string {
	var all []string
	for _, form := range c.Synopsis {
		all = append(all, bold(plain(form)))
	}
	return strings.Join(all, "\n\n")
}

// section is the section (##) of that title of a document, with its heading.
func section(document, title string) (string, error) {
	text, err := body(document, title)
	return "# " + strings.ToUpper(title) + "\n" + text, err
}

// body is a section of a document without its heading. If there is none it is an error: the document was changed
// without its page.
func body(document, title string) (string, error) {
	text, err := os.ReadFile(document)
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(string(text), "\n## "+title+"\n")
	if !ok {
		return "", fmt.Errorf("there is no section %q in %s", title, document)
	}
	text, _, _ = bytes.Cut([]byte(rest), []byte("\n## "))
	return heading.ReplaceAllStringFunc(unlinked(itemised(string(text))), func(key string) string {
		return "### " + plain(strings.Trim(key, "#` "))
	}), nil
}
