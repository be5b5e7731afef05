package main

import (
	"fmt"
	"os"
	"strings"
)

const unitDir = "packaging/systemd/"

// sources are the texts that the pages of a book are made of.
type sources struct {
	book
	date     string
	commands []command
	files    map[string]string
}

// pages returns the pages by their names below -out, without .gz.
func (b book) pages(commands []command) (map[string]string, error) {
	s := sources{book: b, commands: commands, files: map[string]string{}}
	var err error
	if s.date, err = date(); err != nil {
		return nil, err
	}
	if err := s.read(b.operations); err != nil {
		return nil, err
	}
	pages := map[string]string{"man/" + b.program + ".1": s.programPage()}
	for _, p := range b.settings {
		if err := s.read(p.source); err != nil {
			return nil, err
		}
		pages["man/"+p.name+".5"] = s.settingsPage(p)
	}
	for _, u := range b.units {
		if err := s.read(unitDir + u.unit); err != nil {
			return nil, err
		}
		if pages["man/"+u.unit+".8"], err = s.unitPage(u); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

func (s sources) read(name string) error {
	text, err := os.ReadFile(name)
	s.files[name] = string(text)
	return err
}

// programPage is the page of section 1.
func (s sources) programPage() string {
	r := newPage(s.program, s.program, 1, s.date, s.summary)
	r.section("Synopsis")
	for _, c := range s.commands {
		r.synopsis(c)
	}
	r.section("Description")
	r.paragraph(s.description)
	var group string
	for _, c := range s.commands {
		if c.Group != group {
			group = c.Group
			r.section(group)
		}
		r.subsection(s.program + " " + c.Name)
		r.synopsis(c)
		r.help(c.Text)
		for _, o := range c.Options {
			r.option(o)
		}
	}
	r.items("Exit status", s.status)
	r.items("Files", s.book.files)
	r.seeAlso(s.seeAlso...)
	return r.String()
}

func (r *roff) synopsis(c command) {
	for _, form := range c.Synopsis {
		r.next()
		r.bold(form)
	}
}

// settingsPage is the page of a reference file.
func (s sources) settingsPage(p settingsPage) string {
	r := newPage(s.program, p.name, 5, s.date, p.summary+" of "+s.program)
	r.section("Synopsis")
	r.text(p.path)
	r.section("Description")
	r.reference(s.files[p.source])
	r.items("Files", s.book.files)
	r.seeAlso(s.settingsSeeAlso...)
	return r.String()
}

// unitPage is the unit's page of section 8.
func (s sources) unitPage(u unitPage) (string, error) {
	r := newPage(s.program, u.unit, 8, s.date, u.summary)
	r.section("Synopsis")
	r.text(u.synopsis)
	r.section("Description")
	r.paragraph(u.description)
	for _, text := range u.paragraphs {
		r.paragraph(text)
	}
	for _, title := range u.sections {
		if err := r.sectionOf(s.files[s.operations], title); err != nil {
			return "", fmt.Errorf("%s: %w", s.operations, err)
		}
	}
	r.unit(s.files[unitDir+u.unit])
	r.items("Files", s.book.files)
	r.seeAlso(s.unitSeeAlso...)
	return r.String(), nil
}

// items is a section of tags, each with its text.
func (r *roff) items(title string, items [][2]string) {
	r.section(title)
	for _, item := range items {
		r.item(item[0], item[1])
	}
}

func (r *roff) seeAlso(pages ...string) {
	r.section("See also")
	for i, page := range pages {
		name, section, _ := strings.Cut(page, "(")
		end := ","
		if i == len(pages)-1 {
			end = ""
		}
		fmt.Fprintf(r, ".BR %s (%s%s\n", escape(name), section, end)
	}
}
