package journal

// remoteEvents are those of remotes: their main process logs them into the journal of its unit.
func remoteEvents() []event {
	return []event{
		{"keeper-ready", "3655bcef5c8345648ec89127c713f083", "the keeper has readied codex",
			"The codex of a remote is ready",
			"Cut turns go on, and people can attach. CODEX_TURNS counts the turns that were\n" +
				"cut, and those that go on."},
		{"keeper-lost", "056d5b214cd84d39947c645f080ca6a8", "the keeper has lost codex",
			"The main process of a remote has lost its codex",
			"If codex has ended, so does the unit, and systemd starts it again; else the connection is\n" +
				"made anew."},
		{"ledger-lost", "34ecbbacb97a44c08ef36f381b771c3b", "the ledger of turns is lost: cut turns do not go on",
			"A remote has lost its ledger of turns",
			"Turns that were cut stay interrupted; a message to the thread goes on with its work. The\n" +
				"threads themselves are whole. CODEX_ERROR has the reason."},
		{"ledger-not-written", "4552895f81044cfab520b69d81d54142", "a turn that is cut now may not go on",
			"A remote cannot write its ledger of turns",
			"Turns run, but one that is cut now may stay interrupted. CODEX_ERROR has the reason, such as\n" +
				"a full disk."},
		{"thread-file-unread", "faa36afd5e0848b6badba7e955a5d88c", "cannot read codex's file of a thread",
			"A file of codex could not be read",
			"What is left of the cut turn is not known, so it may stay interrupted. CODEX_ERROR has the\n" +
				"reason."},
		{"turn-not-continued", "f85ee1b1e06d45abac491ba8d45eb83c", "codex does not continue a thread",
			"A cut turn of a remote does not go on",
			"codex has refused to continue it, for the reason in CODEX_ERROR. A message to the thread\n" +
				"goes on with its work."},
		{"turn-shown-interrupted", "a1967d847e184b6ba02b5a39236f84c4", "a turn that goes on is shown as interrupted",
			"A cut turn goes on, and is shown as interrupted",
			"The work is the same; only the part before the cut has that word. CODEX_ERROR has the reason."},
		{"thread-not-told", "b000e30e38a64e328a9747d42773feca", "cannot say in the thread what became of its turn",
			"A thread lacks a line about its turn",
			"The line would show what became of a turn that was cut. CODEX_ERROR has the reason."},
		{"turns-forgotten", "4e8bb556a2bd4bfe9ba798b0816ea9b7", "turns that codex does not run are forgotten",
			"The ledger of a remote had turns that do not run",
			"The main process keeps the ledger as codex is. Nothing is lost."},
		{"codex-notification", "3d72227d96d1458196037f147d2cb966", "codex sent a notification that does not parse",
			"codex and codex-proxy do not understand each other",
			"The notification is left out. A version of codex that is newer than this codex-proxy may\n" +
				"need an update of it."},
		{"client-refused", "6a63a13e72b54e96a7e7307981d96cf3", "a client was refused",
			"A client may not attach to a remote",
			"CODEX_REASON has the reason, which the client was sent."},
		{"client-request-refused", "d2f56012472b4a0cbe2ab41e3f36e0e0", "refused a request of a client",
			"A client asked a remote for something that it may not do",
			"docs/remotes.md has a table of what clients may ask for. The client was sent the reason."},
		{"key-not-lent", "adcbd1ed81b8418cb4d2c6c9b4e7b796", "the server that lends codex its key or login does not run",
			"The codex of a remote cannot reach its model",
			"The server that adds the provider's key, or the login of an account, to the requests of codex\n" +
				"does not run. CODEX_ERROR has the reason; a restart of the unit starts it again."},
		{"provider-unreachable", "d8ced3a1a3754e758de6e001e2d1ac05", "the model endpoint of a remote cannot be reached",
			"The model endpoint of a remote cannot be reached",
			"codex repeats its request. CODEX_ERROR has the reason."},
		{"codex-socket", "ee76abe8c4174c1789d36afbc6bb1c24", "codex's socket cannot be opened",
			"The socket of a remote's codex cannot be opened",
			"The start fails, and systemd tries again. CODEX_ERROR has the reason."},
		{"remote-no-account", "8a80db83594f4abaaed3ee7a7299c792", "no account is lent to a remote",
			"No account serves a remote",
			"CODEX_ERROR has the reason. The remote runs; its turns wait, or fail with the reason. It asks\n" +
				"again every 5 seconds. codex-proxy accounts list"},
		{"remote-shows-account", "620717f466084bdea5233aa32f8f0170", "codex shows people an account that does not serve any more",
			"The codex of a remote shows another account than the one that serves it",
			"/status shows the plan and the address of an earlier account until the next try, in a second."},
		{"remote-switched", "42d4eba384f24853b8cf04d788782cae", "another account serves a remote",
			"Another account serves a remote",
			"The account @CODEX_ACCOUNT@ serves the remote @CODEX_REMOTE@ in place of @CODEX_FROM@.\n" +
				"A turn that ran goes on. docs/accounts.md has how the account is chosen."},
		{"remote-out-of-quota", "833ad0697a194a07a244f3b52e8fd616", "a turn waits for quota",
			"A turn of a remote waits for quota",
			"No account that may serve the remote @CODEX_REMOTE@ has quota: codex-proxy accounts list.\n" +
				"The turn goes on by itself when one has; a new message starts another one."},
		{"remote-refilled", "7487a95720214579a6670ee16f1a26f3", "a turn that waited for quota goes on",
			"A turn of a remote that waited for quota goes on",
			"An account has quota. Nobody has to do anything."},
		{"remote-attached", "855bdb154e5eddcda93f4a622b90bd45", "attached to a remote",
			"Somebody has attached to a remote",
			"CODEX_USER has attached to the remote @CODEX_REMOTE@. A viewer watches alone."},
		{"remote-detached", "e9ae00536dd30a5ea58d706ed59da209", "detached from a remote",
			"Somebody has detached from a remote",
			"The turns of the remote @CODEX_REMOTE@ go on. `codex-proxy attach @CODEX_REMOTE@` comes back."},
		{"remotes-unlisted", "fd775e8678924cd6a1476a1e64e06a57", "the remotes cannot be listed",
			"The service cannot list the remotes",
			"The remotes themselves run as before; status and metrics of new ones are missing. CODEX_ERROR\n" +
				"has the reason."},
		{"remote-unasked", "001242b0b07d4dedb77637971911f275", "cannot read the status of a remote",
			"The service cannot ask a remote for its status",
			"The remote itself runs. Its metrics, but for the state of its unit, are old until it answers.\n" +
				"The service asks on the socket of codex-remote-network@@CODEX_REMOTE@. CODEX_ERROR has the\n" +
				"reason."},
		{"remote-cut", "b4b28558141f38e68347cce6389e078f", "the end of codex has cut a turn",
			"A turn of a remote was cut",
			"codex has ended while the turn ran, and runs again. The next entry of the thread has what\n" +
				"becomes of the turn: `journalctl CODEX_THREAD_ID=@CODEX_THREAD_ID@`."},
		{"remote-continued", "aa58dad14b48392a391a069a3cc46089", "a cut turn goes on",
			"A cut turn of a remote goes on",
			"The model continues the turn where it was cut. Nobody has to do anything."},
		{"remote-asks", "9642b1cf16309b19c420a9b45bc49e13", "a cut turn waits for the word of a person",
			"A cut turn of a remote goes on only if a person says so",
			"The file of the remote says continue = \"ask\". `codex-proxy remotes continue @CODEX_REMOTE@` has\n" +
				"the turn go on; a new message leaves it."},
		{"remote-not-continued", "99af96d2b58f55850d250bc7f64e1d2a", "a cut turn stays interrupted",
			"A cut turn of a remote stays interrupted",
			"The file of the remote says continue = \"never\". A message to the thread goes on with its work."},
		{"remote-given-up", "d7f6ee779e1f3b8effd31c6069055960", "a cut turn is given up",
			"A cut turn of a remote does not go on any more",
			"The turn went on as often as continue_limit of the remote @CODEX_REMOTE@ allows, and was cut\n" +
				"again. The journal before this entry shows why codex ended: codex-proxy remotes logs\n" +
				"@CODEX_REMOTE@. A message to the thread goes on with its work."},
		{"remote-redelivered", "67e25e6b2aa3cbfc28251a9948d24120", "codex has lost a message, which was sent again",
			"A message to a remote was sent again",
			"codex ended before it had written the message down. It is in the thread once."},
		{"remote-turn-ended", "12a212904a6023af7a49df850dfff1bd", "a turn of a remote has ended",
			"A turn of a remote has ended",
			"codex ended the turn as @CODEX_STATUS@. What the model said is not logged: `codex-proxy attach\n" +
				"@CODEX_REMOTE@` shows it."},
		{"remote-approval-waits", "74c49227374254b003f74664c3f2a995", "a turn waits for a person, and nobody is attached",
			"A turn of a remote waits for a person",
			"It goes on after an answer: `codex-proxy attach @CODEX_REMOTE@`. The command of [notify] is\n" +
				"run, too, if the file of the remote has one."},
		{"remote-tool-answered", "09e9d4de5ce2e2a19b7529a0a04cc84d", "the keeper has answered a tool of a client that is gone",
			"A tool of a detached terminal was answered",
			"The tool @CODEX_TOOL@ belongs to a client that is detached. The model received that answer,\n" +
				"and goes on."},
		{"notification-failed", "0751b05bce8f4dac842afac8801e09f5", "the command of [notify] has failed",
			"The command of a remote's [notify] has failed",
			"Nothing else is affected. CODEX_ERROR has its status and the beginning of its output."},
		{"logins-accept", "d4d74ec549054a9abe4676a24e69fdf8", "cannot accept a remote",
			"A remote that asks for a login has to wait",
			"The service has no file descriptor left, or the kernel no memory. It tries again. CODEX_ERROR\n" +
				"has the reason."},
		{"logins-ended", "c848839fed1a40909a4a21b4a12ffb01", "the connection of a remote to the logins has ended",
			"The connection by which a remote asks for logins has ended",
			"A remote that runs connects again. CODEX_ERROR has the reason."},
		{"notice-lost", "163c23a906d5428294cd95bacbc1fb4b", "a notice for the command of [notify] is lost",
			"The command of a remote's [notify] is not run for an event",
			"CODEX_ERROR has the reason. The unit that runs it is codex-remote-notify@@CODEX_REMOTE@."},
		{"notice-refused", "cf48c2ba7eb74563adf0b58fdf4e5850", "a notice is refused: another user has sent it",
			"Another user has tried to have the command of a remote's [notify] run",
			"The command is run for notices of the remote's user alone. CODEX_UID has sent this one."},
		{"notice-unparsed", "496be1e396c24015a32c5568d683cdc5", "a notice is refused: it does not parse",
			"A notice for the command of a remote's [notify] does not parse",
			"A process of the remote's user has sent it that is not codex-proxy."},
		{"remote-link-ended", "8970704cded771331605a2ca661133ee", "a connection of an API key to a remote has ended",
			"A connection of an API key to a remote has ended",
			"CODEX_REASON has the reason. The remote goes on; codex's TUI connects again by itself unless\n" +
				"its user has left."},
		{"remote-links-stay", "bebc854aff29a951be5f9042c5d8135b", "not all connections to remotes are passed on yet",
			"A reload takes long to pass connections to remotes on",
			"They follow in a moment, or end with the process before the reload; then their clients connect\n" +
				"again. CODEX_ERROR has their number."},
		{"remote-link-lost", "1af5841251da407830955729436fe124", "the reload has lost a connection of an API key to a remote",
			"A reload has lost a connection of an API key to a remote",
			"Its client connects again, and the remote goes on. CODEX_ERROR has the reason."},
	}
}
