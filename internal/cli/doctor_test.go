package cli

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/client/clienttest"
)

const metricsPage = `# HELP lancemaster_data_filesystem_avail_bytes Space.
lancemaster_data_filesystem_avail_bytes 5e+10
lancemaster_data_filesystem_size_bytes 1e+11
lancemaster_raft_last_log_index 61
lancemaster_raft_snapshot_index 40
lancemaster_raft_snapshot_timestamp_seconds 1.7723664e+09
lancemaster_tls_certificate_expiry_timestamp_seconds{use="a } b"} 4.1e+09
lancemaster_tls_certificate_expiry_timestamp_seconds{use="raft"} 4e+09
lancemaster_tls_reload_success{use="raft"} 1
lancemaster_config_last_reload_successful 1
lancemaster_tokens_file_reload_success 1
go_goroutines 7
`

// noon is a time shortly after all that happens in the world of clienttest.
var noon = time.Date(2026, 3, 1, 12, 10, 0, 0, time.UTC)

// examined is the evidence of a cluster of one master, as of noon.
func examined(t *testing.T) *evidence {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
		}
		_, _ = w.Write([]byte(metricsPage))
	}))
	t.Cleanup(h.Close)
	s := clienttest.New(t)
	s.Alone(h.Listener.Addr().String())
	a := &cli{addr: s.Addr(), clientName: "ada", callTimeout: 5 * time.Second}
	e, err := a.examine(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	e.now = noon
	for _, m := range e.masters {
		m.address, m.page.dated = "MASTER", false
	}
	return e
}

