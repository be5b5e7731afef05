package main

import (
	"fmt"
	"os"
	"strings"
)

const (
	proxyFile  = "packaging/etc/config.toml"
	workerFile = "packaging/etc/workers/default.toml"
	// dependencyFile is the preset that has every key.
	dependencyFile = "packaging/dependencies/template.toml"
	unitDir        = "packaging/systemd/"
	operations     = "docs/operations.md"
)

// sources are the texts that the pages are made of.
type sources struct {
	date     string
	commands []command
	files    map[string]string
}

// manPages returns the pages by their names below -out, without .gz.
func manPages(commands []command) (map[string]string, error) {
	s := sources{commands: commands, files: map[string]string{}}
	var err error
	if s.date, err = date(); err != nil {
		return nil, err
	}
	for _, name := range []string{proxyFile, workerFile, dependencyFile, operations} {
		if err := s.read(name); err != nil {
			return nil, err
		}
	}
	pages := map[string]string{
		"man/codex-proxy.1": s.program(),
		"man/codex-proxy.toml.5": s.settings("codex-proxy.toml", "/etc/codex-proxy/config.toml",
			"settings of the HTTP daemon", proxyFile),
		"man/codex-worker.toml.5": s.settings("codex-worker.toml", "/etc/codex-proxy/workers/NAME.toml",
			"settings of a worker", workerFile),
		"man/codex-dependency.toml.5": s.settings("codex-dependency.toml", "/etc/codex-proxy/dependencies/NAME.toml",
			"settings of a dependency", dependencyFile),
	}
	for _, u := range unitPages {
		if err := s.read(unitDir + u.unit); err != nil {
			return nil, err
		}
		if pages["man/"+u.unit+".8"], err = s.page(u); err != nil {
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

// program is codex-proxy(1).
func (s sources) program() string {
	r := newPage("codex-proxy", 1, s.date, "OpenAI-compatible endpoint in front of codex workers")
	r.section("Synopsis")
	for _, c := range s.commands {
		r.synopsis(c)
	}
	r.section("Description")
	r.paragraph("codex-proxy serves the OpenAI API in front of codex app-server. " +
		"Each worker is a systemd unit of its own, which systemd watches and restarts; readiness follows the real handshake with the worker. " +
		strong + "systemctl start codex-proxy" + plain + " starts everything.")
	var group string
	for _, c := range s.commands {
		if c.Group != group {
			group = c.Group
			r.section(group)
		}
		r.subsection("codex-proxy " + c.Name)
		r.synopsis(c)
		r.help(c.Text)
		for _, o := range c.Options {
			r.option(o)
		}
	}
	r.exitStatus()
	r.files()
	r.seeAlso("codex-proxy.toml(5)", "codex-worker.toml(5)", "codex-dependency.toml(5)", "codex-proxy.service(8)",
		"codex-worker@.service(8)", "codex-dependency@.service(8)")
	return r.String()
}

func (r *roff) synopsis(c command) {
	for _, form := range c.Synopsis {
		r.next()
		r.bold(form)
	}
}

// settings is the page of a reference file.
func (s sources) settings(name, path, summary, source string) string {
	r := newPage(name, 5, s.date, summary+" of codex-proxy")
	r.section("Synopsis")
	r.text(path)
	r.section("Description")
	r.reference(s.files[source])
	r.files()
	r.seeAlso("codex-proxy(1)", "codex-proxy.service(8)", "codex-worker@.service(8)", "codex-dependency@.service(8)")
	return r.String()
}

// unitPage is a page about units, with sections of docs/operations.md.
type unitPage struct {
	unit, summary, synopsis, description string
	paragraphs                           []string // after the description
	sections                             []string
}

var unitPages = []unitPage{
	{
		unit: "codex-proxy.service", summary: "the HTTP daemon under systemd",
		synopsis: "codex-proxy.service, codex-proxy.socket, codex.target",
		description: "codex-proxy.service answers HTTP on the socket of codex-proxy.socket, " +
			"which keeps connections while the service restarts. codex.target contains both and all workers. " +
			strong + "systemctl start codex-proxy" + plain + " starts the target, too; " + strong + "systemctl stop codex.target" + plain + " stops everything.",
		sections: []string{
			"Processes and sockets", "What is going on", "Reasons", "What is wrong", "Upgrades", "Memory", "The control socket",
		},
	},
	{
		unit: "codex-proxy-fetch.service", summary: "images from the network for codex-proxy",
		synopsis:    "codex-proxy-fetch.service, codex-proxy-fetch.socket",
		description: "codex-proxy-fetch.service fetches the images that clients name by URL.",
		sections:    []string{"Images from the network"},
	},
	{
		unit: "codex-proxy-traces.service", summary: "traces of codex-proxy on their way",
		synopsis: "codex-proxy-traces.service, codex-proxy-traces.socket",
		description: "codex-proxy-traces.service sends the daemon's OpenTelemetry traces to the collector " +
			"that [traces] in /etc/codex-proxy/config.toml names.",
		sections: []string{"Traces"},
	},
	{
		unit: "codex-dependency@.service", summary: "a server beside codex-proxy under systemd",
		synopsis: "codex-dependency@NAME.service",
		description: "codex-dependency@NAME.service is one dependency, a server such as a database or a model " +
			"server, with the settings in /etc/codex-proxy/dependencies/NAME.toml. systemctl start returns when the " +
			"server's check passes. systemd restarts it after a crash, at growing intervals, and kills it when the " +
			"check fails for too long. The start is refused, and not tried again, while another process holds its " +
			"lock, its data or one of its ports.",
		paragraphs: []string{
			"At boot and at each " + strong + "systemctl daemon-reload" + plain + " a generator makes a drop-in of the " +
				"file, with the whole command; " + strong + "systemctl cat" + plain + " shows it. A file with a fault " +
				"makes none, and then a start fails with the fault in " + strong + "systemctl status" + plain + ".",
			strong + "codex-proxy dependencies" + plain + " makes, lists, checks and removes dependencies. The keys " +
				"requires, bind_requires and ready_requires of codex-proxy.toml(5) and codex-worker.toml(5) tie the " +
				"daemon or a worker to them. " + strong + "systemctl enable" + plain + " starts one at boot.",
		},
	},
	{
		unit: "codex-worker@.service", summary: "a codex app-server under systemd",
		synopsis: "codex-worker@NAME.service, codex-worker@NAME.socket",
		description: "codex-worker@NAME.service is one codex app-server " +
			"with the settings in /etc/codex-proxy/workers/NAME.toml. The daemon reaches it over /run/codex-proxy/NAME.sock, the socket of codex-worker@NAME.socket. " +
			"systemd restarts it, at growing intervals, and kills it when it hangs.",
		sections: []string{
			"Draining", "Stopping and restarting", "Users of the workers", "The start limit", "Restart delays", "Memory", "Drop-ins",
		},
	},
}

// page is the unit's page of section 8.
func (s sources) page(u unitPage) (string, error) {
	r := newPage(u.unit, 8, s.date, u.summary)
	r.section("Synopsis")
	r.text(u.synopsis)
	r.section("Description")
	r.paragraph(u.description)
	for _, text := range u.paragraphs {
		r.paragraph(text)
	}
	for _, title := range u.sections {
		if err := r.sectionOf(s.files[operations], title); err != nil {
			return "", err
		}
	}
	r.unit(s.files[unitDir+u.unit])
	r.files()
	r.seeAlso("codex-proxy(1)", "codex-proxy.toml(5)", "codex-worker.toml(5)", "codex-dependency.toml(5)",
		"systemd.service(5)")
	return r.String(), nil
}

// exitStatus is the section of that name (cmd/internal/cli has the numbers).
func (r *roff) exitStatus() {
	r.section("Exit status")
	for _, status := range [][2]string{
		{"0", "Success."},
		{"1", "Failure; the reason is on standard error."},
		{"64", "Wrong usage, EX_USAGE of sysexits.h."},
		{"75", "Failure for now, EX_TEMPFAIL: another try may succeed."},
		{"78", "A fault of the configuration, EX_CONFIG: systemd does not restart codex-proxy.service."},
		{"203", "The program of notify-exec cannot be started."},
	} {
		r.item(status[0], status[1])
	}
}

// files is the section of that name, the same on every page.
func (r *roff) files() {
	r.section("Files")
	for _, f := range [][2]string{
		{"/etc/codex-proxy/config.toml", "Settings of the daemon."},
		{"/etc/codex-proxy/workers/NAME.toml", "Settings of the worker NAME."},
		{"/etc/codex-proxy/dependencies/NAME.toml", "Settings of the dependency NAME."},
		{"/etc/codex-proxy/api-keys", "The hashes of the API keys."},
		{"/etc/codex-proxy/traces-headers", "Headers for the collector of traces."},
		{"/etc/codex-proxy/first-key", "The API key that the installation made, readable by root. " +
			"Keep it elsewhere and delete the file."},
		{"/var/lib/codex-worker/NAME", "The worker's CODEX_HOME, with its login: a link to /var/lib/private/codex-worker/NAME."},
		{"/var/lib/codex-dependency/NAME", "The data of the dependency NAME. Without a user in its file: a link to " +
			"/var/lib/private/codex-dependency/NAME."},
		{"/usr/share/codex-proxy/dependencies", "Presets of dependencies."},
	} {
		r.item(f[0], f[1])
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
