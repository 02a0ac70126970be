package sandboxtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"metier/sandbox"
)

// Cases 93 to 96, 99 and 100: kernel interfaces.
func kernelWays() []way {
	doors, typing := "kernel interfaces", "the terminal it was started from"
	return []way{
		{number: 93, name: "files without a path", by: "mknod", asRoot: true, do: (*cell).device},
		{number: 93, name: "files without a path", by: "open_by_handle_at", do: (*cell).byHandle},
		{number: 94, name: doors, by: "io_uring", do: func(c *cell) { c.holds("anon_inode:[io_uring]", "io_uring") }},
		{number: 94, name: doors, by: "userfaultfd", do: func(c *cell) { c.holds("anon_inode:[userfaultfd]", "userfaultfd") }},
		{number: 94, name: doors, by: "bpf", asRoot: true, do: func(c *cell) { c.holds("anon_inode:bpf-map", "bpf") }},
		{number: 94, name: doors, by: "perf_event_open", do: func(c *cell) { c.holds("anon_inode:[perf_event]", "perf") }},
		{number: 94, name: doors, by: "session keys", prepare: keyBait, do: (*cell).sessionKey},
		{number: 95, name: "other instruction sets", by: "i386", do: func(c *cell) { c.says("foreign") }},
		{number: 95, name: "other instruction sets", by: "x32", kernel: "kernels are rarely built with CONFIG_X86_X32_ABI", golden: refusesX32, do: func(c *cell) { c.says("x32") }},
		{number: 96, name: typing, by: "TIOCSTI", tty: true, do: func(c *cell) { c.types("sti") }},
		{number: 96, name: typing, by: "TIOCSTI with high bits", tty: true, do: func(c *cell) { c.types("sti-high") }},
		{number: 96, name: typing, by: "/dev/tty", tty: true, do: func(c *cell) { c.types("tty") }},
		{number: 96, name: typing, by: "TIOCLINUX", tty: true, kernel: "needs a virtual console", golden: refusesTerminals, do: func(c *cell) { c.run(c.attack("tioclinux")) }},
		{number: 99, name: "programs without a file", by: "memfd and execveat", do: func(c *cell) {
			c.run(c.attack("memfd-exec", "cat", guarded[0], guarded[1]))
		}},
		{number: 100, name: "programs the kernel starts", by: "core_pattern", prepare: coreBait, do: (*cell).corePattern},
		{number: 100, name: "programs the kernel starts", by: "binfmt_misc", prepare: binfmtBait, do: (*cell).binfmt},
	}
}

func (c *cell) device() {
	c.hold(c.attack("mknod", "/tmp/dev"), func(pids []process) {
		list, _ := filepath.Glob("/tmp/metier-unsafe-*/tmp/dev")
		for _, p := range pids {
			list = append(list, "/proc/"+itoa(p.pid)+"/root/tmp/dev")
		}
		for _, p := range list {
			if fi, err := os.Lstat(p); err == nil && fi.Mode()&os.ModeDevice != 0 {
				c.harm("a device was made: %v", fi.Mode())
			}
		}
	})
}

func (c *cell) byHandle() {
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, filepath.Dir(guarded[0]), 0)
	c.must(err)
	c.run(c.attack("handle", "/tmp", itoa(int(h.Type())), fmt.Sprintf("%x", h.Bytes()), filepath.Base(guarded[0])))
}

// keyBait puts a secret into the session keyring that every process of the cell
// inherits.
func keyBait(s *spec) error {
	if _, err := unix.KeyctlJoinSessionKeyring("metier-sandboxtest"); err != nil {
		return err
	}
	s.Token = secretMark + "session-key-0f1e2d3c4b5a"
	_, err := unix.AddKey("user", "metier-bait", []byte(s.Token), unix.KEY_SPEC_SESSION_KEYRING)
	return err
}

func (c *cell) sessionKey() {
	c.bait.secrets["the session keyring"] = c.spec.Token
	c.run(c.attack("keyctl", "metier-bait"))
}

// says runs an attack that prints a word if it succeeds.
func (c *cell) says(attack string) {
	r := c.run(c.attack(attack, "GOT-THROUGH"))
	if bytes.Contains(r.Stdout, []byte("GOT-THROUGH")) {
		c.harm("a system call of another instruction set worked")
	}
}

// types runs an attack on the judge's terminal and reads from its master side.
func (c *cell) types(attack string) {
	const text = "rm -rf tilde"
	c.run(c.attack(attack, text))
	c.must(unix.SetNonblock(c.spec.TTY, true))
	b := make([]byte, 4096)
	n, _ := unix.Read(c.spec.TTY, b)
	if bytes.Contains(b[:max(n, 0)], []byte(text)) {
		c.harm("the terminal shows %q", b[:n])
	}
}

const corePattern = "/proc/sys/kernel/core_pattern"

// coreBait mounts a file of the cell over core_pattern in a control. The real
// file belongs to the whole machine.
func coreBait(s *spec) error {
	if !s.Control {
		return nil
	}
	if err := os.WriteFile("/run/core", []byte("core\n"), 0o644); err != nil {
		return err
	}
	return unix.Mount("/run/core", corePattern, "", unix.MS_BIND, "")
}

