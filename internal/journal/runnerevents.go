package journal

// runnerEvents are those of codex-runner.
func runnerEvents() []event {
	return []event{
		{"session-made", "6872f6ed91634b2c913275ad24dc50ce", "a session was made",
			"A session was made",
			"@CODEX_OWNER@ made the session @CODEX_SESSION@, whose commands (@CODEX_COMMANDS@) wait in\n" +
				"the queue. `journalctl CODEX_SESSION=@CODEX_SESSION@` shows all entries of the session,\n" +
				"`codex-runner show @CODEX_SESSION@` its state."},
		{"command-started", "a40e77f9ec224f38871036df8d84072d", "a command has started",
			"A command of a session runs",
			"@CODEX_UNIT@ runs command @CODEX_COMMAND@ of the session: its workspace and its environment\n" +
				"are ready. `codex-runner logs --follow @CODEX_SESSION@` shows its output."},
		{"command-ended", "43195648638047988bfb80da5b12c106", "a command has ended",
			"A command of a session has ended",
			"Command @CODEX_COMMAND@ of the session @CODEX_SESSION@: @CODEX_OUTCOME@. @CODEX_TEXT@\n" +
				"`codex-runner show @CODEX_SESSION@` has what it used, and its limits; `journalctl\n" +
				"_SYSTEMD_INVOCATION_ID=@CODEX_INVOCATION@` has the entries of its unit."},
		{"command-overrun", "7f3e0c1b52d94b0e9a7c6d2f8e41a935", "a command does not end, stopping its unit",
			"A command did not end in time, and systemd stops its unit",
			"Command @CODEX_COMMAND@ of the session @CODEX_SESSION@ has outlived its timeout or a cancel: it\n" +
				"may have stopped the main process of its unit. `codex-runner show @CODEX_SESSION@` says how it\n" +
				"ended."},
		{"command-unstopped", "c2a90d6e4b784f6fb1d35a8e07f92c14", "cannot stop the unit of a command",
			"The unit of a command could not be stopped",
			"CODEX_ERROR has the reason. `systemctl stop codex-session@@CODEX_SESSION@.service` stops it."},
		{"systemd-silent", "e85b7f42a1c3469d8d0e6b93f5c7a208", "systemd does not answer, asking again",
			"systemd does not answer",
			"The bus or systemd itself is away, as during a restart of dbus or a `systemctl daemon-reexec`.\n" +
				"Commands stay as they are, and the service asks again until there is an answer."},
		{"session-closed", "6c6487943c7b4e12b5cf32591b96057b", "a session is closed",
			"A session is closed",
			"It takes no commands any more. Its record, its logs and its artifacts stay for `retention`\n" +
				"in runner.toml, or until `codex-runner prune`."},
		{"repository-fetched", "6e95f8c1bdbe4aa5ba0d80b8d58821aa", "a repository was fetched",
			"A repository was fetched",
			"The mirror of @CODEX_REPOSITORY@ is up to date. codex-repository@@CODEX_KEY@.service fetched\n" +
				"it."},
		{"repository-failed", "7f085100b12645b0bde26eeb7af2ce9e", "a repository could not be fetched",
			"A repository could not be fetched",
			"The client received the reason, which is CODEX_ERROR. The output of git:\n" +
				"  journalctl -u codex-repository@@CODEX_KEY@.service\n" +
				"/etc/codex-runner/runner.toml has the credentials of repositories."},
		{"mirror-damaged", "e9a1ba44134f4bbb8ce4e481322e14d2",
			"a mirror seems to be damaged: the next session of its repository makes it anew",
			"The mirror of a repository seems to be damaged",
			"A session could not make its workspace, and ended so; CODEX_ERROR has the reason. The next\n" +
				"session of the repository @CODEX_REPOSITORY@ has the whole repository fetched again."},
		{"mirror-unexamined", "62ffd740d8b74382ae06a7815fb5d49c", "cannot record that a mirror is damaged",
			"A damaged mirror is not recorded as such",
			"The store cannot be written; CODEX_ERROR has the reason, such as a full disk. To have the\n" +
				"mirror removed: systemctl start codex-sweep@repository-@CODEX_REPOSITORY@.service"},
		{"bounds-unkept", "3af03727757445119e8183bc8e9f42aa", "cannot keep mirrors and workspaces within their bounds",
			"Mirrors or workspaces take more than they may",
			"CODEX_ERROR has the reason. The service tries again every few seconds. `journalctl -u\n" +
				"'codex-sweep@*'` has more."},
		{"environment-built", "42fd3ae52d944c3b907d03c1f16dc373", "an environment was built",
			"An environment was built",
			"The environment @CODEX_ENVIRONMENT@ has the packages of a @CODEX_PROVIDER@ project, once for\n" +
				"all sessions that need the same ones."},
		{"environment-failed", "c06d3d410a9e464c91a931ca79f5861a", "an environment could not be built",
			"An environment could not be built",
			"CODEX_ERROR has the reason, which the sessions that need the environment have, too. The next\n" +
				"one that needs it builds it again. `codex-runner doctor` says which tools are missing."},
		{"environments-unfound", "234d7278c9d14cbeb4e09cf20f375d36", "cannot find the environments",
			"The environments could not be listed",
			"The store cannot be read; CODEX_ERROR has the reason, such as a full disk. None is removed\n" +
				"meanwhile, and the service tries again every few seconds."},
		{"environment-unremoved", "f5478b90bf0b44b9b97089c80651bc6a", "cannot remove an environment",
			"An environment could not be removed",
			"CODEX_ERROR has the reason; `journalctl -u codex-sweep@environment-@CODEX_ENVIRONMENT@` may\n" +
				"have more. The service tries again every few seconds."},
		{"evicted", "97398e0f1e0c4377b6c93c574f3a8eb4", "something unused was removed to make room",
			"Something unused was removed to make room",
			"The @CODEX_KIND@ @CODEX_NAME@ was not used for the longest time. It is made again when a\n" +
				"session needs it. runner.toml has the bounds; if this is frequent, raise them."},
		{"commands-unfound", "f9fd9309c7f44f2cb74b8983dca36549", "cannot find the sessions that run",
			"The sessions that run could not be found",
			"systemd did not answer; CODEX_ERROR has the reason. The end of a command whose unit has\n" +
				"vanished is noticed later; the service tries again every few seconds."},
		{"sessions-unexpired", "b951c4dda9cf43e0826f980a1876146c", "cannot find the sessions that have expired",
			"Old sessions could not be found",
			"The store cannot be read; CODEX_ERROR has the reason, such as a full disk. Old sessions\n" +
				"stay, and the service tries again every few seconds."},
		{"store-unclosed", "b1f21793b7c146b689c57708ad9b7427", "cannot close the store",
			"The store was not closed",
			"CODEX_ERROR has the reason, such as a full disk. The next start reads what was written; the\n" +
				"units and the files of sessions have the rest."},
		{"log-unread", "4d9197d00517414fa4bc7926882d8bbc", "a log was not read to its end",
			"A log was not sent to its end",
			"The client went away, or CODEX_ERROR has the reason. A client that follows a log continues\n" +
				"where it stopped."},
		{"api-failed", "0a76546a28e34ac79ef57d14b009bbd5", "a request to codex-runner failed",
			"A request to codex-runner failed by a fault of the service itself",
			"@CODEX_METHOD@ @CODEX_PATH@ was answered with status 500. CODEX_ERROR has the reason, such\n" +
				"as a full disk. If there is none that you can mend, please report this entry."},
		{"start-unrecorded", "5c131564207c440aa7234fa795a9bbba", "cannot record the start of a command",
			"The start of a command is not in the store",
			"The command runs. CODEX_ERROR has the reason, such as a full disk."},
		{"command-unwatched", "1d982c3dd0a646519df16c3eea46f3eb",
			"cannot watch a command, looking for its end every few seconds",
			"The end of a command is noticed late",
			"The service looks for it every few seconds. CODEX_ERROR has the reason: if it is a limit of\n" +
				"inotify, raise fs.inotify.max_user_instances or max_user_watches with sysctl."},
		{"files-unwatched", "dca32b12b1064969b34def23b46ce03f", "changes of files are looked for",
			"The kernel does not report changes of files",
			"The service works, and looks for output and for ends of commands four times a second. Its user\n" +
				"has no inotify instance left: raise fs.inotify.max_user_instances with sysctl, and restart\n" +
				"codex-runner.service."},
		{"end-unrecorded", "42e30a973da94fbea9896434ab9b7894", "cannot record the end of a command, trying again",
			"The end of a command is not in the store",
			"The store cannot be written; CODEX_ERROR has the reason, such as a full disk. The service\n" +
				"tries again every second, and the session waits."},
		{"end-unread", "d3dc531509984e1597bda5680cd5a2f2", "cannot read how a command ended",
			"The record of the end of a command cannot be read",
			"The outcome is decided by what can be read. CODEX_ERROR has the reason."},
		{"session-unclosed", "c3dd28f34bb74f8dbdc7c5985da7f9b7", "cannot close a session",
			"A session could not be closed",
			"The store cannot be written; CODEX_ERROR has the reason, such as a full disk. The session\n" +
				"stays idle, and the service tries again."},
		{"home-unswept", "8e349a8eb5e443edbdd87afa34345b90", "cannot remove the home of a session, trying again",
			"The home of a closed session is still there",
			"codex-sweep@session-ID.service removes it. CODEX_ERROR has the reason; the journal of that unit\n" +
				"(journalctl -u \"codex-sweep@*\") has more."},
		{"hold-unrecorded", "bde8b897274b4a9db54beeec4eed6b15", "cannot record the hold of a command",
			"The hold of a command is not in the store",
			"The sandbox of the command stays. CODEX_ERROR has the reason, such as a full disk."},
		{"artifacts-unkept", "2fdb33993f9c463babd98e1aab5cad5a", "not all artifacts of a command were kept",
			"Artifacts of a command were not kept",
			"The archive that the session left is damaged, or larger than [artifacts] in runner.toml\n" +
				"allows. CODEX_ERROR has the reason."},
		{"hook-failed", "199d57bed6c74dd1b247a61e230c5177", "the hook after a command failed",
			"The hook after a command failed",
			"Its output is at the end of the log of the command (codex-runner logs CODEX_SESSION), and\n" +
				"[hooks] in runner.toml names it. How the command ended stays as it is."},
		{"session-silent", "98d551e56fa14df3b7a5f6992d1f021a", "the session does not answer",
			"The main process of a session does not answer",
			"It has ended, or the watchdog of its unit ends it within half a minute."},
		{"session-unfollowed", "9aed06c3cffa4e3fa230586c9441899c", "a session is not followed any more",
			"The service does not follow the main process of a session any more",
			"It has ended, or closed the connection. The service looks for the end of the command in its\n" +
				"files."},
		{"state-unrecorded", "5e705658f8ac4d84b3dc541ea497f436", "cannot record the state of a command",
			"The state of a command is not in the store",
			"The command goes on. CODEX_ERROR has the reason, such as a full disk."},
		{"cancel-failed", "4c6176440822427dad70c288398d4444", "cannot cancel a command",
			"A command could not be cancelled",
			"The client of `codex-runner mcp` has given up its request, and the command goes on. CODEX_ERROR\n" +
				"has the reason. To end it: codex-runner cancel @CODEX_SESSION@"},
	}
}
