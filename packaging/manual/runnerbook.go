package main

const runnerFile = "packaging/runner/runner.toml"

var runnerBook = book{
	program: "codex-runner", operations: "docs/runner-operations.md",
	sources: []string{"./cmd/codex-runner", "./cmd/codex-runner-unit"},
	summary: "commands in supervised sessions",
	description: "codex-runner takes a repository, a ref, perhaps a patch, an environment and a command. It runs the " +
		"command as a systemd unit under limits, streams its output, and reports how it ended.",
	seeAlso: []string{"codex-runner.toml(5)", "codex-runner.service(8)", "codex-session@.service(8)",
		"codex-repository@.service(8)", "codex-environment@.service(8)",
		"env(1)", "timeout(1)", "systemd-run(1)"},
	settings: []settingsPage{
		{"codex-runner.toml", "/etc/codex-runner/runner.toml", "settings of the daemon", runnerFile},
	},
	settingsSeeAlso: []string{"codex-runner(1)", "codex-runner.service(8)", "codex-session@.service(8)"},
	unitSeeAlso: []string{"codex-runner(1)", "codex-runner.toml(5)", "systemd.exec(5)",
		"systemd.resource-control(5)"},
	units: []unitPage{
		{
			unit: "codex-runner.service", summary: "the daemon of codex-runner under systemd",
			synopsis: "codex-runner.service, codex-runner.socket",
			description: "codex-runner.service queues commands and starts the units that run them. Its clients connect to the " +
				"socket of codex-runner.socket, which keeps connections while the service restarts. Commands that run do not " +
				"depend on the service: they go on when it ends, and the next one finds them.",
			sections: []string{"Health", "Journal", "Metrics"},
		},
		{
			unit: "codex-session@.service", summary: "a session's command under systemd",
			synopsis: "codex-session@ID.service, codex-sessions.slice",
			description: "codex-session@ID.service runs the commands of the session ID, one at each start, as a user of " +
				"its own and in a sandbox. codex-sessions.slice contains all of them.",
		},
		{
			unit: "codex-repository@.service", summary: "a repository of codex-runner from the network",
			synopsis: "codex-repository@KEY.service",
			description: "codex-repository@KEY.service fetches the repository KEY, which sessions read. It alone has " +
				"the network and the credential of the repository.",
		},
		{
			unit: "codex-environment@.service", summary: "an environment of codex-runner under construction",
			synopsis: "codex-environment@KEY.service, codex-environment-online@KEY.service",
			description: "codex-environment@KEY.service installs the packages of an environment, once for all " +
				"sessions of a user that need the same ones; KEY is the beginning of its key. Sessions see it when it is " +
				"whole, and has nothing but files, directories and links. It has no network and takes them from the store of codex-runner.toml(5). " +
				"codex-environment-online@KEY.service takes them from the network.",
		},
		{
			unit: "codex-sweep@.service", summary: "the removal of what no session of codex-runner uses",
			synopsis: "codex-sweep@WHAT.service",
			description: "codex-sweep@WHAT.service removes files whose user is gone: those of sessions that are " +
				"closed, and of repositories and environments that nobody uses.",
		},
	},
	status: [][2]string{
		{"0", "Success. Of run: COMMAND exited with 0."},
		{"1", "Failure; the reason is on standard error."},
		{"64", "Wrong usage, EX_USAGE of sysexits.h."},
		{"75", "Failure for now, EX_TEMPFAIL: the queue is full, or the service stops. Another try may succeed."},
		{"78", "A fault of the settings, EX_CONFIG: systemd does not restart codex-runner.service."},
		{"124 to 127, 128+n",
			"Of run, as timeout(1) and env(1) have them: COMMAND ran longer than its time; it did not run, " +
				"or its end is not known; it cannot be executed; it is not found; the signal n ended it."},
	},
	files: [][2]string{
		{"/etc/codex-runner/runner.toml", "Settings of the daemon."},
		{"/run/codex-runner/api.sock", "The API, which the commands for people use."},
		{"/run/codex-runner/daemon/codex-runner.prom", "Metrics for node exporter."},
		{"/var/lib/codex-runner", "Sessions: their commands, output and artifacts."},
	},
}
