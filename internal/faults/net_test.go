//go:build faults

package faults

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/programs"
)

const (
	// netTime is how long the random partitions go on after each kind has been seen once.
	netTime = 20 * time.Second
	// insideVariable tells the test that it runs in a network namespace of its own.
	insideVariable = "LANCEMASTER_FAULTS_INSIDE"
	// testHost is where clients and backends are, netHosts where the masters are.
	testHost, netHosts = "10.77.0.254", "10.77.0."
)

// Real masters, each in a network namespace of its own, behind one bridge, are cut off from each other:
// both ways, one way, and so that one still reaches all. The test runs itself again in a namespace of its
// own, where the bridge, the clients and the backends are; nothing else of the machine's network is
// touched.
func TestNetPartitions(t *testing.T) {
	if os.Getenv(insideVariable) == "" {
		inNamespace(t)
		return
	}
	c := netCluster(t)
	l := newLoad(c)
	l.start()
	l.until(5)
	r := dice(t, "partitions")
	kinds := partitions()
	for i, end := 0, time.Now(); i < len(kinds) || time.Now().Before(end.Add(netTime)); i++ {
		kind := kinds[i%len(kinds)]
		leader := c.leader()
		others := c.others(leader)
		if r.IntN(2) == 0 {
			others[0], others[1] = others[1], others[0]
		}
		t.Logf("%s: %s leads", kind.name, leader.id)
		kind.cut(leader, others[0], others[1])
		await.Moment(between(r, 2*time.Second, 5*time.Second))
		if kind.available {
			l.until(1) // somewhere is a majority that clients reach
		}
		for _, n := range c.nodes {
			n.receiveFrom(c.nodes...)
		}
		c.untilWhole()
		l.until(3)
	}
	c.judge(l)
}

// partition is a way to cut a leader from two followers.
type partition struct {
	name      string
	cut       func(leader, a, b *node)
	available bool // clients are served meanwhile
}

func partitions() []partition {
	return []partition{
		{"the leader is alone", func(leader, a, b *node) {
			leader.receiveFrom()
			a.receiveFrom(b)
			b.receiveFrom(a)
		}, true},
		{"a follower is alone", func(leader, a, b *node) {
			a.receiveFrom()
			leader.receiveFrom(b)
			b.receiveFrom(leader)
		}, true},
		{"everybody is alone", func(leader, a, b *node) {
			leader.receiveFrom()
			a.receiveFrom()
			b.receiveFrom()
		}, false},
		{"the leader hears nobody", func(leader, _, _ *node) { leader.receiveFrom() }, true},
		{"nobody hears the leader", func(_, a, b *node) {
			a.receiveFrom(b)
			b.receiveFrom(a)
		}, true},
		{"a follower hears nobody", func(_, a, _ *node) { a.receiveFrom() }, true},
		{"one follower is the bridge", func(leader, a, b *node) {
			leader.receiveFrom(a)
			b.receiveFrom(a)
		}, true},
		{"the leader is the bridge", func(leader, a, b *node) {
			a.receiveFrom(leader)
			b.receiveFrom(leader)
		}, true},
	}
}

// receiveFrom has a node drop every packet that comes from a master, but for these.
func (n *node) receiveFrom(heard ...*node) {
	n.t.Helper()
	rules := "flush ruleset\ntable inet faults {\nchain in {\ntype filter hook input priority 0;\n"
	rules += "ip saddr " + testHost + " accept\nip saddr " + n.host + " accept\n"
	for _, other := range heard {
		rules += "ip saddr " + other.host + " accept\n"
	}
	rules += "ip saddr " + netHosts + "0/24 drop\n}\n}\n"
	if out, err := privileged(rules, n.prefix[0], append(slices.Clone(n.prefix[1:]), "nft", "-f", "-")...); err != nil {
		n.t.Fatalf("setting what %s receives: %v: %s", n.id, err, out)
	}
}

