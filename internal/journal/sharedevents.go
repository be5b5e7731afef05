package journal

// sharedEvents are those that both codex-proxy and codex-runner make: the catalogue of each has them.
func sharedEvents() []event {
	return []event{
		{"watchdog-withheld", "70d8e98efdb34af3a6d30d910c40f4c8", "watchdog: pings withheld",
			"A program does not pass its watchdog's check",
			"CODEX_ERROR names the part that is stuck. systemd kills and restarts the unit when this\n" +
				"lasts longer than WatchdogSec=."},
		{"watchdog-resumed", "ea9dfdcff7e14fe38b334dc39706b945", "watchdog: pings resumed",
			"The watchdog's check passes again",
			"It failed for a while, shorter than WatchdogSec=."},
		{"notify-failed", "1538db953f6e4ad893e6823978883c0e", "cannot notify the service manager",
			"systemd could not be notified",
			"`systemctl status` may show an old state."},
		{"textfile-not-written", "44bd39cf63c6494ea5e7b80efd8ac6c9", "cannot write the textfile of node exporter",
			"The file for node exporter cannot be written",
			"@CODEX_PATH@ is old or missing; requests are served. If node exporter was installed after\n" +
				"codex-proxy:\n" +
				"  chgrp codex-proxy /var/lib/prometheus/node-exporter\n" +
				"  chmod g+w /var/lib/prometheus/node-exporter && systemctl restart codex-proxy"},
		{"textfile-not-removed", "f884ac07eb62415fa591f7addcbfc906", "cannot remove the textfile of node exporter",
			"The file for node exporter is still there",
			"The service ended, and @CODEX_PATH@ shows its last state. Remove the file by hand."},
	}
}
