package main

const (
	proxyFile  = "packaging/etc/config.toml"
	workerFile = "packaging/etc/workers/default.toml"
	// dependencyFile is the preset that has every key.
	dependencyFile = "packaging/dependencies/template.toml"
	remoteFile     = "packaging/remotes/template.toml"
)

var proxyBook = book{
	operations: "docs/operations.md",
	program:    "codex-proxy",
	sources:    []string{"./cmd/codex-proxy", "./cmd/codex-proxy-traces", "./cmd/codex-proxy-remote-init"},
	summary:    "OpenAI-compatible endpoint in front of codex workers",
	description: "codex-proxy serves the OpenAI API, and Anthropic's Messages API, in front of codex app-server. " +
		"Each worker is a systemd unit of its own, which systemd watches and restarts; readiness follows the real handshake with the worker. " +
		strong + "systemctl start codex-proxy" + plain + " starts everything.",
	seeAlso: []string{"codex-proxy.toml(5)", "codex-worker.toml(5)", "codex-dependency.toml(5)", "codex-remote.toml(5)",
		"codex-proxy.service(8)", "codex-worker@.service(8)", "codex-dependency@.service(8)", "codex-remote@.service(8)"},
	settings: []settingsPage{
		{"codex-proxy.toml", "/etc/codex-proxy/config.toml", "settings of the HTTP daemon", proxyFile},
		{"codex-worker.toml", "/etc/codex-proxy/workers/NAME.toml", "settings of a worker", workerFile},
		{"codex-dependency.toml", "/etc/codex-proxy/dependencies/NAME.toml", "settings of a dependency",
			dependencyFile},
		{"codex-remote.toml", "/etc/codex-proxy/remotes/NAME.toml", "settings of a remote", remoteFile},
	},
	settingsSeeAlso: []string{"codex-proxy(1)", "codex-proxy.service(8)", "codex-worker@.service(8)",
		"codex-dependency@.service(8)",
		"codex-remote@.service(8)"},
	units: []unitPage{
		{
			unit: "codex-proxy.service", summary: "the HTTP daemon under systemd",
			synopsis: "codex-proxy.service, codex-proxy.socket, codex-proxy-logins.socket, codex.target",
			description: "codex-proxy.service answers HTTP on the socket of codex-proxy.socket, " +
				"which keeps connections while the service restarts. On codex-proxy-logins.socket it lends the logins of accounts to remotes. codex.target contains these units and all workers. " +
				strong + "systemctl start codex-proxy" + plain + " starts the target, too; " + strong +
				"systemctl stop codex.target" + plain + " stops everything but remotes and dependencies.",
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
				"At boot and at each " + strong + "systemctl daemon-reload" + plain +
					" a generator makes a drop-in of the " +
					"file, with the whole command; " + strong + "systemctl cat" + plain +
					" shows it. A file with a fault " +
					"makes none, and then a start fails with the fault in " + strong + "systemctl status" + plain + ".",
				strong + "codex-proxy dependencies" + plain +
					" makes, lists, checks and removes dependencies. The keys " +
					"requires, bind_requires and ready_requires of codex-proxy.toml(5) and codex-worker.toml(5) tie the " +
					"daemon or a worker to them. " + strong + "systemctl enable" + plain + " starts one at boot.",
			},
		},
		{
			unit: "codex-remote@.service", summary: "a codex session that outlives terminals, under systemd",
			synopsis: "codex-remote@NAME.service, codex-remote@NAME.socket, codex-remote-network@NAME.socket",
			description: "codex-remote@NAME.service is one codex app-server, to which people attach their terminals, with " +
				"the settings in /etc/codex-proxy/remotes/NAME.toml. A connection to /run/codex-remote/NAME.sock, the socket " +
				"of codex-remote@NAME.socket, starts it; one to NAME.viewer.sock may watch alone, and " +
				"codex-proxy connects the clients of API keys to NAME.network.sock, that of codex-remote-network@NAME.socket. systemd restarts it after " +
				"a crash, and the turns go on that the crash has cut. It ends after a time without people and turns.",
			paragraphs: []string{
				"codex and all that it runs, the commands of people who attach included, live in namespaces of their own " +
					"within the unit. They see no other process, remote, terminal or home of their user, no credential, and not " +
					"the main process of the unit, which lends codex the provider's key or an account's login.",
				"At boot and at each " + strong + "systemctl daemon-reload" + plain +
					" a generator makes a drop-in of the " +
					"file; " + strong + "systemctl cat" + plain +
					" shows it. A start with a file that has a fault, or has changed " +
					"since, fails with the reason in " + strong + "systemctl status" + plain + ".",
				"The command of [notify] runs in a unit of its own, codex-remote-notify@NAME.service, which its socket starts " +
					"for each event and which ends after the last one. Its output and its failures are in the journal: " +
					strong + "codex-proxy remotes logs NAME" + plain + ".",
				strong + "codex-proxy remotes" + plain +
					" adds, lists, checks, stops and removes remotes, sends messages, " +
					"continues cut turns and shows the journal; " + strong +
					"systemctl enable codex-remote@NAME.socket" + plain +
					" opens one at boot.",
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
	},
	unitSeeAlso: []string{"codex-proxy(1)", "codex-proxy.toml(5)", "codex-worker.toml(5)", "codex-dependency.toml(5)",
		"codex-remote.toml(5)", "systemd.service(5)"},
	status: [][2]string{
		{"0", "Success."},
		{"1", "Failure; the reason is on standard error."},
		{"64", "Wrong usage, EX_USAGE of sysexits.h."},
		{"75", "Failure for now, EX_TEMPFAIL: another try may succeed."},
		{"78", "A fault of the configuration, EX_CONFIG: systemd does not restart codex-proxy.service or codex-remote@NAME.service."},
		{"150", "The worker or the remote is not in use: the next connection to its socket starts it again."},
		{"203", "The program of notify-exec, or the codex of remote-exec, cannot be started."},
	},
	files: [][2]string{
		{"/etc/codex-proxy/config.toml", "Settings of the daemon."},
		{"/etc/codex-proxy/workers/NAME.toml", "Settings of the worker NAME."},
		{"/etc/codex-proxy/dependencies/NAME.toml", "Settings of the dependency NAME."},
		{"/etc/codex-proxy/api-keys", "The hashes of the API keys."},
		{"/etc/codex-proxy/traces-headers", "Headers for the collector of traces."},
		{"/etc/codex-proxy/first-key", "The API key that the installation made, readable by root. " +
			"Keep it elsewhere and delete the file."},
		{"/var/lib/codex-worker/NAME",
			"The worker's CODEX_HOME, with its login: a link to /var/lib/private/codex-worker/NAME."},
		{"/var/lib/codex-dependency/NAME", "The data of the dependency NAME. Without a user in its file: a link to " +
			"/var/lib/private/codex-dependency/NAME."},
		{"/etc/codex-proxy/remotes/NAME.toml", "Settings of the remote NAME."},
		{"/var/lib/codex-remote/NAME",
			"The CODEX_HOME of the remote NAME, with its threads. Without a user in its file: a " +
				"link to /var/lib/private/codex-remote/NAME."},
		{"/usr/share/codex-proxy/dependencies", "Presets of dependencies."},
	},
}