// inNamespace runs the test again in a network namespace of its own, if this machine can.
func inNamespace(t *testing.T) {
	why := asRoot("ip", "nft", "unshare")
	if why == nil {
		out, err := privileged("", "unshare", "--net", "sh", "-c", "ip link add faults0 type bridge && ip link add faults1 type veth && nft list ruleset")
		if err != nil {
			why = fmt.Errorf("this kernel does not give namespaces with bridges, veth and nft: %w: %s", err, out)
		}
	}
	if why != nil {
		fmt.Printf("\nfaults: SKIPPED %s: %v\n\n", t.Name(), why)
		t.Skip(why)
	}
	env := []string{insideVariable + "=1", "LANCEMASTER_BIN=" + os.Getenv("LANCEMASTER_BIN"), fmt.Sprintf("LANCEMASTER_FAULTS_SEED=%d", seed)}
	p := programs.Launch(t, "the test in its namespace", env, "unshare", "--net", "--", os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	p.Wait(8 * time.Minute)
	if p.ExitCode() != 0 {
		t.Errorf("the test failed in its namespace: %v", p.Err())
		return // what it printed is shown
	}
	t.Logf("in its namespace:\n%s", p.Out())
}

// netCluster forms a cluster of masters in namespaces.
func netCluster(t *testing.T) *cluster {
	t.Helper()
	ip(t, "link", "set", "lo", "up")
	ip(t, "link", "add", "faults0", "type", "bridge")
	ip(t, "address", "add", testHost+"/24", "dev", "faults0")
	ip(t, "link", "set", "faults0", "up")
	c := newCluster(t, 3)
	for i, n := range c.nodes {
		n.host = fmt.Sprint(netHosts, i+1)
		n.joinNetwork(fmt.Sprintf("lancemaster-faults-%d-%s", os.Getpid(), n.id), fmt.Sprintf("faults%d", i+1))
	}
	c.certificates()
	c.listMembers()
	c.api = c.newClient()
	c.startAll()
	c.prepareAt(testHost)
	return c
}

// joinNetwork makes the node's namespace and connects it to the bridge.
func (n *node) joinNetwork(namespace, port string) {
	n.t.Helper()
	ip(n.t, "netns", "add", namespace)
	n.t.Cleanup(func() { ip(n.t, "netns", "delete", namespace) })
	ip(n.t, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
	ip(n.t, "link", "set", port, "master", "faults0", "up")
	for _, args := range [][]string{
		{"link", "set", "lo", "up"}, {"address", "add", n.host + "/24", "dev", "eth0"}, {"link", "set", "eth0", "up"},
	} {
		ip(n.t, append([]string{"-n", namespace}, args...)...)
	}
	n.prefix = []string{"ip", "netns", "exec", namespace}
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := privileged("", "ip", args...); err != nil {
		t.Fatalf("ip %q: %v: %s", args, err, out)
	}
}

// certificates makes a CA, a certificate for each master, and one for the test's clients: masters want
// to know who calls where others reach them.
func (c *cluster) certificates() {
	t := c.t
	t.Helper()
	dir := t.TempDir()
	pki := filepath.Join(dir, "pki")
	issue := func(args ...string) {
		t.Helper()
		if out := cli(t, c.nodes[0].binary, c.admins(), append([]string{"tls"}, args...)...); out.Code != 0 {
			t.Fatalf("lancemaster tls %q: %s", args, out)
		}
	}
	issue("ca", "--out", pki)
	issue("cert", "--ca", pki, "--out", filepath.Join(dir, clientName), "--name", clientName, "--role", "admin")
	mine, err := tls.LoadX509KeyPair(filepath.Join(dir, clientName, clientName+".crt"), filepath.Join(dir, clientName, clientName+".key"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(pki, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	for _, n := range c.nodes {
		own := filepath.Join(dir, n.id)
		issue("cert", "--ca", pki, "--out", own, "--name", n.id, "--role", "master", "--node", n.id, "--host", n.host)
		n.tls = &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{mine}, MinVersion: tls.VersionTLS12}
		n.flags = append(n.flags, "--admin-tls", "mutual", "--raft-tls", "mutual", "--tls-ca-file", filepath.Join(pki, "ca.crt"),
			"--tls-cert-file", filepath.Join(own, n.id+".crt"), "--tls-key-file", filepath.Join(own, n.id+".key"))
	}
}
