"""Real masters, and a backend that a test scripts, for the interop tests.

Every process ends with its test or its class of tests, by its own handle; every wait has a bound.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

from thrift.protocol.TBinaryProtocol import TBinaryProtocolFactory
from thrift.protocol.TCompactProtocol import TCompactProtocolFactory
from thrift.transport.TSocket import TServerSocket, TSocket
from thrift.transport.TTransport import (
    TBufferedTransportFactory, TFramedTransportFactory, TTransportException)

from backend import BackendService, HeartbeatService
from backend.ttypes import TBackendInfo, THeartbeatResult
from report import ReportService
from shared.ttypes import TStatus, TStatusCode

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = pathlib.Path(os.environ["INTEROP_WORK"])
DATASET = ROOT / "testdata" / "lance" / "typed.lance"
PATIENCE = 30  # seconds; of every wait for what takes milliseconds on an idle machine
STOPS = 15  # seconds that a process may take to end


LIVE = set()  # the processes that run


def end_all(signum, _):
    """Ends at once. unittest would take an exception for one test's fault and go on."""
    for child in list(LIVE):
        child.kill()
    os._exit(128 + signum)


for _signal in signal.SIGTERM, signal.SIGINT, signal.SIGHUP:
    signal.signal(_signal, end_all)


def eventually(look):
    """Calls look until it returns something true, and returns that."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError("waited %d s in vain for %s" % (PATIENCE, look.__doc__ or look.__name__))
        time.sleep(0.02)


class Wire:
    """A protocol and a transport, by the master's name for them."""

    def __init__(self, name):
        self.name = name
        protocol, _, framed = name.partition("-")
        self.protocol = TBinaryProtocolFactory(strictRead=True) if protocol == "binary" else TCompactProtocolFactory()
        self.transport = TFramedTransportFactory() if framed else TBufferedTransportFactory()


class Process:
    """A program that runs beside a test and must end well when it is told to."""

    fine = (0,)  # exit codes

    def __init__(self, cleanup, name, command, env=None):
        """cleanup is addCleanup or addClassCleanup."""
        self.name = name
        self.log = WORK / ("%s-%d.log" % (name, time.monotonic_ns()))
        with open(self.log, "wb") as out:
            self.child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=WORK,
                env={**{k: v for k, v in os.environ.items() if not k.startswith("LANCEMASTER_ADDR")}, **(env or {})})
        LIVE.add(self.child)
        cleanup(self.stop)

    def printed(self, pattern):
        """Waits for output that a pattern matches; returns its groups."""
        def look():
            found = re.search(pattern, self.log.read_text(errors="replace"))
            if not found and self.child.poll() is not None:
                raise AssertionError("%s ended with %d:\n%s" % (self.name, self.child.returncode, self.log.read_text()))
            return found
        look.__doc__ = "%r from %s" % (pattern, self.name)
        return eventually(look).groups()

    def stop(self):
        if self.child.poll() is None:
            self.child.terminate()
        try:
            code = self.child.wait(STOPS)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait(STOPS)
            code = "SIGKILL, since it did not end within %d s" % STOPS
        LIVE.discard(self.child)
        if code not in self.fine:
            raise AssertionError("%s ended with %s:\n%s" % (self.name, code, self.log.read_text(errors="replace")[-8000:]))


class Example(Process):
    """A backend of the authors' guide: it handles no signal."""

    fine = (-signal.SIGTERM,)