func (l *checks) text() string {
	var out strings.Builder
	for _, c := range *l {
		fmt.Fprintf(&out, "%s %s: %s", c.Result, c.Name, c.Detail)
		if c.Next != "" {
			fmt.Fprintf(&out, "; next: %s", c.Next)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func TestDoctorOfTheWholeCluster(t *testing.T) {
	want := `ok master master-1: it answers at MASTER: leader, version v0.1.0, since 2026-03-01T11:58:20Z
ok leader: master-1 leads: said by the one asked
ok versions: v0.1.0 at feature level 1: run by the one
note voters: there is one, and it may not be lost; three bear the loss of one
ok quarantine: none
ok admission: the gate is open and dispatch goes on
ok certificates: the first to expire, of master-1, does in 25782 days, at 2096-10-02T07:06:40Z
ok disk master-1: 50% of the data directory's file system is free, 50.0 GB
ok snapshot master-1: the newest is of 2026-03-01T12:00:00Z, 10m old, with 21 entries since
ok backends: 1 of 2 answer, draining: 1
note backend 2: 10.0.0.8:9060 is draining and does not answer; next: if it is gone for good: lancemaster backend remove 2
warn UNKNOWN jobs: 1 waits for an operator, the oldest is job 2, admitted 2026-03-01T12:00:02Z; next: find out what became of each, and release it: lancemaster job explain 2
ok refreshes: none has failed
ok PENDING jobs: 1 waits to be sent, the oldest is job 5, since 9m55s
`
	got := examined(t).judged()
	sorted := func(text string) map[string]bool {
		lines := map[string]bool{}
		for l := range strings.Lines(text) {
			lines[l] = true
		}
		return lines
	}
	for l := range sorted(want) {
		if !strings.Contains(got.text(), l) {
			t.Errorf("missing: %s", l)
		}
	}
	if len(sorted(want)) != len(got) || got.worst() != doctorWarn {
		t.Errorf("%s:\n%s", got.worst(), got.text())
	}
}

// Each fault is found, and said with what to do about it.
func TestDoctorFindsFaults(t *testing.T) {
	member := func(id string) client.Member {
		return client.Member{NodeID: id, Address: "10.0.0.2:9010", AdminAddress: "10.0.0.2:9021", Reachable: true, Voter: true, AppliedIndex: 61, Version: "v0.1.0", FeatureLevel: 1}
	}
	second := func(e *evidence, change func(*client.Status)) {
		s := *e.masters[0].status
		s.NodeID, s.RaftState, s.Ready = "m2", "Follower", false
		change(&s)
		e.masters = append(e.masters, &masterSeen{address: "10.0.0.2:9021", status: &s, page: e.masters[0].page})
	}
	setting := func(e *evidence, name, value string) {
		e.settings = append(e.settings, client.Setting{Name: name, Value: value})
	}
	metric := func(e *evidence, name string, v float64) { e.masters[0].page.metrics["lancemaster_"+name] = v }
	for _, tt := range []struct {
		want   string
		change func(*evidence)
	}{
		{"FAIL master 10.0.0.9:9021: it does not answer: refused; next: ", func(e *evidence) {
			e.masters = append(e.masters, &masterSeen{address: "10.0.0.9:9021", err: errors.New("refused")})
		}},
		{"warn master m2: its admin service cannot be reached from here at 10.0.0.2:9021, which the cluster names: refused; next: ", func(e *evidence) {
			e.masters = append(e.masters, &masterSeen{address: "10.0.0.2:9021", node: "m2", err: errors.New("refused")})
		}},
		{"warn master m3: at 10.0.0.2:9021, which the cluster names, m2 answers; next: ", func(e *evidence) { second(e, func(*client.Status) {}); e.masters[1].node = "m3" }},
		{"warn master m2: its admin service is for its own machine, at \"127.0.0.1:9021\", and was not asked; next: ", func(e *evidence) {
			m := member("m2")
			m.AdminAddress = "127.0.0.1:9021"
			e.cluster.Members = append(e.cluster.Members, m)
		}},
		{"FAIL master m2: it has no cluster and is waiting: for m3; next: ", func(e *evidence) { second(e, func(s *client.Status) { s.WaitingFor = "for m3" }) }},
		{"FAIL master m2: it has no cluster and is waiting: run `lancemaster cluster replace m2`\nok leader: master-1 leads: said by the one asked", func(e *evidence) {
			second(e, func(s *client.Status) {
				s.WaitingFor, s.LeaderID, s.FeatureLevel = "run `lancemaster cluster replace m2`", "", 0
			})
		}},
		{"FAIL master master-1: it answers at MASTER and is not ready: no quorum; next: ", func(e *evidence) {
			e.masters[0].status.Ready, e.masters[0].status.NotReadyReason = false, "no quorum"
		}},
		{"ok leader: master-1 leads: said by all 2 asked", func(e *evidence) { second(e, func(*client.Status) {}) }},
		{"FAIL leader: the masters do not agree on who leads: m2 (m2); master-1 (master-1); next: ", func(e *evidence) { second(e, func(s *client.Status) { s.LeaderID = "m2" }) }},
		{"FAIL leader: no master knows a leader; next: ", func(e *evidence) { e.masters[0].status.LeaderID = "" }},
		{"FAIL leader: no master answers; next: ", func(e *evidence) { e.masters[0].status, e.masters[0].err = nil, errors.New("refused") }},
		{"FAIL master 10.0.0.9:9021: it answers at 10.0.0.9:9021, and refuses you: who are you; next: say it", func(e *evidence) {
			e.masters = append(e.masters, &masterSeen{address: "10.0.0.9:9021", err: &client.Error{Code: "UNAUTHENTICATED", Message: "who are you", Next: "say it"}})
		}},
		{"FAIL leader: no master that answers lets you in, so who leads is not known; next: ", func(e *evidence) {
			e.masters[0].status, e.masters[0].err = nil, &client.Error{Code: "UNAUTHENTICATED", Message: "who are you"}
		}},
		{"ok leader: master-1 leads: said by 1 of 2 asked", func(e *evidence) {
			second(e, func(s *client.Status) { s.LeaderID, s.NotReadyReason = "", "another disk" })
		}},
		{"FAIL leader: the masters do not agree on who leads: nothing known (m2); master-1 (master-1); next: ", func(e *evidence) {
			second(e, func(s *client.Status) { s.LeaderID = "" })
			e.clusterErr = errors.New("no leader") // so that it is not known to lead
		}},
		{"FAIL leader: it cannot be asked: not allowed; next: ", func(e *evidence) { e.clusterErr = errors.New("not allowed") }},
		{"FAIL cluster: the masters are not of one cluster: cluster 271828 in incarnation 1 (master-1); cluster 271828 in incarnation 2 (m2); next: ", func(e *evidence) {
			second(e, func(s *client.Status) { s.Incarnation = 2 })
		}},
		{"warn versions: they differ: v0.1.0 (master-1); v0.2.0 (m2); next: ", func(e *evidence) { second(e, func(s *client.Status) { s.Version = "v0.2.0" }) }},
		{"warn feature levels: they differ: 1 (master-1); 2 (m2); next: ", func(e *evidence) { second(e, func(s *client.Status) { s.FeatureLevel = 2 }) }},
		{"FAIL member m2: master-1 does not reach it at 10.0.0.2:9010: refused; next: start it; if its disk is lost, lancemaster cluster replace m2", func(e *evidence) {
			m := member("m2")
			m.Reachable, m.LastError = false, "refused"
			e.cluster.Members = append(e.cluster.Members, m)
		}},
		{"FAIL member m2: master-1 does not reach it at 10.0.0.2:9010: refused; next: start it\n", func(e *evidence) {
			m := member("m2")
			m.Reachable, m.LastError = false, "refused"
			e.cluster.Members = append(e.cluster.Members, m)
			e.cluster.Voters, e.cluster.Quorum = 2, 2 // without which nobody can be replaced
		}},
		{"warn member m2: it does not vote yet, 40 entries behind; next: ", func(e *evidence) {
			m := member("m2")
			m.Voter, m.AppliedIndex = false, 21
			e.cluster.Members = append(e.cluster.Members, m)
		}},
		{"warn member master-1: it is 1939 entries behind; next: ", func(e *evidence) {
			m := member("m2")
			m.AppliedIndex = 2000
			e.cluster.Members = append(e.cluster.Members, m)
		}},
		{"warn voters: 2, of which 2 are needed: none may be lost now; next: ", func(e *evidence) {
			e.cluster.Members = append(e.cluster.Members, member("m2"))
			e.cluster.Voters, e.cluster.Quorum = 2, 2
		}},
		{"FAIL voters: master-1 reaches 1 of 3 and 2 are needed: nothing can be changed, and reads need --stale; next: start those", func(e *evidence) {
			e.cluster.Voters, e.cluster.Quorum = 3, 2
		}},
		{"note backends: they, jobs and settings were not looked at", func(e *evidence) { e.clusterErr = errors.New("no leader") }},
		{"ok voters: 3, of which 2 are needed: 1 may be lost now", func(e *evidence) {
			e.cluster.Members = append(e.cluster.Members, member("m2"), member("m3"))
			e.cluster.Voters, e.cluster.Quorum, e.cluster.FailuresTolerated = 3, 2, 1
		}},
		{"warn cluster: something else", func(e *evidence) { e.cluster.Warnings = []string{"something else"} }},
		{"warn clocks: master-1 is ahead of m2 by 11.0s, and no two are further apart; next: ", func(e *evidence) { e.offset(member("m2"), -11*time.Second) }},
		{"FAIL clocks: m2 is ahead of master-1 by 1m1s, and no two are further apart; next: ", func(e *evidence) { e.offset(member("m2"), 61*time.Second) }},
		{"FAIL clocks: m2 is ahead of m3 by 1m20s, and no two are further apart; next: ", func(e *evidence) {
			e.offset(member("m2"), 40*time.Second)
			e.offset(member("m3"), -40*time.Second)
		}},
		{"ok clocks: those of all members that were heard are within 0.1s", func(e *evidence) { e.offset(member("m2"), 99*time.Millisecond) }},
		{"ok clocks: m2 is ahead of master-1 by 0.2s", func(e *evidence) { e.offset(member("m2"), 200*time.Millisecond) }},
		{"note clock here: that of master-1 is 30s behind this machine's, to a second, as the time in its HTTP answers is", func(e *evidence) {
			e.masters[0].page.dated, e.masters[0].page.ahead = true, -30*time.Second
		}},
		{"FAIL quarantine: the cluster is quarantined since 2026-03-01T12:10:00Z: restored; next: ", func(e *evidence) {
			s := e.masters[0].status
			s.Quarantined, s.QuarantineCause, s.QuarantinedAt = true, "restored", client.Time{Time: noon}
		}},
		{"note admission: the gate is closed: new jobs are refused; next: ", func(e *evidence) { setting(e, "admission.enabled", "false") }},
		{"warn backend 1: 10.0.0.7:9060 answers as a process that by its own clock started at 2026-03-01T11:59:00Z, before the quarantine began at 2026-03-01T12:10:00Z; next: restart it", func(e *evidence) {
			s := e.cluster.Node
			s.Quarantined, s.QuarantinedAt = true, client.Time{Time: noon}
		}},
		{"note dispatch: it is paused: no job is sent to a backend; next: reopen the cluster first (above), before which this is refused; then ", func(e *evidence) {
			setting(e, "dispatch.paused", "true")
			e.masters[0].status.Quarantined = true
		}},
		{"note dispatch: it is paused: no job is sent to a backend; next: ", func(e *evidence) { setting(e, "dispatch.paused", "true") }},
		{"FAIL certificate master-1: it expired, at 2026-03-01T12:09:59Z; next: ", func(e *evidence) { e.masters[0].expiry = noon.Add(-time.Second) }},
		{"FAIL certificate master-1: it expires within a day, at ", func(e *evidence) { e.masters[0].expiry = noon.Add(23 * time.Hour) }},
		{"warn certificate master-1: it expires in 13 days, at ", func(e *evidence) { e.masters[0].expiry = noon.Add(14*24*time.Hour - time.Second) }},
		{"FAIL certificate m2: it expired, at 2026-03-01T12:09:59Z; next: replace the files of tls.cert_file and tls.key_file on m2", func(e *evidence) {
			e.masters[0].expiry = noon.Add(time.Hour) // each is told of, not the first alone
			second(e, func(*client.Status) {})
			e.masters[1].expiry = noon.Add(-time.Second)
		}},
		{"warn certificate master-1: it expires in 1 day, at ", func(e *evidence) {
			metric(e, "tls_certificate_expiry_timestamp_seconds", float64(noon.Add(25*time.Hour).Unix()))
		}},
		{"FAIL certificate files master-1: those of tls.* were changed and cannot be used: it goes on with the ones before; next: see in its log", func(e *evidence) {
			metric(e, "tls_reload_success", 0)
		}},
		{"FAIL tokens file master-1: that of admin.tokens_file was changed and cannot be used: the tokens of before stay valid there, those taken out of it since too; next: run lancemaster config check", func(e *evidence) {
			metric(e, "tokens_file_reload_success", 0)
		}},
		{"FAIL configuration master-1: it, or a file that it names, was faulty at the last reload: it goes on with the one before; next: run lancemaster config check", func(e *evidence) {
			metric(e, "config_last_reload_successful", 0)
		}},
		{"note certificates: none was seen: ", func(e *evidence) {
			delete(e.masters[0].page.metrics, "lancemaster_tls_certificate_expiry_timestamp_seconds")
		}},
		{"warn metrics master-1: they cannot be read, so its disk was not looked at: refused; next: ", func(e *evidence) { e.masters[0].page.err = errors.New("refused") }},
		{"note metrics master-1: they are for its own machine, at ", func(e *evidence) { e.masters[0].page = nil }},
		{"warn metrics 10.0.0.1:8030: they cannot be read, so its disk was not looked at: refused; next: ", func(e *evidence) {
			e.pages = []*pageSeen{{address: "10.0.0.1:8030", err: errors.New("refused")}}
		}},
		{"FAIL disk master-1: 2% of the data directory's file system is free, 2.0 GB; next: ", func(e *evidence) { metric(e, "data_filesystem_avail_bytes", 2e9) }},
		{"warn disk master-1: 9% of the data directory's file system is free, 9.0 GB; next: ", func(e *evidence) { metric(e, "data_filesystem_avail_bytes", 9e9) }},
		{"warn snapshot master-1: there is none yet; the log has grown by 100001 entries since; next: ", func(e *evidence) {
			metric(e, "raft_snapshot_timestamp_seconds", 0)
			metric(e, "raft_snapshot_index", 0)
			metric(e, "raft_last_log_index", 100_001)
		}},
		{"ok snapshot master-1: there is none yet, with 14 entries in the log", func(e *evidence) {
			metric(e, "raft_snapshot_timestamp_seconds", 0)
			metric(e, "raft_snapshot_index", 0)
			metric(e, "raft_last_log_index", 14)
		}},
		{"warn backends: there are none, so no job can run; next: ", func(e *evidence) { e.backends = nil }},
		{"FAIL backends: none of 1 answers, so no job can run; next: ", func(e *evidence) { e.backends = e.backends[1:] }},
		{"warn backends: 1 of 2 answer, draining: 2: no job can be sent; next: ", func(e *evidence) { e.backends[0].State = "draining" }},
		{"FAIL backend 1: 10.0.0.7:9060 does not answer, and jobs hold 2 of its slots: why is not known; next: start it again at the same address; if slots stay held, only one process was heard since the send, which proves nothing: restart it once more, or ", func(e *evidence) { e.backends[0].Alive = false }},
		{"warn backend 1: 10.0.0.7:9060 does not answer: why is not known; next: ", func(e *evidence) { e.backends[0].Alive, e.backends[0].SlotsHeld = false, 0 }},
		{"ok UNKNOWN jobs: none waits for an operator", func(e *evidence) { e.unknown = &client.JobPage{} }},
		{"warn UNKNOWN jobs: more than 1 wait for an operator", func(e *evidence) { e.unknown.NextPageToken = "x" }},
		{"warn refreshes: 1 waits for a refresh that failed, the oldest is job 2; next: ", func(e *evidence) { e.refreshing = e.unknown }},
		{"warn PENDING jobs: 1 waits to be sent, the oldest is job 5, since 19m55s; next: ", func(e *evidence) { e.now = noon.Add(10 * time.Minute) }},
		{"ok PENDING jobs: none waits", func(e *evidence) { e.pending = &client.JobPage{} }},
		{"FAIL backend 1: 10.0.0.7:9060 is told to report to a loopback address, so that its jobs end UNKNOWN unless it runs on that master's machine: master-1 tells 127.0.0.1:9020; next: set report.listen", func(e *evidence) {
			e.cluster.Members[0].ReportAddress = "127.0.0.1:9020"
		}},
		{"warn backend 1: 10.0.0.7:9060 is told to report to a loopback address, so that its jobs end UNKNOWN unless it runs on that master's machine: m2 tells [::1]:9020; next: set report.listen", func(e *evidence) {
			m := member("m2")
			m.ReportAddress = "[::1]:9020"
			e.cluster.Members = append(e.cluster.Members, m)
		}},
		{"FAIL backends: the leader was asked for them in vain: not allowed; next: ", func(e *evidence) { e.missed["backends"] = errors.New("not allowed") }},
	} {
		e := examined(t)
		first := e.judged()
		before := first.text()
		tt.change(e)
		second := e.judged()
		got := second.text()
		if !strings.Contains("\n"+got, "\n"+tt.want) {
			t.Errorf("want %s\ngot\n%s", tt.want, got)
		}
		if strings.Contains("\n"+before, "\n"+tt.want) {
			t.Errorf("it is said without a cause: %s", tt.want)
		}
	}
}

func (e *evidence) offset(m client.Member, by time.Duration) {
	d := client.Duration(by)
	m.ClockOffset = &d
	e.cluster.Members = append(e.cluster.Members, m)
}

func TestFrom(t *testing.T) {
	for _, tt := range [][3]string{
		{"10.0.0.1:8030", "10.0.0.1:9021", "10.0.0.1:8030"}, {"0.0.0.0:8030", "10.0.0.1:9021", "10.0.0.1:8030"}, {":8030", "h:9021", "h:8030"},
		{"[::]:8030", "127.0.0.1:9021", "127.0.0.1:8030"}, {"127.0.0.1:8030", "127.0.0.1:9021", "127.0.0.1:8030"}, {"127.0.0.1:8030", "10.0.0.1:9021", ""},
		{"localhost:8030", "h:9021", ""}, {"127.0.0.1:8030", "unix:/run/x", "127.0.0.1:8030"}, {"0.0.0.0:8030", "unix:/run/x", "127.0.0.1:8030"},
		{"", "h:1", ""}, {"unix:/run/x", "h:1", ""},
	} {
		if got := from(tt[0], tt[1]); got != tt[2] {
			t.Errorf("from(%q, %q) = %q, want %q", tt[0], tt[1], got, tt[2])
		}
	}
}

// The command, against masters of which one is not there and pages that are none.
func TestDoctorCommand(t *testing.T) {
	odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello\n")) }))
	defer odd.Close()
	s := newSession(t)
	s.server.Alone(odd.Listener.Addr().String())
	status, out, errs := s.lancemaster(t, "doctor", "--timeout", "10s")
	if status != exitOK || errs != "" || !strings.Contains(out, "warn  metrics master-1  they cannot be read") || !strings.Contains(out, "no page of a master's metrics") {
		t.Errorf("exit %d\n%s%s", status, out, errs)
	}
	s.screen = 80
	if _, out, _ := s.lancemaster(t, "doctor"); !strings.HasPrefix(out, "\x1b[32mok\x1b[0m    master master-1") {
		t.Errorf("on a terminal: %s", out)
	}
	s.screen = 0
	s.addr = closedAddr(t) + "," + s.server.Addr()
	status, out, _ = s.lancemaster(t, "doctor", "-o", "json")
	var told struct {
		Result string
		Checks checks
	}
	if err := json.Unmarshal([]byte(out), &told); err != nil || status != exitFailed || told.Result != doctorFail || len(told.Checks) < 10 || told.Checks[0].Result != doctorFail {
		t.Errorf("exit %d, %v\n%s", status, err, out)
	}
	s.addr = closedAddr(t)
	if status, out, errs := s.lancemaster(t, "doctor"); status != exitFailed || !strings.Contains(out, "no master answers") || errs != "" {
		t.Errorf("exit %d\n%s%s", status, out, errs)
	}
	// No leader: a master says by itself who the members are.
	s.addr = s.server.Addr()
	s.server.Script("clusterStatus", clienttest.Behavior{Refusal: &clienttest.Refusal{Code: "PERMISSION", Message: "not yours"}})
	if status, out, _ := s.lancemaster(t, "doctor"); status != exitFailed || !strings.Contains(out, "it cannot be asked: not yours") || !strings.Contains(out, "note  voters") {
		t.Errorf("exit %d\n%s", status, out)
	}
	for _, args := range [][]string{{"--http", "here"}, {"--timeout", "0s"}, {"--http", ""}} {
		if status, _, _ := s.lancemaster(t, append([]string{"doctor"}, args...)...); status != exitUsage {
			t.Errorf("%v exits with %d", args, status)
		}
	}
}

// The certificates that a master shows are looked at, and its metrics are read with TLS.
func TestDoctorWithTLS(t *testing.T) {
	h := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(metricsPage)) }))
	defer h.Close()
	s := clienttest.NewTLS(t, h.TLS)
	s.Alone(h.Listener.Addr().String())
	ca := t.TempDir() + "/ca.pem"
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	status := Run(t.Context(), []string{"doctor", "--addr", s.Addr(), "--tls-ca", ca, "-o", "json"}, []string{"USER=ada"}, Streams{In: strings.NewReader(""), Out: &out, Err: &bytes.Buffer{}})
	until := h.Certificate().NotAfter.UTC().Format(time.RFC3339)
	if status != exitOK || !strings.Contains(out.String(), "certificates") || !strings.Contains(out.String(), "50% of the data") {
		t.Errorf("exit %d, the certificate is good until %s\n%s", status, until, out.String())
	}
}