// corePattern makes the attack write the current content of the file.
func (c *cell) corePattern() {
	before, err := os.Stat(corePattern)
	c.must(err)
	r := c.run(c.attack("sysctl", corePattern))
	now, err := os.Stat(corePattern)
	c.must(err)
	if r.Exit == 0 || c.spec.Control && !now.ModTime().Equal(before.ModTime()) {
		c.harm("%s was written", corePattern)
	}
}

const binfmtDir = "/proc/sys/fs/binfmt_misc"

func binfmtBait(s *spec) error {
	if !s.Control {
		return nil
	}
	return unix.Mount("binfmt_misc", binfmtDir, "binfmt_misc", 0, "")
}

func (c *cell) binfmt() {
	r := c.run(c.attack("register", "/tmp", "metier-harm"))
	if _, err := os.Stat(binfmtDir + "/metier-harm"); err == nil || r.Exit == 0 {
		c.harm("an interpreter was registered with the kernel")
	}
}

// networkWays are cases 101 to 108: connections out of the machine and to its
// other programs. Which hosts a proxy allows is tested with the proxy.
func networkWays() []way {
	ip, dns := "reach an address", "ask for names"
	list := []way{
		{number: 101, name: ip, by: "TCP", do: func(c *cell) { c.dials("tcp", "127.0.0.1:4040", "tcp", "[::1]:4040") }},
		{number: 101, name: ip, by: "UDP", do: func(c *cell) { c.dials("udp", "127.0.0.1:4040", "udp", "[::1]:4040") }},
		{number: 101, name: ip, by: "ICMP", do: (*cell).pings},
		{number: 102, name: dns, by: "resolver", do: func(c *cell) { c.run(c.attack("resolve", "exfiltrated-data.example.com")) }},
		{number: 102, name: dns, by: "a datagram to port 53", do: func(c *cell) { c.dials("udp", "127.0.0.53:53", "udp", "127.0.0.1:53", "udp", metadata+":53") }},
		{number: 103, name: "abstract socket of the host", do: func(c *cell) { c.dials("unix", abstract) }},
		{number: 104, name: "socket at a path", by: "of docker, dbus and an agent", do: func(c *cell) { c.dials("unix", docker, "unix", dbus, "unix", agent) }},
		{number: 104, name: "socket at a path", by: "in the workspace", do: (*cell).workspaceSocket},
		{number: 105, name: "sockets of other families", by: "vsock", do: func(c *cell) { c.holds("socket of family 40", "socket", "40", "1", "0") }},
		{number: 105, name: "sockets of other families", by: "netlink", do: func(c *cell) { c.holds("socket of family 16", "socket", "16", "3", "0") }},
		{number: 105, name: "sockets of other families", by: "packet", do: func(c *cell) { c.holds("socket of family 17", "socket", "17", "3", "768") }},
		{number: 105, name: "sockets of other families", by: "raw", do: func(c *cell) { c.holds("socket of family 2", "socket", "2", "3", "1") }},
		{number: 105, name: "sockets of other families", by: "alg", kernel: "kernels may be built without CONFIG_CRYPTO_USER_API", golden: refusesFamilies, do: func(c *cell) { c.holds("socket of family 38", "socket", "38", "5", "0") }},
		{number: 106, name: "metadata service", do: func(c *cell) { c.dials("tcp", metadata+":80") }},
		{number: 107, name: "listeners of the host, beside a proxy", careless: true, do: (*cell).besideProxy},
		{number: 108, name: "a proxy that ends mid-job", careless: true, do: (*cell).proxyEnds},
	}
	if _, err := os.Stat("/bin/bash"); err == nil {
		list = append(list, way{number: 101, name: ip, by: "/dev/tcp of bash", do: (*cell).devTCP})
	}
	return list
}

func (c *cell) dials(to ...string) { c.run(c.attack(append([]string{"dial", "word"}, to...)...)) }

func (c *cell) devTCP() {
	j := c.attack()
	j.Argv = []string{"/bin/bash", "-c", "exec 9<>/dev/tcp/127.0.0.1/4040; echo word >&9; read x <&9; echo \"$x\""}
	if _, err := c.try(c.t.Context(), j); err != nil {
		c.broken("bash did not start: %v", err)
	}
}

// pings counts the echo requests that this network namespace received.
func (c *cell) pings() {
	echoes := func() string {
		b, err := os.ReadFile("/proc/net/snmp")
		c.must(err)
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); f[0] == "Icmp:" && f[1] != "InMsgs" {
				return f[9]
			}
		}
		return ""
	}
	before := echoes()
	c.run(c.attack("ping", "127.0.0.1"))
	if now := echoes(); now != before {
		c.harm("echo requests arrived: %s, %s before the attack", now, before)
	}
}

func (c *cell) workspaceSocket() {
	dir := c.workspace()
	c.bait.listen("unix", dir+"/daemon.sock")
	j := c.attack("dial", "word", "unix", "/workspace/daemon.sock")
	j.Workspace = &sandbox.Workspace{Host: dir, Writable: true}
	c.run(j)
}