class Master(Process):
    """A master that has formed, with its gate open and one catalog, whose options are also secrets."""

    TOKEN, KEY = "interop-token", "interop-key"

    def __init__(self, cleanup, wire="binary"):
        data = WORK / ("data-%d" % time.monotonic_ns())
        command = [ROOT / "bin" / "lancemaster", "serve", "--data-dir", data, "--backend-protocol", wire, "--report-protocol", wire,
                   "--backend-token", "env:INTEROP_TOKEN"]
        for service in ("admin", "report", "http", "raft"):
            command += ["--%s-listen" % service, "127.0.0.1:0"]
        super().__init__(cleanup, "master", command, {"INTEROP_TOKEN": self.TOKEN, "INTEROP_KEY": self.KEY})
        self.admin, report = self.printed(r"msg=started .*admin=(\S+) report=(\S+) ")
        self.report_address = report.rsplit(":", 1)
        eventually(self.ready)
        self.cli("settings", "set", "admission.enabled=true", "local_datasets.allowed=true", "backend.heartbeat_interval=200ms",
                 "dispatch.max_inflight_per_backend=16")
        self.cli("catalog", "create", "local", "--option", "region=eu", "--secret-option", "secret_key=env:INTEROP_KEY")

    def ready(self):
        """a master that is ready"""
        if self.child.poll() is not None:
            raise AssertionError("the master ended:\n%s" % self.log.read_text())
        return self.cli("health", ends=None).returncode == 0

    def cli(self, *args, ends=0):
        """Runs the command line; ends is the exit code it must have."""
        done = subprocess.run(
            [ROOT / "bin" / "lancemaster", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2 * PATIENCE,
            env={**os.environ, "LANCEMASTER_ADDR": self.admin, "LANCEMASTER_CLIENT_NAME": "interop"})
        if ends is not None and done.returncode != ends:
            raise AssertionError("lancemaster %s: exit code %d, not %d\n%s%s" % (
                " ".join(args), done.returncode, ends, done.stdout, done.stderr))
        return done

    def json(self, *args, ends=0):
        return json.loads(self.cli(*args, "-o", "json", ends=ends).stdout)

    def job(self, number):
        return self.json("job", "show", str(number))

    def create(self, name, column, kind, *more):
        """Submits a job for an index; returns its number."""
        return self.json("index", "create", name, "--catalog", "local", "--table", "demo.typed", "--dataset", str(DATASET),
                         "--column", column, "--type", kind, *more)["job"]["job_id"]

    def wait(self, number, ends):
        """Waits for a job's outcome, by the exit code that stands for it."""
        self.cli("job", "wait", str(number), "--timeout", "%ds" % PATIENCE, ends=ends)

    def backend(self):
        """The one backend that is registered."""
        only, = self.json("backend", "list")["backends"]
        return only

    def add_backend(self, port, heartbeat_port):
        self.cli("backend", "add", "127.0.0.1", "--be-port", str(port), "--heartbeat-port", str(heartbeat_port))

        def alive():
            """a backend that answers its heartbeats"""
            return self.backend()["alive"]
        eventually(alive)


class Backend:
    """A backend in Python. answer decides what a dispatch is answered; what came is kept."""

    def __init__(self, cleanup, wire):
        self.wire, self.epoch = wire, time.time_ns() // 1_000_000
        self.answer = lambda job: TStatus(TStatusCode.OK)
        self.lock, self.dispatches, self.heartbeats = threading.Lock(), [], []
        self.listeners = []
        cleanup(self.stop)
        self.port = self.serve(BackendService.Processor(self))
        self.heartbeat_port = self.serve(HeartbeatService.Processor(self))

    def heartbeat(self, master):
        with self.lock:
            self.heartbeats.append(master)
        return THeartbeatResult(TStatus(TStatusCode.OK), TBackendInfo(
            be_port=self.port, http_port=0, version="python %d.%d" % sys.version_info[:2], be_start_time=self.epoch))

    def submit_lance_index_job(self, job):
        with self.lock:
            self.dispatches.append(job)
        return self.answer(job)

    def dispatched(self, number):
        """Waits for a job's dispatch, which must be its only one."""
        def look():
            with self.lock:
                return [d for d in self.dispatches if d.job_id == number]
        look.__doc__ = "the dispatch of job %d" % number
        found = eventually(look)
        if len(found) != 1:
            raise AssertionError("job %d was sent %d times" % (number, len(found)))
        return found[0]

    def serve(self, processor):
        """Serves on a free port, each connection on a thread. The library's servers cannot be stopped."""
        listener = TServerSocket("127.0.0.1", 0)
        listener.listen()
        self.listeners.append(listener)

        def accept():
            while True:
                try:
                    client = listener.accept()
                except OSError:
                    return  # stopped
                client.setTimeout(PATIENCE * 1000)
                threading.Thread(target=handle, args=(client,), daemon=True).start()

        def handle(client):
            transport = self.wire.transport.getTransport(client)
            protocol = self.wire.protocol.getProtocol(transport)
            try:
                while True:
                    processor.process(protocol, protocol)
            except TTransportException:
                pass  # the master closed
            finally:
                transport.close()

        threading.Thread(target=accept, daemon=True).start()
        return listener.handle.getsockname()[1]

    def stop(self):
        for listener in self.listeners:
            listener.handle.shutdown(socket.SHUT_RDWR)  # wakes accept
            listener.close()

    def call(self, master, method, said):
        """Calls the master's report service over a connection of its own."""
        host, port = master.report_address
        client = TSocket(host, int(port))
        client.setTimeout(PATIENCE * 1000)
        transport = self.wire.transport.getTransport(client)
        transport.open()
        try:
            return getattr(ReportService.Client(self.wire.protocol.getProtocol(transport)), method)(said)
        finally:
            transport.close()


def free_ports(count):
    """Ports that are free now, for programs that must be told theirs."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()
