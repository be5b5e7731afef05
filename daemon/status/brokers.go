package status

import (
	"fmt"
	"io"
	"time"

	"codex-proxy/probes"
)

func writeBrokers(w io.Writer, all []probes.Broker, now time.Time) {
	t := unitTable{header: "BROKER\tSTATE\tENDPOINT\tCONNECTIONS\tIN FLIGHT\tREQUESTS\tLAST FAILURE"}
	for _, b := range all {
		t.rows = append(t.rows, brokerRow(b, now))
		if text := b.Sentence(); text != "" {
			t.sentences = append(t.sentences, text)
		}
	}
	t.write(w)
}

func brokerRow(b probes.Broker, now time.Time) []string {
	endpoint, failure := b.Endpoint, "-"
	if endpoint == "" {
		endpoint = "-"
	}
	if f := b.Failure; f != nil {
		failure = fmt.Sprintf("%s, %s ago", f.Reason, age(f.At, now))
		if f.Over {
			failure += ", over"
		}
	}
	return []string{b.Name, unitState(b.ActiveState, b.SubState), endpoint, fmt.Sprint(b.Connections),
		fmt.Sprint(b.Streams), fmt.Sprint(b.Requests), failure}
}