// A backend on the master's own machine finds it at a loopback address.
func TestReportsOnOneMachineAreFine(t *testing.T) {
	m := client.Member{NodeID: "m1", Address: "10.0.0.1:9010", ReportAddress: "127.0.0.1:9020", Leader: true}
	for host, want := range map[string]bool{"127.0.0.1": false, "localhost": false, "::1": false, "10.0.0.1": false, "10.0.0.2": true, "worker": true} {
		if who, leads := unreportable([]client.Member{m}, &client.Backend{Host: host, Port: 9060}); (who != "") != want || leads != want {
			t.Errorf("%s: %q, of the leader %v", host, who, leads)
		}
	}
	m.ReportAddress = "m1.example.com:9020"
	if who, _ := unreportable([]client.Member{m}, &client.Backend{Host: "worker", Port: 9060}); who != "" {
		t.Errorf("told of %s", who)
	}
}

// What cannot be used does not count as well, whenever what is in use expires.
func TestCertificatesThatCouldNotBeReadAreNotWell(t *testing.T) {
	e := examined(t)
	e.masters[0].page.metrics[metricCertificatesRead] = 0
	if l := e.judged(); strings.Contains(l.text(), "ok certificates: ") {
		t.Errorf("they are well:\n%s", l.text())
	}
}

// Where no master knows a leader, the search for one is short.
func TestDoctorDoesNotSearchForLong(t *testing.T) {
	s := newSession(t)
	s.server.Alone("127.0.0.1:1")
	s.server.Leaderless()
	for range 4 { // as many as there are tries in that time; then what a master knows by itself
		s.server.Script("clusterStatus", clienttest.Behavior{Refusal: &clienttest.Refusal{Code: "NOT_LEADER", Message: "not I"}})
	}
	began := time.Now()
	status, out, _ := s.lancemaster(t, "doctor")
	if took := time.Since(began); status != exitFailed || !strings.Contains(out, "no master knows a leader") || took > 2*seekTime {
		t.Errorf("exit %d after %s\n%s", status, took, out)
	}
}
