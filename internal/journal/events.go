package journal

import "slices"

// event is one kind of entry. Its ID never changes once it has been released:
// people filter by it (MESSAGE_ID= in systemd.journal-fields(7)).
type event struct {
	Name    string // CODEX_EVENT
	ID      string // MESSAGE_ID, 128 bits in hex
	Message string // what the code logs; empty for lines of other programs
	Subject string // one line of the catalogue
	Help    string // what it means and what to do; @FIELD@ stands for a field's value
}

// allEvents is every kind of entry that the programs make. A message of the code
// that is not here fails a test.
func allEvents() []event {
	return slices.Concat(proxyEvents(), remoteEvents(), sharedEvents(), runnerEvents())
}

// proxyEvents are those of codex-proxy.
func proxyEvents() []event {
	return []event{
		{"listening", "78a082f3eb1149f8946e699d30ff600b", "listening",
			"codex-proxy accepts connections",
			"The service accepts connections at @CODEX_ADDRESS@. It is ready as soon as one worker is;\n" +
				"`codex-proxy status` shows the workers."},
		{"request", "5a80483eb50646829a3c78011dfdb2fa", "request",
			"A request has ended",
			"@CODEX_METHOD@ @CODEX_ROUTE@ was answered with status @CODEX_STATUS@ (@CODEX_OUTCOME@).\n" +
				"`journalctl CODEX_REQUEST_ID=@CODEX_REQUEST_ID@` shows every entry of the request. Prompts\n" +
				"and answers are never logged."},
		{"request-failed", "809081afdefc414385db209a9a89da76", "request failed",
			"A request failed by a fault of codex-proxy itself",
			"The client received status 500. The error is a fault of the program; please report it with\n" +
				"this entry."},
		{"request-panic", "ee414683524248afb60604bf610d951f", "panic in a request",
			"A request failed by a fault of codex-proxy itself",
			"The client received status 500, or an incomplete answer. CODEX_STACK shows the place of the\n" +
				"fault; please report it. No other request is affected."},
		{"turn-lost", "8e8b254c2d7b481f96744355990e34b1", "turn lost, it runs again",
			"A worker lost a turn, which runs again",
			"The worker @CODEX_WORKER@ lost the turn before the client received a byte of it\n" +
				"(@CODEX_REASON@). The request waits in the queue and runs again; X-Codex-Attempts in the\n" +
				"answer counts the attempts. If this is frequent, look at the worker's restarts:\n" +
				"`codex-proxy status`."},
		{"turn-rotated", "93afaab7f0b94802ad7ef54e84992b75",
			"turn refused for quota, it runs on another account",
			"An account has no quota left, and its turn runs on another account",
			"The model endpoint refused the turn for the quota of the account @CODEX_WORKER@, or for a\n" +
				"model that its plan does not have (@CODEX_REASON@: model_refused; the account then serves\n" +
				"other models), before the client received a byte of it. The request waits in the queue\n" +
				"and runs on another account; X-Codex-Attempts in the answer counts the attempts.\n" +
				"`codex-proxy accounts list` shows the accounts."},
		{"turn-slow-consumer", "4024813bad8f4a2f87aca2ff07f3dd00", "turn cancelled: its consumer is too slow",
			"A client read its answer too slowly",
			"The turn was interrupted because more of its answer waited for the client than the service\n" +
				"keeps. The client has to read faster."},
		{"readiness-changed", "aa2113861bbf499bafe1bd12fda8487a", "readiness changed",
			"The service became ready, or is not ready any more",
			"/readyz reports ready=@CODEX_READINESS@ with the reason @CODEX_REASON@.\n" +
				"/usr/share/doc/codex-proxy/operations.md explains each reason; `codex-proxy status` shows\n" +
				"the workers."},
		{"worker-ready", "b0b5656c9b254eb5aefbcb283a67e78c", "worker ready",
			"A worker takes turns",
			"codex-worker@@CODEX_WORKER@ is active, its handshake is done and it has listed its\n" +
				"models. CODEX_CHAIN lists the states on the way to ready, with the time in each."},
		{"worker-down", "6f9a38813f8c4f289f37dd98240f428e", "worker is down",
			"A worker has ended, and systemd waits to start it again",
			"@CODEX_UNIT@ ended: @CODEX_LAST_EXIT@. systemd starts it again; requests wait meanwhile.\n" +
				"`journalctl -u @CODEX_UNIT@` shows why it ended."},
		{"restart-waits", "f27325e632ee1ee4d0280452f9203915", "restart waits: this systemd has no growing delays",
			"A unit waits before its restart",
			"Restart @CODEX_N_RESTARTS@ waits for @CODEX_WAIT@. systemd 254 and later wait themselves\n" +
				"(RestartSteps=, RestartMaxDelaySec=); with older versions the unit waits as a part of its\n" +
				"start. `systemctl start` of the unit ends the wait."},
		{"restart-unknown", "4e53a5fc06e2f239672e09d2b47e24c6", "the restart delay is not waited for",
			"The restart delay of a unit is not known",
			"The unit starts at once, because systemd did not answer. With systemd before 254, a crash\n" +
				"loop then reaches the start limit within seconds: check that the system bus works\n" +
				"(`systemctl status dbus`)."},
		{"worker-out-of-memory", "a9d0f2ffd9f1419b929b98ba76f95fa7", "worker was killed: out of memory",
			"A worker was killed because memory was short",
			"The kernel killed the codex of @CODEX_UNIT@: the unit, its slice system-codex.slice or the\n" +
				"whole machine had used up its memory. systemd starts the worker again. To see which process\n" +
				"took the memory, and which limit was reached:\n" +
				"  journalctl -k --grep=oom-kill\n" +
				"To set another limit:\n" +
				"  systemctl set-property @CODEX_UNIT@ MemoryMax=SIZE"},
		{"worker-failing", "6c6ed11f47534d2b816f53e5e23d5190",
			"worker keeps failing: the delay before each restart grows",
			"A worker keeps failing",
			"@CODEX_UNIT@ was restarted @CODEX_CONSECUTIVE_FAILURES@ times in a row; the last exit was:\n" +
				"@CODEX_LAST_EXIT@. The delay before a restart grows up to its maximum. Find the cause\n" +
				"with `journalctl -u @CODEX_UNIT@`; a minute of health resets the delay."},
		{"worker-wedged", "f55e8eeb421c70ec93ae61f931a21e01", "worker is wedged: its watchdog restarts it",
			"A worker answers nothing to the service",
			"@CODEX_UNIT@: @CODEX_REASON@, although turns waited for it. Its own probe may pass at the\n" +
				"same time. notify-exec withholds the pings of the watchdog on the service's request, so that\n" +
				"systemd kills and restarts the worker after WatchdogSec=. Turns in flight run again, or end\n" +
				"in an error."},
		{"worker-start-limit", "22fed3e2d7ef40908c7245c3c8a401c3", "worker is given up: systemd's start limit is hit",
			"systemd has stopped restarting a worker",
			"@CODEX_UNIT@ failed too often and stays down until an operator acts. Fix the cause\n" +
				"(`journalctl -u @CODEX_UNIT@`), then:\n" +
				"  systemctl reset-failed 'codex-worker@*' && systemctl start codex.target"},
		{"worker-connection-ended", "a6470e85b8374c8db3465d7bd2571f49", "worker connection ended",
			"The connection to a worker has ended",
			"Turns on this connection run again, or end in an error with this reason. This is normal\n" +
				"while the unit restarts."},
		{"worker-connected", "f7dd46adc1614c6b88df9c9cac61931d", "worker connected",
			"The connection to a worker stands",
			"The handshake with codex app-server is done; the list of its models is next."},
		{"dependency-ready", "3efd860b6bb34a17bdff9fb4e5731bd1", "dependency ready",
			"A dependency is ready",
			"Its unit, @CODEX_UNIT@, is active: its probe passes. What requires it may start, and\n" +
				"use it."},
		{"dependency-down", "de84333e68e84bc2ab27bacf945c5dcc", "dependency is down",
			"A dependency does not run",
			"@CODEX_UNIT@ is not active (@CODEX_REASON@): @CODEX_DETAIL@.\n" +
				"With the reason backing_off systemd starts it again by itself; if this is frequent, or it\n" +
				"did not answer, `journalctl -u @CODEX_UNIT@` shows what it logged before. With the reason\n" +
				"stopped, `systemctl start @CODEX_UNIT@` starts it. With the reason invalid,\n" +
				"`codex-proxy dependencies check @CODEX_DEPENDENCY@` shows the fault of its file; then\n" +
				"`systemctl daemon-reload` and `systemctl restart @CODEX_UNIT@`."},
		{"dependency-start-limit", "aa2edd51b361499dba3bf357d882cc39",
			"dependency is given up: systemd's start limit is hit",
			"systemd has stopped restarting a dependency",
			"@CODEX_UNIT@ failed too often and stays down until an operator acts. The last end:\n" +
				"@CODEX_DETAIL@. Fix the cause (`journalctl -u @CODEX_UNIT@`), then:\n" +
				"  systemctl reset-failed @CODEX_UNIT@ && systemctl start @CODEX_UNIT@"},
		{"dependency-refused", "88185fad7dd24b9792a7c9a723a7cc5c",
			"dependency is refused: another process holds what it needs",
			"A dependency was not started, because another process holds its lock, port or data",
			"@CODEX_DETAIL@.\n" +
				"systemd does not try again by itself. Stop that process in its own unit or session, then:\n" +
				"  systemctl start @CODEX_UNIT@\n" +
				"/usr/share/doc/codex-proxy/dependencies.md explains what a dependency owns."},
		{"dependency-missing", "4f17eb9f3b8547f08f16160d66ce4bd2", "a dependency has no file",
			"A dependency that is required has no file",
			"@CODEX_REQUIRED_BY@ requires @CODEX_DEPENDENCY@, and there is no file of that name in\n" +
				"/etc/codex-proxy/dependencies. The service starts all the same. To mend it:\n" +
				"@CODEX_REMEDY@."},
		{"unit-delay-kept", "cc66441bf91541d98c363acf56a5f0df", "cannot reset the restart delay of a unit",
			"The restart delay of a dependency or a remote could not be reset",
			"@CODEX_UNIT@ is ready again, but systemd refused ResetFailedUnit, so its next failure has a\n" +
				"longer delay. /usr/share/polkit-1/rules.d/codex-proxy.rules allows the call; polkitd has to\n" +
				"run."},
		{"dependency-lock-left", "d31a9af900d844b9912317267edae66f", "the lock is left to the server's user",
			"Root could not make the lock file of a dependency",
			"CODEX_ERROR has the reason. The server's own user makes the file, or fails to; users of\n" +
				"another dependency with the same lock may not be able to open it then."},
		{"dependency-status-replaced", "c141a68291084a3580256eb6fafc8359",
			"the command has exited with a status that would forbid a restart",
			"The server of a dependency exited with a status that the unit reserves",
			"The server has exited with CODEX_STATUS, which the unit reserves for a refused start (75) or a\n" +
				"faulty file (78), after which systemd restarts nothing. So the unit ends with 1, and systemd\n" +
				"restarts it."},
		{"dependency-holders-unknown", "c9bce96b2fc3483f8ffb935baa4fad3d",
			"other processes are not looked for everywhere",
			"Some processes that may hold a dependency's lock, port or data were not seen",
			"CODEX_ERROR has the reason. The start goes on: the lock itself still keeps a second server\n" +
				"away."},
		{"account-unread", "96fb8877bb34440882e074c513d317cd", "cannot read the account of a worker",
			"The limits of a worker's account are not known",
			"codex could not ask OpenAI for the account of the worker @CODEX_WORKER@; CODEX_ERROR has the\n" +
				"reason. `codex-proxy accounts list` shows what was known before, with its age. There is an\n" +
				"attempt every five minutes, and every minute while the account is exhausted. The state of\n" +
				"the account stays as it is."},
		{"account-low", "5b8a1d0a6f5341c7a6d1e0c2b94f7a11", "account is low",
			"An account has little quota left",
			"The share that is left of the account of the worker @CODEX_WORKER@ is @CODEX_LEFT@, which is\n" +
				"at most rotate_at in config.toml, or only credits are left. With a rotation, other accounts\n" +
				"serve turns first. `codex-proxy accounts list` shows the windows and their resets."},
		{"account-exhausted", "c0f3ee3b8a0d4f0ab3a6a2b9d4b3f5e2", "account is exhausted",
			"An account has no quota left",
			"The account of the worker @CODEX_WORKER@ has used up a window, or OpenAI refused a turn for\n" +
				"its quota. CODEX_UNTIL is the reset that OpenAI named, if any. codex asks again every minute,\n" +
				"and at the reset; the account serves again as soon as an answer shows quota."},
		{"account-available", "e7a9d2c41f6b4b58a4b0c6f3d81e9a73", "account is available",
			"An account has quota again",
			"OpenAI reports quota for the account of the worker @CODEX_WORKER@, or accepts its login again.\n" +
				"It serves turns."},
		{"account-login-invalid", "1f6d3b5e9c7a4e2f8d0b6a4c2e8f7d95", "the login of an account is invalid",
			"OpenAI does not accept the login of an account any more",
			"The worker @CODEX_WORKER@ has no login, or OpenAI has refused it. With a rotation, no turn runs\n" +
				"on this account. Log in again:\n" +
				"  codex-proxy accounts login @CODEX_WORKER@"},
		{"accounts-exhausted", "84c2a6e0d5f94b1ea7c3d9f0b2e61c58", "no account has quota",
			"All accounts have used up their quota",
			"Each of the @CODEX_ACCOUNTS@ accounts is exhausted, paused, or has an invalid login. Requests\n" +
				"wait or fail until an account has quota: `codex-proxy accounts list` shows the resets."},
		{"account-rotated", "0b97624ec0f74a338f33a2ee7954c9cb", "another account is in use",
			"Another account is in use",
			"Turns run on the account of the worker @CODEX_WORKER@ now, and ran on that of\n" +
				"@CODEX_BEFORE@ before, which is low or out, or an operator has switched. Conversations follow\n" +
				"with their next turn. /usr/share/doc/codex-proxy/accounts.md explains when."},
		{"accounts-not-read", "9d3e7f1b6a2c4c85b0e4f8a1d7c35e26",
			"what was known of the accounts is lost; it is read anew",
			"The file of the accounts cannot be used",
			"@CODEX_PATH@ has something else than the service writes; CODEX_ERROR has the reason. Nothing\n" +
				"needs to be done: codex reads the accounts of the running workers within seconds, and the\n" +
				"service writes the file anew. Accounts that were paused are not paused any more."},
		{"accounts-not-written", "2a7c5d9e3f1b4d60951e8c4a7b6f0d37",
			"cannot write what is known of the accounts; a restart forgets it",
			"The file of the accounts cannot be written",
			"Requests are served. After a restart, the accounts are read anew, and none is paused. Look at\n" +
				"CODEX_ERROR, at the space on the disk and at the owner of /var/lib/codex-proxy."},
		{"worker-drained", "36aed19da915437892fe63719bd017d3", "worker drained",
			"An operator has drained a worker",
			"It takes no new turns until `codex-proxy undrain @CODEX_WORKER@`; turns in flight go on."},
		{"worker-drained-for-stop", "1027f979238344d2a04885a22380f438", "worker drained for its stop",
			"A worker takes no new turns because its unit stops",
			"Its @CODEX_INFLIGHT@ turns in flight are finished first, for at most five minutes. Nothing\n" +
				"needs to be done: the worker takes turns after the next start of the unit."},
		{"worker-standby", "57f5aab2bc5148c7a2c0315697cd2498", "worker goes on standby",
			"A worker is stopped because its account is not needed",
			"codex-proxy ends @CODEX_UNIT@ (@CODEX_REASON@), which has no turns in flight. A connection\n" +
				"starts it again when its account is next, or a request needs it. Nothing needs to be done;\n" +
				"[accounts] in /etc/codex-proxy/config.toml has the policy."},
		{"worker-standby-stays", "79dc37df698844feb4f02c11fa2822d4", "worker does not go on standby",
			"A worker that is not needed goes on running",
			"notify-exec did not end @CODEX_UNIT@ on the service's request; codex-proxy asks again later.\n" +
				"After an upgrade from a version without standby workers, `systemctl restart @CODEX_UNIT@`\n" +
				"replaces notify-exec."},
		{"worker-standby-unstartable", "bdffe2f397e843598776ed7fe85729c1", "cannot start a standby worker",
			"A stopped worker that is needed cannot be started",
			"The socket of @CODEX_UNIT@ takes no connection: @CODEX_ERROR@. The next account serves\n" +
				"meanwhile, and codex-proxy tries again. To start it: systemctl start @CODEX_UNIT@"},
		{"worker-standby-started", "76ccf260408e4537b4ec7f2107eed1b7", "standby worker is started by a connection",
			"A stopped worker is started because its account is needed",
			"codex-proxy has connected to the socket of @CODEX_UNIT@, and systemd starts the unit."},
		{"worker-undrained", "5a3113f6b827457ab1988c37ec943c71", "worker undrained",
			"A worker takes turns again",
			"An operator has ended the drain of @CODEX_WORKER@."},
		{"account-paused", "7f5d0979190d4c90328149b9630d9301", "account paused",
			"An account gets no new turns",
			"An operator has paused @CODEX_ACCOUNT@. Turns in flight go on. The pause survives restarts:\n" +
				"  codex-proxy accounts resume @CODEX_ACCOUNT@"},
		{"account-resumed", "494e1fe7fdd33d19b89f4c1a2a3f428a", "account resumed",
			"An account gets turns again",
			"An operator has ended the pause of @CODEX_ACCOUNT@."},
		{"account-switched", "74a4ad8b529c97a418ca16d8f4ee26cc", "account switched by an operator",
			"An operator has chosen the account in use",
			"@CODEX_ACCOUNT@ is in use until it is low. Conversations follow with their next turn."},
		{"api-keys-changed", "5acec9ccbd86811c4efc7908545d1125", "API keys changed",
			"The API keys have changed",
			"`codex-proxy keys` has changed them; there are @CODEX_KEYS@ now. Requests with a revoked key\n" +
				"are refused; requests in flight go on."},
		{"api-keys-none", "f9c695e83e2e4f129ceacad22d2e3b90", "there is no API key",
			"There is no API key",
			"The API is @CODEX_ACCESS@. While it is open, programs on this machine may use it without a\n" +
				"key, and requests from a reverse proxy are refused. While it is closed, every request is\n" +
				"refused. `codex-proxy keys add NAME` makes a key; `codex-proxy keys open` opens the API."},
		{"api-key-without-account", "73fd97cfeeb7c58f8bc2a08d8b02a089",
			"an API key may use no account that exists",
			"An API key may use no account that exists",
			"The key @CODEX_KEY@ may use the accounts @CODEX_ACCOUNTS@ alone, and no worker has one of\n" +
				"these names. Its requests get 403 account_not_found; other keys are not affected.\n" +
				"  codex-proxy keys set @CODEX_KEY@ --accounts=LIST"},
		{"api-keys-unknown", "ae9efaca60a2047e6a92fdb71f0e80b3",
			"cannot take over the API keys of the process that serves now",
			"A process from before a reload did not understand a change of the API keys",
			"That process still finishes requests on open connections, with the API keys from before the\n" +
				"change. `systemctl restart codex-proxy` ends it."},
		{"alias-without-effect", "a46d67e1c713af7745eee8c37c369b18",
			"an alias has no effect, as a worker has a model of that name; rename it in [models.aliases]",
			"An alias has no effect",
			"A worker has a model with the name @CODEX_ALIAS@. Requests for that name run this model, not\n" +
				"the model of the alias in /etc/codex-proxy/config.toml. Rename the alias, then:\n" +
				"  systemctl reload codex-proxy"},
		{"usage-not-read", "f877f353231aa1006805fb89d12a88ed",
			"usage is not written for now, and what keys have used today is forgotten",
			"The usage database cannot be opened",
			"Requests are served. Their usage is kept in memory and written as soon as possible. Daily\n" +
				"limits of API keys count from now. Look at the error, at the space on the disk and at the\n" +
				"owner of /var/lib/codex-proxy."},
		{"usage-not-written", "8bf01c7a736f5fb8c546f5d744ca8dd7",
			"cannot write the usage database; it is kept in memory and tried again",
			"The usage database cannot be written",
			"Requests are served, and their usage is kept in memory. Look at the error, at the space on\n" +
				"the disk and at the owner of /var/lib/codex-proxy."},
		{"usage-lost", "67de1ee6077260a6969aa551ae3fa905", "usage is lost, as the usage database cannot be written",
			"Usage of API keys is lost",
			"The service ended, or had too much usage in memory, while the usage database could not be\n" +
				"written. `codex-proxy usage` shows too little."},
		{"unit-changed", "eb9c8c0edd304d77b8152e36687a4517", "unit state changed",
			"systemd reports another state of a worker's unit",
			"@CODEX_UNIT@ is @CODEX_ACTIVE_STATE@ (@CODEX_SUB_STATE@)."},
		{"restart-delay-kept", "ad2350e49d1f4eb3ae2d27eeb2605447",
			"cannot reset the restart delay; is the polkit rule of codex-proxy installed?",
			"The restart delay of a worker could not be reset",
			"The worker is healthy again, but systemd refused ResetFailedUnit, so the next failure of the\n" +
				"worker has a longer delay. The service tries again every reset_after.\n" +
				"/usr/share/polkit-1/rules.d/codex-proxy.rules allows the call; polkitd has to run."},
		{"bus-connected", "d07dc4b78b3f4dcd9211e829036dd482", "systemd is heard over D-Bus",
			"The states of the units are current",
			"The service follows the workers' units over the system bus."},
		{"bus-absent", "761dc71613634a818711c57f9df36bda",
			"no system bus here: readiness follows the handshake alone, and nobody restarts a worker",
			"There is no system bus",
			"The service runs without systemd, or without dbus. Readiness follows the connections\n" +
				"alone."},
		{"bus-lost", "075ab63116fc45829d7269b25b03a5ad",
			"systemd cannot be heard over D-Bus: connected workers stay ready",
			"The states of the units are not current",
			"The system bus is away or does not answer. Connected workers stay ready. The service tries\n" +
				"again by itself; if this lasts: `systemctl status dbus`."},
		{"bus-unreachable", "4c1ff5f26c4a42d8b9067535a3860fc1", "cannot watch units, still looking for a system bus",
			"The system bus cannot be found",
			"The service tries again by itself."},
		{"bus-retry", "f13553ed91b54514a4069e505301846c", "cannot watch units, unit states may be old; trying again",
			"The states of the units may be old",
			"The service tries again by itself; if this lasts: `systemctl status dbus`."},
		{"handed-over", "b5bec4cd3a9743b491f0da4d402e8abb", "handed over to a new process",
			"A reload has succeeded",
			"Process @CODEX_PID@ of the installed program serves now, with the current configuration. The\n" +
				"previous process finishes its turns and ends."},
		{"took-over", "554a764a0eed4574851f0a9371c68b80", "took over; the process before finishes its turns",
			"This process serves now",
			"A reload started it. The previous process finishes its turns and ends."},
		{"claims-unanswered", "3d0b6d7f0f2e4c0f9c8b7a6d51e2f480",
			"the process that took over does not answer: each counts what is in flight alone",
			"Limits are counted by each process alone",
			"The new process has a version that does not share its counts with the previous one, or it\n" +
				"hangs. Until the previous process has ended, max_inflight and the limits of API keys hold\n" +
				"for each of the two."},
		{"reload-message-ignored", "c2d41a5e7f3b4b1d9a60e8d37b5c9f14",
			"a message of the other process of a reload is ignored: its kind is unknown",
			"The other process of a reload has another version",
			"It sent a message of kind @CODEX_KIND@, which this version does not know. Turns, drains and\n" +
				"API keys of both processes are as before. Nothing needs to be done."},
		{"reload-failed", "efe6323990aa41b28c5e1cff2248baca", "reload failed",
			"A reload has failed, and the service goes on as before",
			"The new process did not become ready, or systemd could not be notified of it; CODEX_ERROR\n" +
				"has the reason. No request was lost. Fix the cause (`codex-proxy config check`) and reload\n" +
				"again."},
		{"reloads-refused", "0f9a6c1be2f44d0d8f35a17c1d6f2b84", "cannot accept reloads",
			"The service cannot accept requests for a reload",
			"CODEX_ERROR has the reason; the service tries again every second. Clients are served as\n" +
				"before."},
		{"drain-deadline", "92457721dc504c2f8901587ed9577323", "turns in flight are cut off",
			"Turns were cut off at drain_timeout",
			"@CODEX_INFLIGHT@ requests were left when the service had to stop, with a turn or still\n" +
				"without one. Their clients received an error that allows another try. drain_timeout in\n" +
				"config.toml sets the time that requests have."},
		{"drain-hastened", "3268236bdc844d979a515b407ba946d6", "asked again to stop: turns in flight are cut off now",
			"A second SIGTERM cut off the turns in flight",
			"The clients received an error that allows another try."},
		{"connections-crowded", "a7e1c0f5f3634b0c8a0d5f1f6f0b9a62",
			"too many connections: those without a request are closed",
			"Clients have too many connections open",
			"There are more than @CODEX_LIMIT@: 8192, or fewer with a small LimitNOFILE=. The service\n" +
				"closes the connections that have been without a request for the longest time, so that other\n" +
				"clients are served. To find the client that opens them: `ss -tnp sport = :8787`."},
		{"connections-forced", "b3ae382372be4cd79a8efe17131b9501", "connections were closed by force",
			"Connections were closed by force",
			"They were still open after every turn had ended; their clients do not read."},
		{"control-failed", "5c1268ffcf304e25860f044ed6bae44b", "codex-proxy status, drain and undrain will not work",
			"The control socket could not be made",
			"The service works; the commands do not. CODEX_ERROR has the reason."},
		{"control-lost", "2d255adf8a824753bb762e78b7afaa15",
			"codex-proxy status, drain and undrain do not work any more",
			"The control socket has failed",
			"The service works; the commands do not until it is restarted. CODEX_ERROR has the reason."},
		{"commands-cut", "669b64f0edbe4a7996fb3df5c58303c2", "commands were cut off",
			"Commands were cut off",
			"`codex-proxy status --watch` or `drain` was still connected when the service ended."},
		{"service-stuck", "7a900c2dec234767b0d6e82565c51586", "the service is stuck; restart it",
			"A loop of the service is stuck",
			"CODEX_ERROR names it. /livez answers 503. Under systemd the watchdog restarts the service;\n" +
				"without systemd, restart it yourself."},
		{"shim-ready", "a2c21c81df2f474696be3d3519c309d0", "ready",
			"A program has become ready",
			"It answers its readiness probe: @CODEX_DETAIL@, after @CODEX_TOOK@."},
		{"shim-out-of-memory", "5ddfc695bcbe4e35905f9f0526069532", "out of memory: the command was killed",
			"A program was killed because memory was short",
			"The kernel killed the main program of @_SYSTEMD_UNIT@: the unit, its slice or the whole\n" +
				"machine had used up its memory. `journalctl -k --grep=oom-kill` names the process that took\n" +
				"it; MemoryMax= of the unit is the limit. systemd shows the result `signal` for the unit."},
		{"shim-outlived-out-of-memory", "456636acbeab4633b4c098fec3352d01",
			"out of memory: a process that the command has started was killed",
			"A process in a unit was killed because memory was short",
			"The kernel killed @CODEX_PROCESSES@ of the processes of @_SYSTEMD_UNIT@, such as a command\n" +
				"that a model ran in a worker of the mode \"native\". The worker and its turns go on.\n" +
				"`journalctl -k --grep=oom-kill` names the process and its size; MemoryMax= of the unit is\n" +
				"the limit."},
		{"relay-refused", "b73f69906cfe45caaae1ddc39fd42e44", "relay: cannot accept",
			"A connection to a worker could not be accepted",
			"The shim in front of codex tries again by itself."},
		{"relay-dropped", "bbd46bbc4b3147b7975760d0f62dd096", "relay: connection dropped",
			"A connection to a worker was dropped",
			"CODEX_ERROR has the reason. The service connects again by itself."},
		{"protocol-unexpected-reply", "bfac3f0e201840b3b71c87e92fdf6ce4",
			"codex app-server answered a request that is not pending",
			"codex app-server sent an unexpected reply",
			"The service ignores it. If this is frequent, this version of codex and codex-proxy do not\n" +
				"work together: see `codex --version`."},
		{"protocol-no-method", "3fb2a03587a549508d52bcf36ce4dce7",
			"codex app-server sent a message without id and method",
			"codex app-server sent an unknown message",
			"The service ignores it. If this is frequent, this version of codex and codex-proxy do not\n" +
				"work together: see `codex --version`."},
		{"protocol-bad-notification", "6668feff76834a0b8480194a41508c1f",
			"codex app-server sent a notification that does not parse",
			"codex app-server sent a notification that does not parse",
			"The service ignores it. If this is frequent, this version of codex and codex-proxy do not\n" +
				"work together: see `codex --version`."},
		{"protocol-answered", "6a00f76b1d5740d0b3b2950db18cface", "answered a request of codex app-server",
			"codex app-server sent a request",
			"The service declines every request for approval: no user is there to decide."},
		{"stop-unclear", "f487b7a4ef8243be97cc2e216a620ffe", "cannot tell a restart from a stop",
			"The service does not know whether it is restarted",
			"systemd did not answer the question. The service finishes its turns as for a stop."},
		{"bus-silent", "903a0017bb9a4202826c1b6fedcdedcb", "still no word from systemd",
			"systemd does not answer over D-Bus",
			"The service tries again by itself; if this lasts: `systemctl status dbus`."},
		{"bus-watching", "915ebeff7a2743d7af8d56b7d035ea1d", "watching units over the system bus",
			"The units are watched",
			"The service follows the workers' units over the system bus."},
		{"images-unavailable", "e7850492836d4354a9f8c2217ae9e54e", "images cannot be fetched",
			"An image that a request names by URL could not be fetched",
			"The client received status 503 and can try again. See `journalctl -u 'codex-proxy-fetch.*'`,\n" +
				"also for a mistake in config.toml. After a start limit: `systemctl reset-failed\n" +
				"'codex-proxy-fetch.*'` and `systemctl start codex.target`."},
		{"traces-not-sent", "79bb2f3cd6db4279aca1f54d1712c112", "traces cannot be sent",
			"The collector does not accept traces",
			"Requests are served as before. Spans that cannot be sent within some seconds are dropped and\n" +
				"counted in codex_trace_spans_total. CODEX_ERROR has the reason; see endpoint in config.toml\n" +
				"and `systemctl status codex-proxy-traces.socket codex-proxy-traces.service`. This entry\n" +
				"appears at most once a minute."},
		{"restart-delay-own", "12113ce278e0461e8e7d9d71aa041bb8", "cannot reset the service's own restart delay",
			"The restart delay of the service itself could not be reset",
			"The service is healthy, but systemd refused ResetFailedUnit for its unit, so the next\n" +
				"failure has a longer delay. The service tries again every reset_after.\n" +
				"/usr/share/polkit-1/rules.d/codex-proxy.rules allows the call; polkitd has to run."},
		{"command-hangs", "f0dc791897a04c8da609006d5d590a13", "the command hangs and the watchdog rests: it is killed",
			"A program hangs while its unit stops",
			"systemd's watchdog rests during a stop, so the shim has killed the program. Nothing needs\n" +
				"to be done."},
		{"command-stays", "5d0c0f6b7c1f4a0f9a3d7b1e2c84f6a9", "the command does not end: it is killed",
			"A program did not end after the signal to end",
			"The shim waited CODEX_AFTER and then killed it. Nothing needs to be done."},
		{"responses-not-kept", "f08e274f363241ce9fdd791a2170e91b",
			"no response is kept for now: a client cannot come back to one, or continue it",
			"Responses are not stored",
			"The database of responses cannot be opened; CODEX_ERROR has the reason, such as a full disk.\n" +
				"The service tries again every 10 seconds. Until then requests with `previous_response_id`\n" +
				"get 503."},
		{"responses-kept-again", "269df426efe642ab85c55809de55e67a", "responses are kept again",
			"Responses are stored again",
			"The database of responses could be opened. Nothing needs to be done."},
		{"response-not-stored", "a684cb7294af45fd9d39004e20908843", "a response is not stored",
			"A response could not be stored",
			"Its client received the response, and cannot continue it by its id. CODEX_ERROR has the\n" +
				"reason, such as a full disk."},
		{"response-not-renewed", "c98f77aad1124f3d80e90df92fe49a02",
			"a response that was continued may go sooner than it should",
			"The time of a continued response could not be renewed",
			"Its time (response_retention) runs from its use before. CODEX_ERROR has the reason, such as\n" +
				"a full disk."},
		{"responses-not-forgotten", "610540a239f64e39a311cb3c209aa919", "cannot forget old responses",
			"Old responses could not be removed",
			"They stay in /var/lib/codex-proxy for longer than response_retention; the service tries\n" +
				"again by itself. CODEX_ERROR has the reason."},
		{"background-response", "5e46201d336b493ea5576eaf4cab26fe", "background response",
			"A background response has ended",
			"The response @CODEX_RESPONSE_ID@ has ended (@CODEX_OUTCOME@). Its request was answered\n" +
				"before: `journalctl CODEX_REQUEST_ID=@CODEX_REQUEST_ID@` shows every entry of both."},
		{"background-refused", "6f8b0318531242acb9b5b469cf3c1fb3", "a background response cannot be stored",
			"A background response could not begin",
			"Its client received status 503. CODEX_ERROR has the reason, such as a full disk."},
		{"background-without-events", "bcf1726dcca4406281757ea69619a5f8",
			"the events of a background response cannot be written",
			"The events of a background response could not be written",
			"The response has failed with that reason: its clients would miss events. CODEX_ERROR has\n" +
				"the details, such as a full disk, or too many bytes of events at a time (a quarter of\n" +
				"response_storage)."},
		{"background-not-stored", "d5c11087528b4e17a6cedc65e4cbacee",
			"a background response that has ended cannot be stored yet",
			"A background response could not be stored at its end",
			"The service tries again every second, and a stop waits for it up to drain_timeout. A\n" +
				"completed response is in_progress for its clients until it is stored; if the service ends\n" +
				"before, it has failed. CODEX_ERROR has the reason, such as a full disk."},
		{"background-abandoned", "f1c002865b3d41b39e839d0f93f2d112",
			"background responses of a process that has ended have failed",
			"Background responses were lost with their process",
			"A process of the service ended, as in a crash, before CODEX_RESPONSES background responses\n" +
				"had ended. They have failed with that reason; their clients have to send them again."},
		{"background-not-abandoned", "60ce5224470842f7b239eec08952f814",
			"cannot end the background responses of a process that has ended",
			"Background responses of a process that has ended are still in flight",
			"The service tries again every 10 seconds. CODEX_ERROR has the reason, such as a full disk."},
		{"codex", "dae2bec3b988445b9b16f90aab8782d5", "",
			"codex has logged a line",
			"Standard error of the worker's codex. CODEX_TARGET is the part of codex that logged it."},
	}
}
